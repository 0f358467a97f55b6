// One Tab stop for a group of elements; arrow keys move inside it
// (WAI-ARIA Authoring Practices, "roving tabindex").

// {id of a group: id of the element that has its Tab stop}: a refresh makes new elements.
const stops = new Map();

/**
 * Give each group that stands in `root` one Tab stop, where it was before.
 *
 * @param {ParentNode} root
 * @param {string} selector of the groups
 * @param {(group: Element) => Element[]} listItems the elements of a group, in their order
 */
export function rove(root, selector, listItems) {
  for (const group of root.querySelectorAll(selector)) {
    const items = listItems(group);
    const stop = items.find(
      (item) => item.id && item.id === stops.get(group.id) && !item.hidden) ?? items[0];
    for (const item of items) {
      item.setAttribute("tabindex", item === stop ? "0" : "-1");
    }
  }
}

/** Give another element the Tab stop of its group. */
export function setStop(group, item) {
  group.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  item.setAttribute("tabindex", "0");
  stops.set(group.id, item.id);
}

/** Move the focus, and the Tab stop of its group with it. */
export function moveTo(group, item) {
  setStop(group, item);
  item.focus();
}

/**
 * Call `prepare` for the document, and for each part of it that a refresh replaced.
 *
 * @param {(root: ParentNode) => void} prepare
 */
export function prepareAll(prepare) {
  prepare(document);
  document.addEventListener("dashboard:replaced", (event) => prepare(event.target));
}

/** Whether a key is pressed with a modifier that makes it the browser's own. */
export function isShortcut(event) {
  return event.altKey || event.metaKey || event.defaultPrevented;
}
