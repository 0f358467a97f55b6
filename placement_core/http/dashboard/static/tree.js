// The tree of projects as a tree grid: arrow keys move between rows, and fold their children.
import { isShortcut, moveTo, prepareAll, rove, setStop } from "./roving.js";

const TREE = '[role="treegrid"]';
const ROW = "[aria-level]";

// Ids of the rows whose children are folded away: a refresh makes new rows.
const folded = new Set();

const getLevel = (row) => Number(row.getAttribute("aria-level"));
const isFolded = (row) => row.getAttribute("aria-expanded") === "false";
const listRows = (tree) => Array.from(tree.querySelectorAll(ROW));
const listVisibleRows = (tree) => listRows(tree).filter((row) => !row.hidden);

/** Hide the rows below folded ones, and show the others. */
function applyFolds(tree) {
  let foldedLevel = Infinity;
  for (const row of listRows(tree)) {
    if (row.hasAttribute("aria-expanded")) {
      row.setAttribute("aria-expanded", String(!folded.has(row.id)));
    }
    if (getLevel(row) <= foldedLevel) {
      foldedLevel = isFolded(row) ? getLevel(row) : Infinity;
      row.hidden = false;
    } else {
      row.hidden = true;
    }
  }
}

function setFolded(tree, row, value) {
  if (value) {
    folded.add(row.id);
  } else {
    folded.delete(row.id);
  }
  applyFolds(tree);
  if (tree.querySelector('[tabindex="0"]')?.hidden) {
    setStop(tree, row);
  }
}

function findParent(rows, index) {
  const level = getLevel(rows[index]);
  return rows.slice(0, index).findLast((row) => getLevel(row) < level);
}

/** Do what a key says; return the row that gets the focus, or null if the key is not for a tree. */
function handleKey(tree, row, key) {
  const rows = listVisibleRows(tree);
  const index = rows.indexOf(row);
  const isParent = row.hasAttribute("aria-expanded");
  switch (key) {
    case "ArrowUp":
      return rows[index - 1] ?? row;
    case "ArrowDown":
      return rows[index + 1] ?? row;
    case "Home":
      return rows[0];
    case "End":
      return rows.at(-1);
    case "ArrowRight":
      if (isParent && !isFolded(row)) {
        return rows[index + 1];
      }
      if (isParent) {
        setFolded(tree, row, false);
      }
      return row;
    case "ArrowLeft":
      if (isParent && !isFolded(row)) {
        setFolded(tree, row, true);
        return row;
      }
      return findParent(rows, index) ?? row;
    case "Enter":
      row.querySelector("a")?.click();
      return row;
    default:
      return null;
  }
}

document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.(`${TREE} ${ROW}`);
  if (!row || event.target !== row || isShortcut(event) || event.ctrlKey) {
    return;
  }
  const tree = row.closest(TREE);
  const target = handleKey(tree, row, event.key);
  if (target) {
    event.preventDefault();
    moveTo(tree, target);
  }
});

// The mouse folds by what stands before the name.
document.addEventListener("click", (event) => {
  const header = event.target.closest?.(`${TREE} [aria-expanded] [role="rowheader"]`);
  if (header && !event.target.closest("a")) {
    const row = header.closest(ROW);
    setFolded(row.closest(TREE), row, !isFolded(row));
  }
});

prepareAll((root) => {
  for (const tree of root.querySelectorAll(TREE)) {
    for (const link of tree.querySelectorAll(`${ROW} a`)) {
      // Enter follows it from its row.
      link.setAttribute("tabindex", "-1");
    }
    applyFolds(tree);
  }
  rove(root, TREE, listRows);
});
