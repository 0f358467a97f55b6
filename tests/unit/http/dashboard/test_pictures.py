"""Pictures of the dashboard: well-formed, with the numbers that they were given."""

from __future__ import annotations

import datetime
import itertools
import re
import time
from collections.abc import Iterator
from xml.etree import ElementTree

import testtools
from markupsafe import Markup

from placement_core.http.dashboard.pictures import bars, funnel, host_map, patterns, timeline
from placement_core.http.dashboard.pictures.bars import BarPart
from placement_core.http.dashboard.pictures.funnel import FunnelStep
from placement_core.http.dashboard.pictures.host_map import Cells
from placement_core.http.dashboard.pictures.timeline import Booking, Period, Step

_SVG = "{http://www.w3.org/2000/svg}"
#: What somebody may have named a project or a lease.
HOSTILE = (
    '</svg><script>alert(1)</script>', '" onload="alert(1)', "{0} {x!r} %s", "مشروع\u202e",
    "\N{PILE OF POO}" * 255, "a\x00b\x1b[31m\ud800", "&amp;<!-- ]]>")
_START = datetime.datetime(2026, 11, 26, 18, 0, tzinfo=datetime.UTC)
_DAY = datetime.timedelta(days=1)
_PERIOD = Period(_START, _START + 14 * _DAY)


class PictureTestCase(testtools.TestCase):
    def parse(self, picture: Markup) -> ElementTree.Element:
        """Parse a picture; check what holds for all of them."""
        root = ElementTree.fromstring(picture)
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual([f"{root.attrib['id']}-title", f"{root.attrib['id']}-desc"],
                         root.attrib["aria-labelledby"].split())
        for element in root.iter():
            self.assertNotIn("style", element.attrib)
            self.assertNotEqual(f"{_SVG}script", element.tag)
            self.assertEqual([], [name for name in element.attrib if name.startswith("on")])
            for name in ("width", "height"):
                self.assertFalse(element.attrib.get(name, "").startswith("-"), element.attrib)
        return root

    def describe(self, root: ElementTree.Element) -> tuple[str | None, str | None]:
        return root.findtext(f"{_SVG}title"), root.findtext(f"{_SVG}desc")


def _find(root: ElementTree.Element, class_: str) -> Iterator[ElementTree.Element]:
    return (element for element in root.iter() if class_ in element.get("class", "").split())


class TestBar(PictureTestCase):
    def test_parts(self) -> None:
        """Each part is as wide as its share, after those before it; patterns lie on top."""
        root = self.parse(bars.draw_bar("bar-vcpu", "VCPU", [
            BarPart("used", 50), BarPart("held", 25), BarPart("promised", 0),
            BarPart("free", 25)]))
        self.assertEqual(
            [("used", "0.00%", "50.00%"), ("held", "50.00%", "25.00%"),
             ("free", "75.00%", "25.00%")],
            [(part.attrib["class"].split()[1], part.attrib["x"], part.attrib["width"])
             for part in _find(root, "part")])
        self.assertEqual([("50.00%", "url(#hatch)")], [
            (pattern.attrib["x"], pattern.attrib["fill"]) for pattern in _find(root, "pattern")])
        self.assertEqual(("VCPU", "used 50, held 25, free 25"), self.describe(root))

    def test_limit(self) -> None:
        """A limit is a line; what exceeds it makes the bar longer than the limit."""
        for used, place in ((5, "100.00%"), (20, "50.00%")):
            root = self.parse(bars.draw_bar("b", "t", [BarPart("used", used)], limit=10))
            self.assertEqual([place], [line.attrib["x1"] for line in _find(root, "limit")])
            self.assertEqual(f"used {used}, limit 10", self.describe(root)[1])

    def test_nothing(self) -> None:
        for parts in ([], [BarPart("used", 0)]):
            root = self.parse(bars.draw_bar("b", "t", parts))
            self.assertEqual([], list(_find(root, "part")))
            self.assertEqual("nothing", self.describe(root)[1])
        root = self.parse(bars.draw_bar("b", "t", [], limit=0))
        self.assertEqual(["0%"], [line.attrib["x1"] for line in _find(root, "limit")])

    def test_huge(self) -> None:
        root = self.parse(bars.draw_bar("b", "t", [BarPart("used", 2**62), BarPart("free", 1)]))
        self.assertEqual(["100.00%", "0.00%"],
                         [part.attrib["width"] for part in _find(root, "part")])
        self.assertIn(str(2**62), self.describe(root)[1] or "")

    def test_hostile_names(self) -> None:
        """Names are text, whatever they contain; what XML cannot hold is replaced."""
        for name in HOSTILE:
            title, _ = self.describe(self.parse(bars.draw_bar("b", name, [BarPart("used", 1)])))
            self.assertEqual(re.sub("[\x00\x1b\ud800]", "\N{REPLACEMENT CHARACTER}", name), title)


