"""What the scripts do, on a small page that this test serves and changes."""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Callable

from playwright import sync_api

import placement_core
from tests.browser import cases

_STATIC = pathlib.Path(placement_core.__file__).parent / "http" / "dashboard" / "static"
_ORIGIN = "http://dashboard.test"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
           "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")

_STYLES = "\n".join(
    f'<link rel="stylesheet" href="/static/{path.name}">'
    for path in sorted(_STATIC.glob("*.css")))
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Test {free}</title>
<link rel="icon" href="/static/icon.svg">
{styles}
<script type="module" src="/static/dashboard.js"></script></head>
<body{refresh}>
<main id="main" tabindex="-1"><h1>Test</h1>
<form><label>Needed <input id="needed"></label></form>
<section id="room" data-refresh><h2>Room</h2><p id="free">{free} free</p>
<div class="scroll" id="wide" role="region" aria-label="wide" tabindex="0">
<p class="number">{wide}</p></div>
<details id="more"><summary>More</summary><p>text</p></details>
<p><a href="/host1" id="host1">host1</a> <a href="/host2">host2</a></p>
<label>Filter <input id="filter"></label></section>
{content}
</main>
<footer id="refreshed" data-refresh><p>As of {free}</p></footer>
<p class="visually-hidden" role="status" id="live"></p></body></html>"""

_GRID = """<div role="grid" id="map" aria-label="Hosts">""" + "".join(
    f'<div role="row"><span role="rowheader">group {row}</span>' + "".join(
        f'<span role="gridcell"><a href="#h{row}{column}" id="h{row}{column}">host {row}{column}'
        '</a></span> ' for column in range(columns)) + "</div>"
    for row, columns in ((0, 3), (1, 3), (2, 2))) + "</div>"

_TREE = """<div id="projects" data-refresh><table role="treegrid" id="tree" aria-label="Projects">
<tr role="row"><th role="columnheader">Project</th><th role="columnheader">Used</th></tr>""" + (
    "".join(f"""<tr role="row" id="{name}" aria-level="{level}"{
        ' aria-expanded="true"' if name in ("research", "physics") else ""}>
