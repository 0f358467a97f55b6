"""Each page of the dashboard, as people of all kinds use it: eyes, keyboards, windows."""

from __future__ import annotations

import re
from typing import ClassVar

from tests.browser import cases, clouds

#: Each answer of the overview, in each colour; fields that nobody can read; other pictures.
_QUESTIONS = (
    "?count=3&vcpu=4&memory_mb=8192&project=simulation&duration=2d",
    "?count=4&vcpu=8&memory_mb=65536&required=HW_CPU_X86_AVX2,STORAGE_DISK_SSD&project=detector"
    "&duration=14d",
    "?count=0&vcpu=4&project=nobody",
    "/hosts?by=trait", "/leases?by=host", "/leases?by=project",
    "/explain?resources=VCPU:4&required=STORAGE_DISK_SSD", "/explain?resources=VCPU:400",
)
#: Numbers what can have the focus, as a person sees it; returns how much there is.
_MARK_STOPS = """() => {
  const stops = Array.from(document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]"
  )).filter((element) => element.tabIndex >= 0 && !element.disabled
    && element.checkVisibility({visibilityProperty: true}));
  stops.forEach((element, index) => element.setAttribute("data-test-stop", index));
  return stops.length;
}"""
#: The parts of the overview that scroll sideways.
FIND_HIDDEN_COLUMNS = """() => Array.from(document.querySelectorAll(".scroll"))
  .filter((element) => element.scrollWidth > element.clientWidth)
  .map((element) => element.id)"""
#: The stop that has the focus, whether that is to be seen, and its markup.
_SHOW_FOCUS = """() => {
  const element = document.activeElement;
  const isWide = (width) => parseFloat(width) >= 2;
  const style = getComputedStyle(element);
  const seen = (style.outlineStyle !== "none" && isWide(style.outlineWidth))
    || (element.closest("svg") && Array.from(element.querySelectorAll("rect")).some(
      (rect) => isWide(getComputedStyle(rect).strokeWidth)));
  return [element.getAttribute("data-test-stop"), Boolean(seen),
          element.outerHTML.slice(0, 200)];
}"""


