"""Comparisons go on where they were killed, and their results are remembered."""

from __future__ import annotations

import datetime
import itertools

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.takeover import (
    comparison_results,
    comparisons,
    records,
    spooled,
    tables,
)
from placement_core.takeover.errors import NotWhereItWas
from placement_core.takeover.records import Contents, Item, Outcome, Record
from placement_core.takeover.spools import Spool
from placement_core.takeover.targets import SpoolTarget, Target
from tests import base, databases

_NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


class _Killed(Exception):
    pass


class _Ours(Target):
    """Records in memory; counts how often they are read."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.records: dict[str, dict] = {}
        self.reads = 0

    def read(self, ctx):
        self.reads += 1
        return dict(self.records)

    def create(self, ctx, new):
        raise NotImplementedError

    def update(self, ctx, id_, changes):
        raise NotImplementedError

    def delete(self, ctx, id_):
        raise NotImplementedError


class _ManyOfOurs(SpoolTarget):
    """Instance mappings in memory."""

    kind = records.INSTANCE

    def __init__(self) -> None:
        self.records: dict[str, dict] = {}

    def find_obstacle(self, record, others):
        return "" if record.fields["project_id"] else "it has no project_id"

    def read_some(self, ctx, ids):
        return {id_: self.records[id_] for id_ in ids if id_ in self.records}

    def read_id_pages(self, ctx):
        return iter([sorted(self.records)])

    def create(self, ctx, new):
        raise NotImplementedError

    def update(self, ctx, id_, changes):
        raise NotImplementedError

    def delete(self, ctx, id_):
        raise NotImplementedError


@databases.on_each_database
class TestCompare(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{comparisons.__name__}.CHUNK", 10))
        self.regions, self.projects = _Ours(records.REGION), _Ours(records.PROJECT)
        self.theirs: list[Record] = []
        for number in range(25):
            self.add(records.REGION, f"r{number:02}", self.regions, description="")
        for number in range(45):
            self.add(records.PROJECT, f"p{number:02}", self.projects,
                     name=f"p{number:02}", domain_id="d", parent_id="d")
        self.now = _NOW
        self.reports: list[tuple[str, int, int]] = []
        self.left: list[Item] = []

    def add(self, kind: str, id_: str, ours: _Ours | None, **fields: object) -> None:
        self.theirs.append(Record(kind, id_, id_, fields))
        if ours is not None:
            ours.records[id_] = dict(fields)

    def sides(self):
        return [comparisons.Side(
            "keystone", "sqlite:///k", (records.REGION, records.PROJECT),
            Contents(self.theirs, self.left))]

    def compare(self, *, sides=None, resume=False, killed_after=None, at_first=None):
        """Return (kind, id, outcome) of each difference; None: it was killed.

        :param at_first: is called after the first chunk, while it goes on.
        """
        self.reports.clear()

        def report(*progress):
            self.reports.append(progress)
            if at_first is not None and len(self.reports) == 1:
                at_first()
            if len(self.reports) == killed_after:
                raise _Killed

        try:
            result = comparisons.compare(
                self.ctx, sides or self.sides(), [self.regions, self.projects],
                now=lambda: self.now, report=report, resume=resume)
        except _Killed:
            return None
        self.left_out = result.left_out
        return [(item.kind, item.id, item.outcome) for item in result.differences]

    def last(self, source="keystone"):
        return next((each for each in comparison_results.list_last(self.ctx)
                     if each.source == source), None)

    def count(self, table: sa.Table) -> int:
        with db.read(self.ctx) as session:
            return session.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def differ(self) -> list:
        """Make differences; return them as they are found."""
        del self.regions.records["r03"]
        self.regions.records["r99"] = {"description": ""}
        self.projects.records["p07"]["name"] = "other"
        del self.projects.records["p44"]
        return [("region", "r03", Outcome.CREATE), ("region", "r99", Outcome.GONE),
                ("project", "p07", Outcome.UPDATE), ("project", "p44", Outcome.CREATE)]

    def test_the_result_is_remembered(self) -> None:
        self.assertIsNone(self.last())
        self.assertEqual([], self.compare())
        self.assertEqual(comparison_results.LastComparison(
            "keystone", "sqlite:///k", _NOW, _NOW, 70, 0, 0), self.last())
        expected = self.differ()
        self.now += datetime.timedelta(hours=1)
        self.assertEqual(expected, self.compare())
        # What is only here is none of the source's records.
        self.assertEqual((70, 4, self.now), (
            self.last().compared, self.last().differences, self.last().started_at))
        self.assertEqual(1, self.count(tables.comparisons), "earlier ones are forgotten")
        self.assertEqual([], self.compare_again())
        self.assertEqual(0, self.count(tables.comparison_findings))

    def compare_again(self):
        """Compare when all is equal again."""
        for record in self.theirs:
            ours = self.regions if record.kind == records.REGION else self.projects
            ours.records[record.id] = dict(record.fields)
        del self.regions.records["r99"]
        return self.compare()

    def test_stale_after_a_day(self) -> None:
        self.compare()
        last = self.last()
        self.assertFalse(last.is_stale(_NOW + datetime.timedelta(days=1)))
        self.assertTrue(last.is_stale(_NOW + datetime.timedelta(days=1, seconds=1)))

    def test_a_killed_one_has_no_result(self) -> None:
        self.assertIsNone(self.compare(killed_after=4))
        self.assertIsNone(self.last())

    def test_it_goes_on_after_each_chunk(self) -> None:
        expected = self.differ()
        chunks = 3 + 5
        for killed_after in range(1, chunks + 1):
            self.assertIsNone(self.compare(killed_after=killed_after))
            self.assertEqual(expected, self.compare(resume=True), killed_after)
            self.assertEqual(chunks - killed_after, len(self.reports), self.reports)
            self.assertEqual((70, 4), (self.last().compared, self.last().differences))

    def test_it_is_killed_again_and_again(self) -> None:
        expected = self.differ()
        self.compare(killed_after=1)
        for _ in range(6):
            self.assertIsNone(self.compare(resume=True, killed_after=1))
        self.assertEqual(expected, self.compare(resume=True))
        self.assertEqual([("projects", 45, 45)], self.reports)
        self.assertEqual((70, 4), (self.last().compared, self.last().differences))

    def test_kinds_that_are_done_are_not_read_again(self) -> None:
        self.compare(killed_after=5)
        self.regions.reads = 0
        self.compare(resume=True)
        self.assertEqual(0, self.regions.reads)

    def test_progress_of_what_is_gone_on_with(self) -> None:
        self.compare(killed_after=5)
        self.compare(resume=True)
        self.assertEqual([("projects", 30, 45), ("projects", 40, 45), ("projects", 45, 45)],
                         self.reports)

    def test_without_resume_it_begins_anew(self) -> None:
        self.compare(killed_after=7)
        self.assertEqual([], self.compare())
        self.assertEqual(8, len(self.reports))
        self.assertEqual(1, self.count(tables.comparisons))

    def test_another_process_goes_on_with_it(self) -> None:
        """Nothing counts twice: the one that comes too late ends."""
        expected = self.differ()
        results = []
        error = self.assertRaises(
            NotWhereItWas, self.compare,
            at_first=lambda: results.append(self.compare(resume=True)))
        self.assertIn("another process goes on with it", str(error))
        self.assertEqual([expected], results)
        self.assertEqual((70, 4), (self.last().compared, self.last().differences))
        self.assertEqual(1, self.count(tables.comparisons))
        self.assertEqual(4, self.count(tables.comparison_findings))

    def test_a_later_one_ends_first(self) -> None:
        expected = self.differ()
        results = []
        error = self.assertRaises(
            NotWhereItWas, self.compare, at_first=lambda: results.append(self.compare()))
        self.assertIn("has ended a later one", str(error))
        self.assertEqual([expected], results)
        self.assertEqual(1, self.count(tables.comparisons))
        self.assertEqual(4, self.count(tables.comparison_findings))

    def test_a_later_one_ends_at_the_last_moment(self) -> None:
        """Who has compared everything, and is forgotten, has no result."""
        self.differ()
        calls = itertools.count()

        def let_a_later_one_end():
            if next(calls):
                self.now += datetime.timedelta(hours=1)
                self.compare()
            return _NOW

        self.assertRaises(
            NotWhereItWas, comparisons.compare, self.ctx, self.sides(),
            [self.regions, self.projects], now=let_a_later_one_end, report=lambda *_: None)
        self.assertEqual(self.now, self.last().finished_at)
        self.assertEqual(4, self.count(tables.comparison_findings))

    def test_findings_of_which_there_is_no_run(self) -> None:
        self.differ()
        self.compare()
        with db.write(self.ctx) as session:
            session.execute(sa.delete(tables.comparisons))
        self.assertEqual(4, self.count(tables.comparison_findings))
        self.assertEqual([], self.compare_again())
        self.assertEqual(0, self.count(tables.comparison_findings))

    def test_a_result_is_as_old_as_its_first_part(self) -> None:
        self.compare(killed_after=7)
        self.now += datetime.timedelta(hours=23)
        self.compare(resume=True)
        self.assertEqual(1, len(self.reports))
        self.assertEqual((_NOW, self.now), (self.last().started_at, self.last().finished_at))

    def test_a_stale_one_is_not_gone_on_with(self) -> None:
        self.compare(killed_after=7)
        self.now += datetime.timedelta(days=1, seconds=1)
        self.compare(resume=True)
        self.assertEqual(8, len(self.reports))

    def test_that_of_another_database_is_not_gone_on_with(self) -> None:
        self.compare(killed_after=7)
        [side] = self.sides()
        self.compare(resume=True, sides=[comparisons.Side(
            side.name, "sqlite:///other", side.kinds, side.contents)])
        self.assertEqual(8, len(self.reports))

    def test_what_is_refused_is_remembered(self) -> None:
        """A project below one that cannot be copied is refused, too, in a run that goes on."""
        self.projects.records = {"other": {"name": "p00", "domain_id": "d", "parent_id": "d"}}
        self.theirs = [
            Record(records.PROJECT, "p00", "p00",
                   {"name": "p00", "domain_id": "d", "parent_id": "d"}),
            *[Record(records.PROJECT, f"p{number:02}", "", {
                "name": f"p{number:02}", "domain_id": "d", "parent_id": "p00"})
              for number in range(1, 25)]]
        self.regions.records = {}
        expected = [("project", "other", Outcome.GONE)]
        self.assertEqual(expected, self.compare())
        self.compare(killed_after=2)
        self.assertEqual(expected, self.compare(resume=True))

    def test_refused_records_of_a_kind_before(self) -> None:
        limits = _Ours(records.LIMIT)
        sides = [comparisons.Side("keystone", "k", (records.PROJECT, records.LIMIT), Contents([
            Record(records.PROJECT, "p", "p", {
                "name": "p00", "domain_id": "d", "parent_id": "d"}),
            Record(records.LIMIT, "l", "l", {
                "service_id": "s", "region_id": None, "resource_name": "n", "project_id": "p",
                "domain_id": None})], []))]

        def compare(killed: bool, resume: bool) -> list:
            def report(*progress):
                if killed:
                    raise _Killed

            return [item.id for item in comparisons.compare(
                self.ctx, sides, [self.projects, limits], now=lambda: _NOW, report=report,
                resume=resume).differences]

        self.assertNotIn("l", compare(False, False))
        for _ in range(5):
            try:
                compare(True, True)
            except _Killed:
                continue
        self.assertNotIn("l", compare(False, True))

    def test_what_the_source_left_is_not_only_here(self) -> None:
        self.theirs = [record for record in self.theirs if record.id not in ("r01", "r02")]
        self.left = [Item("region", "r01", "", Outcome.REFUSED, "it is odd"),
                     Item("region", "r02", "", Outcome.SKIPPED, "it means nothing")]
        self.assertEqual([("region", "r02", Outcome.GONE)], self.compare())

    def leave_out(self) -> None:
        """Have two regions and three projects that cannot be copied, and what is none of them."""
        self.theirs = [record for record in self.theirs if record.id not in ("r01", "r02", "p44")]
        self.left = [
            Item("region", "r01", "", Outcome.REFUSED, "it is odd"),
            Item("region", "r02", "", Outcome.SKIPPED, "no plugin is here", has_no_place=True),
            Item("region", "r77", "", Outcome.SKIPPED, "it means nothing"),
            Item("region", "r05", "", Outcome.WARNING, "it needs more"),
            Item("service", "s", "", Outcome.REFUSED, "there is no place for its kind")]
        # Ours has the name of the first, and the others are below it.
        self.projects.records["other"] = self.projects.records.pop("p00")
        del self.projects.records["p44"]
        for id_ in ("p44", "p45"):
            self.add(records.PROJECT, id_, None, name=id_, domain_id="d", parent_id="p00")

    def test_what_cannot_be_copied_is_counted(self) -> None:
        self.leave_out()
        self.assertEqual([("project", "other", Outcome.GONE)], self.compare())
        self.assertEqual({"region": 2, "project": 3}, self.left_out)
        self.assertEqual((1, 5), (self.last().differences, self.last().left_out))
        self.projects.records = {record.id: dict(record.fields) for record in self.theirs
                                 if record.kind == records.PROJECT}
        self.assertEqual(([], {"region": 2}), (self.compare(), self.left_out))
        self.assertEqual((0, 2), (self.last().differences, self.last().left_out))

    def test_what_cannot_be_copied_counts_once_when_it_is_gone_on_with(self) -> None:
        self.leave_out()
        expected = self.compare()
        for killed_after in range(1, len(self.reports) + 1):
            self.assertIsNone(self.compare(killed_after=killed_after))
            self.assertEqual(expected, self.compare(resume=True), killed_after)
            self.assertEqual({"region": 2, "project": 3}, self.left_out, killed_after)
            self.assertEqual((1, 5), (self.last().differences, self.last().left_out))

    def test_many_of_which_a_source_says_the_same(self) -> None:
        """Each of them counts."""
        self.theirs = [record for record in self.theirs if record.kind != records.REGION]
        self.left = [Item("region", "", "", Outcome.REFUSED, "nobody knows", count=25)]
        self.assertEqual([], self.compare())
        self.assertEqual(({"region": 25}, 25), (self.left_out, self.last().left_out))

    def test_what_is_refused_and_here_with_other_values(self) -> None:
        """It is a difference, and so not left out."""
        self.regions.find_change_obstacle = lambda ours, changes: "it was changed here"
        self.regions.records["r07"]["description"] = "ours"
        self.assertEqual([("region", "r07", Outcome.UPDATE)], self.compare())
        self.assertEqual(({}, 0), (self.left_out, self.last().left_out))

    def test_a_record_of_two_sources(self) -> None:
        """What the second one has of the first cannot be copied."""
        provider = Record(records.PROVIDER, "x", "x", {"name": "x", "parent": None})
        ours = _Ours(records.PROVIDER)
        ours.records["x"] = dict(provider.fields)
        sides = [
            comparisons.Side(name, name, (records.PROVIDER,), Contents([provider], []),
                             (records.PROVIDER,)) for name in ("placement@a", "placement@b")]
        result = comparisons.compare(
            self.ctx, sides, [ours], now=lambda: _NOW, report=lambda *_: None)
        self.assertEqual(([], {"resource provider": 1}), (result.differences, result.left_out))
        self.assertEqual([0, 1], [self.last(side.name).left_out for side in sides])

    def test_a_run_of_an_earlier_release(self) -> None:
        """It has not counted what cannot be copied: nobody goes on with it."""
        self.compare(killed_after=5)
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.comparisons).values(left_out=None))
        self.compare(resume=True)
        self.assertEqual((8, 0), (len(self.reports), self.last().left_out))

    def test_several_sources(self) -> None:
        regions = [record for record in self.theirs if record.kind == records.REGION]
        projects = [record for record in self.theirs if record.kind == records.PROJECT]
        sides = [
            comparisons.Side("keystone", "k", (records.REGION,), Contents(regions, [])),
            comparisons.Side("nova-api", "n", (records.PROJECT,), Contents(projects, []))]
        expected = self.differ()
        self.compare(sides=sides, killed_after=5)
        # Another set of sources is another run.
        self.compare(resume=True)
        self.assertEqual(8, len(self.reports))
        self.compare(sides=sides, killed_after=5)
        self.assertEqual(expected, self.compare(sides=sides, resume=True))
        self.assertEqual(
            [(25, 2, "k"), (45, 2, "n")],
            [(last.compared, last.differences, last.location)
             for last in (self.last(), self.last("nova-api"))])

    def test_differences_are_the_same_after_a_kill(self) -> None:
        self.regions.records["r00"] = {"description": "né\N{SNOWMAN}"}

        def report(*_progress):
            raise _Killed

        for function, resume in ((report, False), (lambda *_: None, True)):
            try:
                result = comparisons.compare(
                    self.ctx, self.sides(), [self.regions, self.projects], now=lambda: _NOW,
                    report=function, resume=resume)
            except _Killed:
                continue
        [item] = result.differences
        self.assertEqual({"description": ("né\N{SNOWMAN}", "")}, item.differences)


@databases.on_each_database
class TestCompareMany(base.DatabaseTestCase):
    """Kinds with very many records."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{comparisons.__name__}.CHUNK", 10))
        self.useFixture(fixtures.MonkeyPatch(f"{spooled.__name__}._MOST_NAMED", 5))
        self.ours = _ManyOfOurs()
        self.spool = Spool(records.INSTANCE)
        self.addCleanup(self.spool.close)
        # A nova has them in no order of ids.
        ids = [f"i{number * 7 % 45:02}" for number in range(45)]
        self.spool.add((Record(records.INSTANCE, id_, "", {"project_id": "web"}), "")
                       for id_ in ids)
        self.ours.records = {id_: {"project_id": "web"} for id_ in ids}
        self.reports: list[tuple[str, int, int]] = []

    def differ(self) -> None:
        """Change 17 of ours, remove 3, add 7; have 4 that cannot be copied."""
        for number in range(3, 37, 2):
            self.ours.records[f"i{number:02}"] = {"project_id": "shop"}
        for number in (0, 12, 44):
            del self.ours.records[f"i{number:02}"]
        self.ours.records |= {f"j{number}": {"project_id": "web"} for number in range(7)}
        self.spool.add([
            *((Record(records.INSTANCE, id_, "", {"project_id": "web"}), "its cell is not there")
              for id_ in ("i001", "i441")),
            *((Record(records.INSTANCE, id_, "", {"project_id": None}), "")
              for id_ in ("i201", "i202"))])

    def compare(self, *, resume=False, killed_after=None):
        """Return (id, outcome, count, reason) of each difference; None: it was killed."""
        self.reports.clear()

        def report(*progress):
            self.reports.append(progress)
            if len(self.reports) == killed_after:
                raise _Killed

        side = comparisons.Side(
            "nova-api", "sqlite:///n", (records.INSTANCE,), Contents([], [], [self.spool]))
        try:
            result = comparisons.compare(
                self.ctx, [side], [], [self.ours], now=lambda: _NOW, report=report, resume=resume)
        except _Killed:
            return None
        self.left_out = result.left_out
        return [(item.id, item.outcome, item.count, item.reason) for item in result.differences]

    def last(self) -> tuple[int, int, int | None]:
        [last] = comparison_results.list_last(self.ctx)
        return last.compared, last.differences, last.left_out

    def test_in_chunks(self) -> None:
        self.assertEqual([], self.compare())
        self.assertEqual([("instance mappings", done, 45) for done in (10, 20, 30, 40, 45)],
                         self.reports)
        self.assertEqual(({}, (45, 0, 0)), (self.left_out, self.last()))

    def test_the_first_of_all_are_named(self) -> None:
        """Whatever chunks they are in."""
        self.differ()
        beyond = "beyond the 5 that are named"
        self.assertEqual([
            *((f"i{number:02}", Outcome.CREATE, 1, "") for number in (0, 12, 44)),
            *((f"i{number:02}", Outcome.UPDATE, 1, "") for number in (3, 5, 7, 9, 11)),
            *((f"j{number}", Outcome.GONE, 1, "") for number in range(5)),
            ("", Outcome.UPDATE, 12, beyond), ("", Outcome.GONE, 2, beyond)], self.compare())
        self.assertEqual(({"instance mapping": 4}, (49, 27, 4)), (self.left_out, self.last()))

    def test_it_goes_on_after_each_chunk(self) -> None:
        self.differ()
        expected, chunks = self.compare(), 5
        for killed_after in range(1, chunks + 1):
            self.assertIsNone(self.compare(killed_after=killed_after))
            self.assertEqual(expected, self.compare(resume=True), killed_after)
            self.assertEqual(
                [("instance mappings", min(10 * chunk, 49), 49)
                 for chunk in range(killed_after + 1, chunks + 1)], self.reports)
            self.assertEqual(
                ({"instance mapping": 4}, (49, 27, 4)), (self.left_out, self.last()))

    def test_it_is_killed_again_and_again(self) -> None:
        self.differ()
        expected = self.compare()
        self.compare(killed_after=1)
        for _ in range(4):
            self.assertIsNone(self.compare(resume=True, killed_after=1))
        self.assertEqual(expected, self.compare(resume=True))
        self.assertEqual(([], (49, 27, 4)), (self.reports, self.last()))
