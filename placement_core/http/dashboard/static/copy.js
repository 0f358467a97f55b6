// Buttons that copy a command.
import { prepareAll } from "./roving.js";

const BUTTON = "button[data-copy]";
const SECONDS_TO_TELL = 3;

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return "Copied";
  } catch {
    // Over plain HTTP from another machine, browsers have no clipboard for pages.
    select(code);
    return "Press Ctrl+C";
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(BUTTON);
  const code = button && document.getElementById(button.dataset.copy);
  if (!code) {
    return;
  }
  const label = (button.dataset.label ??= button.textContent);
  const outcome = await copy(code);
  button.textContent = outcome;
  document.getElementById("live")?.replaceChildren(outcome);
  setTimeout(() => button.replaceChildren(label), SECONDS_TO_TELL * 1000);
});

prepareAll((root) => {
  for (const button of root.querySelectorAll(BUTTON)) {
    button.hidden = false;
  }
});