class TestFunnel(PictureTestCase):
    def test_steps(self) -> None:
        root = self.parse(funnel.draw_funnel("f", "Hosts", [
            FunnelStep("all", 1500), FunnelStep("VCPU", 375), FunnelStep("traits", 0)]))
        self.assertEqual(
            [("0.00%", "100.00%"), ("37.50%", "25.00%"), ("50.00%", "0.00%")],
            [(step.attrib["x"], step.attrib["width"]) for step in _find(root, "left")])
        self.assertEqual(["1500", "375", "0"], [text.text for text in _find(root, "label")])
        self.assertEqual(("Hosts", "all: 1500; VCPU: 375; traits: 0"), self.describe(root))

    def test_nothing(self) -> None:
        self.assertEqual("no steps", self.describe(self.parse(
            funnel.draw_funnel("f", "t", [])))[1])
        self.parse(funnel.draw_funnel("f", "t", [FunnelStep("all", 0)]))

    def test_hostile_names(self) -> None:
        for name in HOSTILE:
            self.parse(funnel.draw_funnel("f", name, [FunnelStep(name, 1)]))


class TestTimeline(PictureTestCase):
    def test_steps_and_leases(self) -> None:
        """A link for each step and lease, where they are in time; the present is a line."""
        middle = _START + 7 * _DAY
        root = self.parse(timeline.draw_timeline(
            "time", "Free hosts", _PERIOD, _START + 3.5 * _DAY, [
                Step(_START, middle, 4, "/ask?from=1&for=2"),
                Step(middle, _PERIOD.end_at, 1, "/ask?from=3")],
            [Booking("training", "ACTIVE", _START - _DAY, middle, "/leases/a"),
             Booking("night", "PENDING", middle, _PERIOD.end_at + _DAY, "/leases/b")],
            total=4, unit="hosts"))
        self.assertEqual(
            [("/ask?from=1&for=2", "2026-11-26 18:00 to 2026-12-03 18:00: 4 hosts free"),
             ("/ask?from=3", "2026-12-03 18:00 to 2026-12-10 18:00: 1 hosts free")],
            [(gap.attrib["href"], gap.attrib["aria-label"]) for gap in _find(root, "gap")])
        self.assertEqual(
            [("0.00%", "50.00%", "0", "120"), ("50.00%", "50.00%", "90", "30")],
            [tuple(step.attrib[name] for name in ("x", "width", "y", "height"))
             for step in _find(root, "free")])
        self.assertEqual(
            [("active", "0.00%", "50.00%"), ("pending", "50.00%", "50.00%")],
            [(lease.attrib["class"].split()[1], lease.attrib["x"], lease.attrib["width"])
             for lease in _find(root, "lease")])
        self.assertEqual(["25.00%"], [
            line.attrib["x1"] for line in _find(root, "now") if line.tag == f"{_SVG}line"])
        self.assertEqual(("0", "90"), next(
            (line.attrib["y1"], line.attrib["y2"]) for line in _find(root, "step")
            if line.attrib["x1"] == line.attrib["x2"]))
        self.assertEqual(
            "of 4 hosts at least 1 are free, fewest from 2026-12-03 18:00; 2 leases",
            self.describe(root)[1])

    def test_ids(self) -> None:
        """They stay, whatever comes before or passes; a lease may have several bars."""
        ends = [_START + number * _DAY for number in range(1, 5)]
        bookings = [Booking("training", "ACTIVE", _START, end, f"/leases/{name}")
                    for name, end in zip("abba", ends, strict=True)]

        def find_ids(name: str, first: int) -> list[str]:
            root = self.parse(timeline.draw_timeline(
                "t", "t", Period(ends[first], _PERIOD.end_at + first * _DAY), _START, [
                    Step(start, end, 4, "/") for start, end in itertools.pairwise(
                        [*ends[first:], _PERIOD.end_at + first * _DAY])],
                bookings[first:], total=4, unit="hosts"))
            return [element.attrib["id"] for element in _find(root, name)]

        self.assertEqual(find_ids("gap", 0)[1:], find_ids("gap", 1))
        self.assertEqual(find_ids("booking", 0)[1], find_ids("booking", 1)[0])
        self.assertEqual(4, len(set(find_ids("booking", 0))))

    def test_days(self) -> None:
        """A date for each of 14 days, fewer than one a day for a year; half of them are minor."""
        for days, label in ((14, "Nov 27"), (365, "Dec 22")):
            root = self.parse(timeline.draw_timeline(
                "t", "t", Period(_START, _START + days * _DAY), _START, [], [], total=0,
                unit="hosts"))
            labels = [text.text for text in _find(root, "day")]
            self.assertEqual(label, labels[0])
            self.assertIn(len(labels), (13, 14, 15))
            self.assertIn(len(list(_find(root, "minor"))) // 2, (6, 7))

    def test_nothing(self) -> None:
        """Without hosts or leases there is an axis; a time that is over has no present."""
        root = self.parse(timeline.draw_timeline(
            "t", "t", _PERIOD, _START - _DAY, [], [], total=0, unit="hosts"))
        self.assertEqual([], [*_find(root, "gap"), *_find(root, "booking"), *_find(root, "now")])
        self.assertEqual("0 leases", self.describe(root)[1])
        self.parse(timeline.draw_timeline(
            "t", "t", _PERIOD, _START, [Step(_START, _PERIOD.end_at, 0, "/")], [], total=0,
            unit="hosts"))

    def test_hostile_names(self) -> None:
        for name in HOSTILE:
            booking = Booking(name, "ERROR", _START, _START + _DAY, "/'\"<")
            self.parse(timeline.draw_timeline(
                "t", name, _PERIOD, _START, [Step(_START, _PERIOD.end_at, 1, "/?name=\"'<&")],
                [booking, booking], total=1, unit="hosts"))


class TestHostMap(PictureTestCase):
    def test_cells(self) -> None:
        """Each cell is in the path of its level, in that of each state, and has its number."""
        root = self.parse(host_map.draw_host_map("m", "Hosts", Cells(
            [0, 9, 9], {"leased": [1], "disabled": [0, 1]})))
        cells = ["M0 0h11v11h-11z", "M12 0h11v11h-11z", "M24 0h11v11h-11z"]
        self.assertEqual(
            {"level-0": cells[0], "level-9": cells[1] + cells[2], "pattern leased": cells[1],
             "pattern disabled": cells[0] + cells[1]},
            {path.attrib["class"]: path.attrib["d"] for path in root.iter(f"{_SVG}path")})
        self.assertEqual([("099", "3 15 27")], [
            (line.text, line.attrib["x"]) for line in root.iter(f"{_SVG}text")])
        self.assertEqual(
            "3 hosts, 1 leased, 0 overcommitted, 2 disabled, 2 nine tenths used or more",
            self.describe(root)[1])
        self.assertEqual("0 0 36 12", root.attrib["viewBox"])

    def test_lines(self) -> None:
        root = self.parse(host_map.draw_host_map("m", "t", Cells([5] * 161, {})))
        self.assertEqual([80, 80, 1], [
            len(line.text or "") for line in root.iter(f"{_SVG}text")])
        self.assertEqual("0 0 960 36", root.attrib["viewBox"])

    def test_groups(self) -> None:
        """Each begins a line of its own, below a gap with its name."""
        root = self.parse(host_map.draw_host_map("m", "t", Cells(
            [1] * 83, {"leased": [81]}, [("rack <1> (81 hosts)", 81), ("W" * 255, 2)])))
        lines = [(line.text or "", line.attrib["y"]) for line in root.iter(f"{_SVG}text")
                 if line.attrib["class"] == "tenths"]
        self.assertEqual([("1" * 80, "29"), ("1", "41"), ("11", "73")], lines)
        names = [(name.text or "", name.attrib["y"]) for name in _find(root, "group-name")]
        self.assertEqual(
            [("rack <1> (81 hosts)", "16"), (f"{'W' * 119}…", "60")], names)
        [leased] = [path.attrib["d"] for path in _find(root, "leased")]
        self.assertEqual("M0 64h11v11h-11z", leased)
        self.assertEqual("0 0 960 76", root.attrib["viewBox"])
        self.assertIn("83 hosts, 2 groups, 1 leased", self.describe(root)[1])

    def test_nothing(self) -> None:
        root = self.parse(host_map.draw_host_map("m", "t", Cells([], {})))
        self.assertEqual("0 0 0 0", root.attrib["viewBox"])

    def test_ten_thousand(self) -> None:
        """So many hosts take a third of what a page may have, and no time to speak of."""
        cells = Cells([number % 10 for number in range(10_000)],
                      {state: range(0, 10_000, 10) for state in host_map.STATES})
        host_map.draw_host_map("m", "t", cells)
        start = time.process_time()
        picture = host_map.draw_host_map("m", "t", cells)
        self.assertLess(time.process_time() - start, 0.1)
        self.assertLess(len(picture), 350_000)
        self.parse(picture)


class TestPatterns(PictureTestCase):
    def test_every_fill_is_defined(self) -> None:
        root = ElementTree.fromstring(patterns.draw_patterns())
        ids = {element.attrib["id"] for element in root.iter(f"{_SVG}pattern")}
        fills = {patterns.FILLS[kind] for kind in (
            "below", "held", "promised", "reserved", "over", *host_map.STATES)}
        self.assertEqual({f"url(#{id_})" for id_ in ids}, fills)
        self.assertNotIn("used", patterns.FILLS)