class TestPages(cases.DemoTestCase):
    questions = _QUESTIONS
    refusals: ClassVar[clouds.Refusals]

    @classmethod
    def setUpClass(cls) -> None:
        """Have those pages, too, that no link leads to: the login, and errors."""
        super().setUpClass()
        cls.refusals = clouds.Refusals()
        cls.refusals.setUp()
        cls.addClassCleanup(cls.refusals.cleanUp)
        cls.urls_of_all = {**cls.urls_of_all, **cls.refusals.urls}

    def setUp(self) -> None:
        super().setUp()
        # What the browser says of a form with wrong fields, and of errors.
        for status in ("400 (Bad Request)", "403 (Forbidden)", "404 (Not Found)"):
            self.addCleanup(self.forgive_reports, status)

    def test_every_page_can_be_reached(self) -> None:
        """By links, from the overview."""
        self.assertEqual(clouds.list_routes(), set(self.urls))

    def test_refusals(self) -> None:
        """The pages that no link leads to are what they are taken for."""
        page = self.make_page()
        statuses = {}
        for name, url in self.refusals.urls.items():
            response = page.goto(url)
            assert response is not None
            statuses[name] = response.status
        self.assertEqual({"/login": 200, "403": 403, "404": 404}, statuses)

    def test_accessible(self) -> None:
        """Axe finds nothing, by day and by night."""
        page = self.make_page()
        for route, url in self.urls_of_all.items():
            page.goto(url)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                self.assert_accessible(page, (route, scheme))

    def test_widths(self) -> None:
        """Nobody scrolls sideways: at a desk, with a phone, or at 400 %."""
        for options in ({"viewport": cases.WIDE},
                        {"viewport": cases.NARROW, "device_scale_factor": 4}):
            page = self.make_page(**options)
            for route, url in self.urls_of_all.items():
                page.goto(url)
                self.assert_fits(page, (route, options))

    def test_all_columns_show(self) -> None:
        """No table of the overview scrolls sideways in a window of a usual width."""
        page = self.make_page()
        for query in ("", _QUESTIONS[0]):
            page.goto(f"{self.dashboard.url}{query}")
            self.assertEqual([], page.evaluate(FIND_HIDDEN_COLUMNS), query)

    def test_without_scripts(self) -> None:
        """All is there: nothing waits for a script, and nothing is hidden until one runs."""
        with_scripts, without = self.make_page(), self.make_page(java_script_enabled=False)
        for route, url in self.urls_of_all.items():
            texts = []
            for page in (with_scripts, without):
                page.goto(url)
                # In between a minute may begin, and a table get a row: of a request that was
                # refused just now.
                texts.append({" ".join(re.sub(r"\d", "0", text).split()) for text in page.locator(
                    "h1, h2, h3, caption, th, label").all_inner_texts()})
            self.assertEqual(*texts, route)
            for control in without.locator("main button, main a, main summary").all():
                self.assertTrue(control.get_attribute("hidden") is None
                                or control.get_attribute("data-copy"), route)

    def test_keyboard(self) -> None:
        """Tab reaches everything, in the order of the page, and shows where it is."""
        page = self.make_page()
        for route, url in self.urls_of_all.items():
            page.goto(url)
            stops = [str(number) for number in range(page.evaluate(_MARK_STOPS))]
            reached: list[str | None] = []
            while reached[-1:] not in ([stops[-1]], [None]):
                page.keyboard.press("Tab")
                stop, seen, html = page.evaluate(_SHOW_FOCUS)
                self.assertTrue(seen, (route, html))
                # A field for a time has stops of its own.
                if [stop] != reached[-1:]:
                    reached.append(stop)
            self.assertEqual(stops, reached, route)


    def test_arrows(self) -> None:
        """Inside the map, the tree and the bars of the overview; each is one Tab stop."""
        page = self.make_page()
        page.goto(self.dashboard.url)
        for selector, item, key in (
            ("[role=grid]", "a", "ArrowRight"), ("[role=treegrid]", "[aria-level]", "ArrowDown"),
            ("#time [data-bars]", "[data-bar]", "ArrowRight"),
        ):
            group = page.locator(selector).first
            stops = group.locator("[tabindex='0']")
            self.assertEqual(1, stops.count(), selector)
            stops.focus()
            page.keyboard.press(key)
            focused = page.evaluate("document.activeElement.id")
            self.assertEqual(group.locator(item).nth(1).get_attribute("id"), focused)
            self.assertEqual(focused, stops.get_attribute("id"))
        self.assertEqual(
            page.locator("#time [data-bar]").nth(1).get_attribute("aria-label"),
            page.inner_text("#time [data-bars-text]"))

    def test_arrows_across_groups(self) -> None:
        """Each group begins a row, also in a narrow window, where its name stays in sight."""
        for viewport in (cases.WIDE, cases.NARROW):
            page = self.make_page(viewport=viewport)
            page.goto(self.dashboard.url)
            ids = page.evaluate("""() => Array.from(
                document.querySelectorAll("#hosts-grid [role=row]"),
                (row) => Array.from(row.querySelectorAll("a"), (cell) => cell.id))""")
            self.assertEqual([10, 10, 10], [len(row) for row in ids])
            page.focus("#hosts-grid a")
            for key, row, column in (
                    ("ArrowDown", 1, 0), ("ArrowLeft", 0, 9), ("ArrowRight", 1, 0),
                    ("End", 1, 9), ("ArrowDown", 2, 9), ("ArrowUp", 1, 9)):
                page.keyboard.press(key)
                self.assertEqual(ids[row][column], page.evaluate("document.activeElement.id"))
            name = page.locator("#hosts-grid [role=rowheader]").nth(1).bounding_box()
            assert name is not None
            self.assertLessEqual(0, name["x"])
            self.assertLessEqual(name["x"] + name["width"], viewport["width"])
