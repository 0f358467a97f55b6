// The map of hosts as a grid: arrow keys move between its cells.
import { isShortcut, moveTo, prepareAll, rove } from "./roving.js";

const GRID = '[role="grid"]';
const ROWS_OF_A_PAGE = 10;

/** The focusable elements of a grid, row by row. */
function listRows(grid) {
  return Array.from(grid.querySelectorAll('[role="row"]'), (row) =>
    Array.from(row.querySelectorAll('[role="gridcell"]'), (cell) =>
      cell.matches("a") ? cell : (cell.querySelector("a") ?? cell))).filter((row) => row.length);
}

/** Where a key leads to from a row and a column; null: it is not for the grid. */
function findTarget(rows, row, column, event) {
  const lastRow = rows.length - 1;
  switch (event.key) {
    case "ArrowLeft":
      return column > 0 ? [row, column - 1] : [row - 1, Infinity];
    case "ArrowRight":
      return column < rows[row].length - 1 ? [row, column + 1] : [row + 1, 0];
    case "ArrowUp":
      return [row - 1, column];
    case "ArrowDown":
      return [row + 1, column];
    case "PageUp":
      return [Math.max(row - ROWS_OF_A_PAGE, 0), column];
    case "PageDown":
      return [Math.min(row + ROWS_OF_A_PAGE, lastRow), column];
    case "Home":
      return [event.ctrlKey ? 0 : row, 0];
    case "End":
      return [event.ctrlKey ? lastRow : row, Infinity];
    default:
      return null;
  }
}

document.addEventListener("keydown", (event) => {
  const grid = event.target.closest?.(GRID);
  if (!grid || isShortcut(event)) {
    return;
  }
  const rows = listRows(grid);
  const row = rows.findIndex((cells) => cells.includes(event.target));
  const target = row < 0 ? null : findTarget(rows, row, rows[row].indexOf(event.target), event);
  if (!target) {
    return;
  }
  event.preventDefault();
  const cells = rows[target[0]];
  if (cells) {
    moveTo(grid, cells[Math.min(target[1], cells.length - 1)]);
  }
});

prepareAll((root) => rove(root, GRID, (grid) => listRows(grid).flat()));
