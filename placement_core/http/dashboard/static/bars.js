// Bars of pictures: arrow keys move between them, and a line below says what each one means.
import { isShortcut, moveTo, prepareAll, rove } from "./roving.js";

const BARS = "[data-bars]";
const BAR = "[data-bar]";

const listBars = (group) => Array.from(group.querySelectorAll(BAR));

const MOVES = {
  ArrowLeft: (index) => index - 1,
  ArrowUp: (index) => index - 1,
  ArrowRight: (index) => index + 1,
  ArrowDown: (index) => index + 1,
  Home: () => 0,
  End: (_index, last) => last,
};

document.addEventListener("keydown", (event) => {
  const group = event.target.closest?.(BARS);
  const move = MOVES[event.key];
  if (!group || !move || isShortcut(event) || event.ctrlKey) {
    return;
  }
  event.preventDefault();
  const bars = listBars(group);
  const bar = bars[move(bars.indexOf(event.target), bars.length - 1)];
  if (bar) {
    moveTo(group, bar);
  }
});

function describe(event) {
  const bar = event.target.closest?.(BAR);
  const text = bar?.closest("figure")?.querySelector("[data-bars-text]");
  if (text) {
    text.textContent = bar.getAttribute("aria-label");
  }
}

document.addEventListener("focusin", describe);
document.addEventListener("pointerover", describe);

prepareAll((root) => rove(root, BARS, listBars));
