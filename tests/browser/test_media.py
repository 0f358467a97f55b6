"""Pages on paper, and in the high-contrast colours of the system."""

from __future__ import annotations

from playwright import sync_api

from tests.browser import cases

#: The width of what a browser prints on A4, in CSS pixels, and a height that a page may have.
PAPER = {"width": 718, "height": 1000}
_QUESTIONS = (
    "?count=3&vcpu=4&memory_mb=8192&project=simulation&duration=2d",
    "?count=4&vcpu=8&memory_mb=65536&required=HW_CPU_X86_AVX2,STORAGE_DISK_SSD&project=detector"
    "&duration=14d",
    "/hosts?by=trait", "/leases?by=host", "/explain?resources=VCPU:4",
)
#: What can be pressed or chosen, other than links, and is to be seen.
_FIND_CONTROLS = """() => Array.from(document.querySelectorAll(
    "button, select, nav, .skip, .choice, .copies, [data-copy]"))
  .filter((element) => element.checkVisibility({visibilityProperty: true}))
  .map((element) => element.outerHTML.slice(0, 120))"""
#: Tables and pictures of which a part is beyond the edge of the paper, or hidden in what scrolls.
FIND_CUT = """() => Array.from(document.querySelectorAll("table, svg, .map, .scroll"))
  .filter((element) => element.checkVisibility())
  .filter((element) => element.getBoundingClientRect().right
      > document.documentElement.clientWidth + 1
    || (element.matches(".scroll") && (element.scrollWidth > element.clientWidth + 1
      || element.scrollHeight > element.clientHeight + 1)))
  .map((element) => element.outerHTML.slice(0, 160))"""
#: Cells of tables that have more lines than words.
_FIND_BROKEN_WORDS = r"""() => Array.from(document.querySelectorAll("thead th, .number"))
  .filter((cell) => cell.checkVisibility() && cell.innerText.trim()
    && !cell.querySelector(".name, svg"))
  .filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const lines = new Set(Array.from(range.getClientRects(), ({bottom}) => Math.round(bottom)));
    return lines.size > cell.innerText.trim().split(/[\s-]+/).length;
  })
  .map((cell) => cell.outerHTML)"""
#: {what a kind of amount looks like: the kinds}, of each legend; and patterns that do not show.
_DESCRIBE_LEGENDS = """() => Array.from(document.querySelectorAll(".legend"), (legend) =>
  Array.from(legend.querySelectorAll(".key"), (key) => {
    const {fill, stroke: edge} = getComputedStyle(key.querySelector("rect:not(.pattern)"));
    const pattern = key.querySelector(".pattern")?.getAttribute("fill") ?? "plain";
    const stroke = getComputedStyle(document.querySelector("pattern .stroke")).stroke;
    return [`${fill} ${pattern}`, pattern === "plain" || fill !== stroke, edge];
  }))"""
#: {states of a cell: its background}, and the colours of its edge and of what is around it.
_DESCRIBE_CELLS = """() => Array.from(document.querySelectorAll(".cell"), (cell) => [
  ["leased", "overcommitted", "disabled"].filter((state) => cell.classList.contains(state))
    .join(" "),
  getComputedStyle(cell).backgroundImage, getComputedStyle(cell).borderTopColor,
  getComputedStyle(document.body).backgroundColor])"""