<th scope="row" role="rowheader"><a href="#to-{name}">{name}</a></th>
<td role="gridcell">1</td></tr>""" for name, level in (
        ("research", 1), ("physics", 2), ("detector", 3), ("biology", 2), ("web", 1)))
) + "</table></div>"

_BARS = """<figure class="picture"><svg class="drawing" viewBox="0 0 30 10">
<g data-bars role="list" id="leases" aria-label="Leases">""" + "".join(
    f'<g role="listitem" data-bar id="l{number}" aria-label="lease {number}">'
    f'<rect class="lease" x="{number * 10}" width="8" height="8"/></g>' for number in range(3)
) + """</g></svg><p data-bars-text role="status"></p></figure>"""


class ScriptTestCase(cases.BrowserTestCase):
    """A page with regions of which the test says what they have.

    :ivar free: changes with the test.
    :ivar conditions: the If-None-Match of each request for the page.
    """

    content = ""

    def setUp(self) -> None:
        super().setUp()
        self.free = 1
        self.status = 200
        self.conditions: list[str | None] = []
        self.page = self.make_page()
        self.page.route(f"{_ORIGIN}/**", self._serve)
        # It stands still before the page is there, however long that takes.
        self.page.clock.install(time=0)
        self.page.clock.pause_at(1)
        self.page.goto(f"{_ORIGIN}/")

    def _serve(self, route: sync_api.Route) -> None:
        path = route.request.url.removeprefix(_ORIGIN)
        if match := re.fullmatch("/static/(.+)", path):
            file = _STATIC / match[1]
            route.fulfill(body=file.read_bytes(), content_type=_TYPES[file.suffix])
            return
        text = _PAGE.format(
            free=self.free, wide="wide " * 500, content=self.content, styles=_STYLES,
            refresh=' data-refresh-seconds="5"' if self.status == 200 else "")
        tag = f'"{hashlib.sha256(text.encode()).hexdigest()}"'
        condition = route.request.headers.get("if-none-match")
        self.conditions.append(condition)
        if self.status == 0:
            route.abort()
        elif self.status == 200 and condition == tag:
            route.fulfill(status=304, headers={"ETag": tag})
        else:
            route.fulfill(status=self.status, body=text, content_type="text/html", headers={
                "ETag": tag, "Content-Security-Policy": _POLICY})

    def refresh(self, footer: str) -> None:
        """Let time pass until the last line of the page begins with ``footer``."""
        self.pass_until(lambda: self.page.inner_text("#refreshed").startswith(footer))

    def pass_until(self, condition: Callable[[], bool]) -> None:
        """Let time pass, on the page, until something is the case."""
        def step() -> bool:
            self.page.clock.run_for(1000)
            return condition()

        self.until(step)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(400):
            if condition():
                return
            self.page.wait_for_timeout(10)
        self.fail("it did not happen")

    def get_focused(self) -> str:
        """Return the id of what has the focus."""
        return str(self.page.evaluate("document.activeElement.id"))

    def press(self, *keys: str) -> list[str]:
        """Press keys; return the id of what has the focus after each one."""
        focused = []
        for key in keys:
            self.page.keyboard.press(key)
            focused.append(self.get_focused())
        return focused


class TestRefresh(ScriptTestCase):
    def test_what_changed_is_replaced(self) -> None:
        """The form stays, and what the server need not send again is not sent."""
        self.page.fill("#needed", "12")
        self.free = 2
        self.refresh("As of 2")
        self.assertEqual("2 free", self.page.inner_text("#free"))
        self.assertEqual("Test 2", self.page.title())
        self.assertEqual("12", self.page.input_value("#needed"))
        self.pass_until(lambda: len(self.conditions) == 3)
        self.assertEqual([None, None], self.conditions[:2])
        self.assertIsNotNone(self.conditions[2])

    def test_what_the_user_did_stays(self) -> None:
        """Focus, open details, what is scrolled, and what was typed, in parts that change."""
        self.page.click("#more > summary")
        self.page.evaluate("document.getElementById('wide').scrollLeft = 120")
        self.page.fill("#filter", "rack1")
        for selector, focused in (("#host1", "host1"), ("a[href='/host2']", "")):
            self.page.focus(selector)
            self.free += 1
            self.refresh(f"As of {self.free}")
            self.assertEqual(f"{self.free} free", self.page.inner_text("#free"))
            self.assertEqual(focused, self.get_focused())
            self.assertEqual(selector, self.page.evaluate(
                "selector => document.activeElement.matches(selector) && selector", selector))
        self.assertTrue(self.page.evaluate("document.getElementById('more').open"))
        self.assertEqual(120, self.page.evaluate("document.getElementById('wide').scrollLeft"))
        self.assertEqual("rack1", self.page.input_value("#filter"))

    def test_what_is_in_use_waits(self) -> None:
        """A part in which text is marked, or typed, is replaced when that is over."""
        for begin, end in (
            ("getSelection().selectAllChildren(document.getElementById('free'))",
             "getSelection().removeAllRanges()"),
            ("getSelection().setBaseAndExtent(document.querySelector('h1').firstChild, 0,"
             " document.getElementById('free').firstChild, 4)",
             "getSelection().removeAllRanges()"),
            ("getSelection().setBaseAndExtent(document.getElementById('free').firstChild, 4,"
             " document.querySelector('h1').firstChild, 0)",
             "getSelection().removeAllRanges()"),
            ("document.getElementById('filter').focus()", "document.activeElement.blur()"),
        ):
            self.page.evaluate(begin)
            before = self.page.inner_text("#free")
            self.free += 1
            self.refresh(f"As of {self.free}")
            self.assertEqual(before, self.page.inner_text("#free"))
            self.page.evaluate(end)
            self.pass_until(lambda: self.page.inner_text("#free") == f"{self.free} free")

    def test_the_server_is_away(self) -> None:
        """The page says since when it is old, until it is not."""
        for status, problem in ((0, "does not answer"), (503, "answers 503")):
            self.status = status
            self.refresh("Not refreshed")
            text = self.page.inner_text("#refreshed")
            self.assertRegex(text, rf"Not refreshed since .*: the server {problem}")
            self.assertEqual(text, self.page.inner_text("#live"))
            self.status = 200
            self.refresh("As of 1")
            self.assertEqual("", self.page.inner_text("#live"))
        # The browser reports that on its console, too.
        self.assertEqual(2, len(self.forgive_reports("Failed to load resource")))

    def test_the_page_is_gone(self) -> None:
        """What the server says instead takes its place, and is not asked for again."""
        for status in (403, 404):
            self.status = 200
            self.page.goto(f"{_ORIGIN}/")
            self.free, self.status = status, status
            self.pass_until(lambda: self.page.inner_text("#free") == f"{self.free} free")
            self.assert_nothing_is_asked()
        self.forgive_reports("Failed to load resource")

    def test_the_page_is_refused(self) -> None:
        """Nothing is wrong with the server: what is typed stays, and why is there to be read."""
        self.status = 400
        self.page.fill("#needed", "12")
        self.refresh("Not refreshed")
        self.assertRegex(
            self.page.inner_text("#refreshed"), "this page is refused .400., load it again")
        self.assertEqual("12", self.page.input_value("#needed"))
        self.assert_nothing_is_asked()
        self.assertEqual(1, len(self.forgive_reports("Failed to load resource")))

    def assert_nothing_is_asked(self) -> None:
        before = len(self.conditions)
        self._set_visibility("visible")
        self.page.clock.run_for(60_000)
        self.page.wait_for_timeout(100)
        self.assertEqual(before, len(self.conditions))

    def test_nobody_looks(self) -> None:
        """Nothing is asked, until somebody looks again."""
        self._set_visibility("hidden")
        before = len(self.conditions)
        self.page.clock.run_for(60_000)
        self.page.wait_for_timeout(100)
        self.assertEqual(before, len(self.conditions))
        self.free = 2
        self._set_visibility("visible")
        self.until(lambda: self.page.inner_text("#free") == "2 free")

    def _set_visibility(self, state: str) -> None:
        self.page.evaluate("""state => {
            Object.defineProperty(document, "visibilityState", {value: state, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""", state)


class TestFocus(ScriptTestCase):
    content = """<section id="hosts" data-refresh><h2>Hosts: {free}</h2>
<div class="scroll" role="group" aria-label="wide" tabindex="0" id="map-scroll">
<a href="/host1">host1</a> <a href="/host2">host2</a></div>
<details id="table"><summary>The same as a table</summary><p>text</p></details>
<p><a href="/host1">host1</a> <a href="/host2">host2</a></p>
<p><code id="command">fits</code> <button data-copy="command" hidden>Copy</button></p></section>"""

    def test_it_stays(self) -> None:
        """What has no id is found again, also where a second link leads to the same page."""
        template = self.content
        for selector, index in (
                ("summary", 1), ("a[href='/host2']", 1), ("a[href='/host2']", 2),
                ("a[href='/host1']", 2), ("[data-copy]", 0)):
            self.page.locator(selector).nth(index).focus()
            self.free += 1
            self.content = template.format(free=self.free)
            self.refresh(f"As of {self.free}")
            self.assertEqual(f"Hosts: {self.free}", self.page.inner_text("#hosts > h2"))
            self.assertEqual((selector, index), (selector, self.page.evaluate(
                "selector => Array.from(document.querySelectorAll(selector)).indexOf("
                "document.activeElement)", selector)))


class TestGrid(ScriptTestCase):
    content = _GRID

    def test_keys(self) -> None:
        self.page.focus("#filter")
        self.assertEqual(["h00"], self.press("Tab"))
        self.assertEqual(
            ["h01", "h02", "h10", "h02", "h12", "h21", "h21", "h11"],
            self.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown",
                       "ArrowDown", "ArrowDown", "ArrowUp"))
        self.assertEqual(
            ["h10", "h12", "h00", "h21", "h01", "h21"],
            self.press("Home", "End", "Control+Home", "Control+End", "PageUp", "PageDown"))
        # One Tab stop, which stays where it was.
        self.press("Tab")
        self.assertEqual(["h21"], self.press("Shift+Tab"))


class TestTree(ScriptTestCase):
    content = _TREE

    def test_keys(self) -> None:
        self.page.focus("#filter")
        self.assertEqual(["research"], self.press("Tab"))
        self.assertEqual(
            ["physics", "detector", "biology", "web", "web", "research", "web"],
            self.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Home",
                       "End"))
        # To the parent, whose children are folded away, and so on.
        self.assertEqual(
            ["biology", "research", "research", "web", "research", "research", "physics"],
            self.press("ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowUp", "ArrowRight",
                       "ArrowRight"))
        self.press("ArrowLeft")
        self.assertEqual(["biology", "web"], self.press("ArrowDown", "ArrowDown"))
        self.press("Enter")
        self.assertTrue(self.page.url.endswith("#to-web"))

    def test_a_row_that_gets_hidden(self) -> None:
        """Tab reaches the tree also when the row with its Tab stop moved below a folded one."""
        self.page.focus("#research")
        self.press("ArrowLeft", "End")
        self.page.focus("#needed")
        self.content = self.content.replace('id="web" aria-level="1"', 'id="web" aria-level="2"')
        self.free = 2
        self.refresh("As of 2")
        self.assertFalse(self.page.is_visible("#web"))
        self.page.focus("#filter")
        self.assertEqual(["research"], self.press("Tab"))

    def test_the_mouse(self) -> None:
        self.page.focus("#detector")
        self.page.click("#physics > th", position={"x": 3, "y": 5})
        self.assertFalse(self.page.is_visible("#detector"))
        self.assertEqual("false", self.page.get_attribute("#physics", "aria-expanded"))
        self.page.click("#physics > th", position={"x": 3, "y": 5})
        self.assertTrue(self.page.is_visible("#detector"))


class TestBars(ScriptTestCase):
    content = _BARS

    def test_keys(self) -> None:
        self.page.focus("#filter")
        self.assertEqual(["l0"], self.press("Tab"))
        self.assertEqual("lease 0", self.page.inner_text("[data-bars-text]"))
        self.assertEqual(["l1", "l2", "l2", "l0", "l2"], self.press(
            "ArrowRight", "ArrowDown", "ArrowRight", "Home", "End"))
        self.assertEqual("lease 2", self.page.inner_text("[data-bars-text]"))
        self.page.hover("#l1")
        self.assertEqual("lease 1", self.page.inner_text("[data-bars-text]"))


class TestCopy(ScriptTestCase):
    content = """<div class="copy"><code id="command">placement-core fits</code>
<button type="button" data-copy="command" hidden>Copy</button></div>"""

    def test_without_a_clipboard(self) -> None:
        """It marks the text for the user, because the page did not come over HTTPS."""
        self.page.click("button")
        self.page.get_by_text("Press Ctrl+C").first.wait_for()
        self.assertEqual("placement-core fits", self.page.evaluate("String(getSelection())"))
        self.page.clock.run_for(3000)
        self.assertEqual("Copy", self.page.inner_text("button"))
