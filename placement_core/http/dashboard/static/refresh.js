// Keeps a page current while it is looked at: fetches it anew, and replaces what has changed.

const PART = "[data-refresh][id]";
const FIELD = "input[id]:not([type=hidden]), select[id], textarea[id]";
// The page is not there any more, or not for this reader.
const GONE = [401, 403, 404, 410];
// What the server says of itself, and not of the request.
const isPassing = (status) => status >= 500 || status === 408 || status === 429;
const seconds = Number(document.body.dataset.refreshSeconds);

// {id: markup as the server sent it}: scripts change what stands in the document.
const markup = new Map(
  Array.from(document.querySelectorAll(PART), (part) => [part.id, part.outerHTML]));
let etag = null;
let current = new Date();
let timer = null;
let running = false;
// Whether the server will answer no better to the same request.
let refused = false;

/** Whether the user has marked text there, or is in a field: it stays as it is for now. */
function isInUse(part) {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && selection.containsNode(part, true)) {
    return true;
  }
  return part.contains(document.activeElement) && document.activeElement.matches(FIELD);
}

/** A selector of what an element is. */
function describe(element) {
  if (element.id) {
    return `#${CSS.escape(element.id)}`;
  }
  if (element.matches("details[id] > summary")) {
    return `#${CSS.escape(element.parentElement.id)} > summary`;
  }
  const name = ["href", "data-copy"].find((each) => element.hasAttribute(each));
  return name ? `[${name}="${CSS.escape(element.getAttribute(name))}"]` : element.localName;
}

/** Return a function that finds the element again in the part that takes the place of its own. */
function locate(part, element) {
  const selector = describe(element);
  // Links may lead to the same page.
  const index = Array.from(part.querySelectorAll(selector)).indexOf(element);
  return (fresh) => fresh.querySelectorAll(selector)[index];
}

/** Remember what a user did to a part; return a function that does it to a fresh one. */
function keepState(part) {
  const hasFocus = part.contains(document.activeElement);
  const findFocused = hasFocus && locate(part, document.activeElement);
  const details = new Map(Array.from(
    part.querySelectorAll("details"), (each, index) => [each.id || index, each.open]));
  const scrollers = Array.from(part.querySelectorAll(".scroll[id]"),
    (each) => [each.id, each.scrollLeft, each.scrollTop]);
  const fields = Array.from(part.querySelectorAll(FIELD),
    (each) => [each.id, each.value, each.checked]);
  return (fresh) => {
    fresh.querySelectorAll("details").forEach((each, index) => {
      each.open = details.get(each.id || index) ?? each.open;
    });
    for (const [id, left, top] of scrollers) {
      document.getElementById(id)?.scrollTo(left, top);
    }
    for (const [id, value, checked] of fields) {
      const field = document.getElementById(id);
      if (field) {
        field.value = value;
        field.checked = checked;
      }
    }
    if (hasFocus) {
      const focused = findFocused(fresh) ?? fresh.querySelector('[tabindex="0"], a, button');
      focused?.focus({ preventScroll: true });
    }
  };
}

/** Replace the parts that differ; return whether all of them are as the server sent them. */
function update(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  document.title = fresh.title;
  let complete = true;
  for (const part of fresh.querySelectorAll(PART)) {
    const old = document.getElementById(part.id);
    const html = part.outerHTML;
    if (!old || markup.get(part.id) === html) {
      continue;
    }
    if (isInUse(old)) {
      complete = false;
      continue;
    }
    const restore = keepState(old);
    old.replaceWith(document.adoptNode(part));
    markup.set(part.id, html);
    part.dispatchEvent(new CustomEvent("dashboard:replaced", { bubbles: true }));
    restore(part);
  }
  return complete;
}

/** Tell it to who does not see the page; what has been told is not told again. */
function tell(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) {
    live.textContent = text;
  }
}

function showStale(problem) {
  const footer = document.getElementById("refreshed");
  if (!footer) {
    return;
  }
  const time = current.toLocaleTimeString();
  const text = `Not refreshed since ${time}: ${problem}.`;
  tell(text);
  footer.classList.add("stale");
  footer.replaceChildren(Object.assign(document.createElement("p"), { textContent: text }));
  // What the server says next is another text.
  markup.delete("refreshed");
  etag = null;
}

async function refresh() {
  let response;
  try {
    response = await fetch(location.href, {
      cache: "no-store",
      credentials: "same-origin",
      redirect: "manual",
      headers: etag ? { "If-None-Match": etag } : {},
      signal: AbortSignal.timeout(6 * seconds * 1000),
    });
    if (response.status === 200) {
      const complete = update(await response.text());
      etag = complete ? response.headers.get("ETag") : null;
    }
  } catch {
    showStale("the server does not answer");
    return;
  }
  if (response.type === "opaqueredirect" || GONE.includes(response.status)) {
    // The session has ended, or what is shown is not to be seen any more. The server says so.
    refused = true;
    location.reload();
  } else if (response.ok || response.status === 304) {
    current = new Date();
    tell("");
  } else if (isPassing(response.status)) {
    showStale(`the server answers ${response.status}`);
  } else {
    // A form may be half filled in, so the page stays.
    refused = true;
    showStale(`this page is refused (${response.status}), load it again to see why`);
  }
}

function isVisible() {
  return document.visibilityState === "visible";
}

/** Refresh now, and again after some seconds, as long as somebody looks. */
async function run() {
  clearTimeout(timer);
  if (running || refused || !isVisible()) {
    return;
  }
  running = true;
  await refresh();
  running = false;
  timer = setTimeout(run, seconds * 1000);
}

if (seconds > 0) {
  document.addEventListener("visibilitychange", run);
  timer = setTimeout(run, seconds * 1000);
}