class TestMedia(cases.DemoTestCase):
    questions = _QUESTIONS

    def print_page(self, url: str, scheme: str = "light") -> sync_api.Page:
        """Return a page as it looks on paper."""
        page = self.make_page(viewport=PAPER)
        page.goto(url)
        page.emulate_media(media="print", color_scheme=scheme)
        return page

    def test_paper(self) -> None:
        """No controls, and nothing is cut off."""
        page = self.make_page(viewport=PAPER)
        page.emulate_media(media="print")
        for route, url in self.urls_of_all.items():
            page.goto(url)
            self.assertEqual([], page.evaluate(_FIND_CONTROLS), route)
            self.assertEqual([], page.evaluate(FIND_CUT), route)
            self.assert_fits(page, route)

    def test_words_on_paper(self) -> None:
        """No number, and no heading of a table, is broken within a word."""
        page = self.print_page(f"{self.dashboard.url}{_QUESTIONS[0]}")
        self.assertEqual([], page.evaluate(_FIND_BROKEN_WORDS))

    def test_question_on_paper(self) -> None:
        """What was asked is there to be read, without the fields that were left empty."""
        page = self.print_page(f"{self.dashboard.url}{_QUESTIONS[0]}")
        for name in ("count", "vcpu", "memory_mb", "project", "duration"):
            self.assertTrue(page.locator(f"#{name}").is_visible(), name)
        for name in ("disk_gb", "other", "required", "start"):
            self.assertFalse(page.locator(f"#{name}").is_visible(), name)
        self.assertFalse(self.print_page(self.dashboard.url).locator("#need").is_visible())

    def test_dark_themes_print_light(self) -> None:
        """The same colours as by day, with contrast; states of hosts have theirs, too."""
        styles = """() => Array.from(new Set(Array.from(document.querySelectorAll(
            "body, .panel, .answer, table th, .cell, .part, .verdict, a"), (element) => {
          const {color, backgroundColor, borderTopColor, fill} = getComputedStyle(element);
          return [element.className.baseVal ?? element.className, color, backgroundColor,
                  borderTopColor, fill].join(" ");
        })))"""
        for path in ("", _QUESTIONS[0], "/health"):
            url = f"{self.dashboard.url}{path}"
            light, dark = (self.print_page(url, scheme) for scheme in ("light", "dark"))
            self.assertEqual(*(page.evaluate(styles) for page in (light, dark)), path)
            self.assertEqual("rgb(255, 255, 255)", dark.evaluate(
                "getComputedStyle(document.body).backgroundColor"))
            self.assert_accessible(dark, path)
        page = self.print_page(self.dashboard.url)
        # Browsers leave backgrounds out, unless they are told.
        self.assertEqual({"exact"}, set(page.evaluate(
            """Array.from(document.querySelectorAll(".cell"),
                (cell) => getComputedStyle(cell).printColorAdjust)""")))

    def force_colors(self, url: str, scheme: str) -> sync_api.Page:
        """Return a page in the colours of the system."""
        page = self.make_page(forced_colors="active", color_scheme=scheme)
        page.goto(url)
        return page

    def test_forced_colors(self) -> None:
        """Axe finds nothing in the colours, on light and on dark systems."""
        for scheme in ("light", "dark"):
            page = self.make_page(forced_colors="active", color_scheme=scheme)
            for route, url in self.urls_of_all.items():
                page.goto(url)
                self.assert_accessible(page, (route, scheme), category="color")

    def test_kinds_in_forced_colors(self) -> None:
        """Kinds of one legend differ, patterns show on what they lie, and parts have edges."""
        for scheme in ("light", "dark"):
            for path in ("", "/projects", "/leases"):
                page = self.force_colors(f"{self.dashboard.url}{path}", scheme)
                background = page.evaluate("getComputedStyle(document.body).backgroundColor")
                legends = page.evaluate(_DESCRIBE_LEGENDS)
                self.assertLess(0, len(legends))
                for legend in legends:
                    looks = [look for look, _, _ in legend]
                    self.assertEqual(len(looks), len(set(looks)), (path, scheme, looks))
                    self.assertNotIn(False, [shows for _, shows, _ in legend], (path, legend))
                    self.assertNotIn(background, [edge for _, _, edge in legend], path)

    def test_cells_in_forced_colors(self) -> None:
        """Cells of the map have an edge, and those with a state a pattern."""
        for scheme in ("light", "dark"):
            page = self.force_colors(self.dashboard.url, scheme)
            cells = page.evaluate(_DESCRIBE_CELLS)
            images: dict[str, set[str]] = {}
            for states, image, edge, around in cells:
                images.setdefault(states, set()).add(image)
                self.assertNotEqual(around, edge)
            self.assertEqual({"none"}, images.pop(""))
            self.assertIn("leased", images)
            self.assertNotIn("none", set().union(*images.values()))
            plain, leased = (
                page.locator(selector).first.screenshot() for selector in (
                    ".cell.level-0:not(.leased)", ".cell.level-0.leased"))
            self.assertNotEqual(plain, leased)

    def test_map_of_many_hosts_in_forced_colors(self) -> None:
        """Each square of the picture has an edge."""
        page = self.force_colors(self.dashboard.url, "dark")
        edge, fill = page.evaluate("""() => {
          const map = document.createElementNS("http://www.w3.org/2000/svg", "svg");
          map.setAttribute("class", "host-map");
          map.innerHTML = '<path class="level-3" d="M0 0h11v11h-11z"/>';
          document.querySelector("main").append(map);
          const {stroke, fill} = getComputedStyle(map.firstChild);
          return [stroke, fill];
        }""")
        self.assertNotIn(edge, ("none", fill))
