"""Instance mappings get what older versions did not write: on our own tables, and nova's."""

from __future__ import annotations

import itertools
import logging
import uuid as uuids
from typing import Any

import fixtures
import sqlalchemy as sa
import testtools

from placement_core import db
from placement_core.cells import backfill, cell_tables, counts, mappings, tables, watermarks
from placement_core.cells.records import Cell
from placement_core.migrations import checks, online
from tests import databases, nova_databases, races
from tests.functional.compute import cases

_numbers = itertools.count(1)


class BackfillTestCase(cases.CellsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(
            fixtures.FakeLogger("placement_core.cells.backfill", logging.INFO))

    def instance(self, cell: Cell | None, **values: Any) -> str:
        """Add an instance to a cell, and its mapping without user and state."""
        uuid = str(uuids.uuid4())
        number = next(_numbers)
        if cell is not None and values.get("known", True):
            self.execute(cell, sa.insert(cell_tables.instances), {
                "uuid": uuid, "user_id": values.get("user_id", f"user-{number}"),
                "project_id": "project", "vm_state": values.get("vm_state", "active"),
                "deleted": values.get("deleted", 0)})
        self.mapping(uuid, None if cell is None else cell.id)
        return uuid

    def mapping(self, uuid: str, cell_id: int | None, **values: Any) -> None:
        with db.write(self.api()) as session:
            session.execute(sa.insert(tables.instance_mappings), {
                "instance_uuid": uuid, "cell_id": cell_id, "project_id": "project",
                "user_id": None, "queued_for_delete": None, **values})

    def api(self) -> Any:
        return self.cells.api(self.context())

    def values(self) -> dict[str, tuple[Any, Any]]:
        table = tables.instance_mappings
        with db.read_once(self.api()) as session:
            return {row.instance_uuid: (row.user_id, row.queued_for_delete)
                    for row in session.execute(sa.select(table))}

    def users(self, most: int = 50) -> tuple[int, int]:
        return backfill.populate_user_id(self.context(), most, self.cells)

    def states(self, most: int = 50) -> tuple[int, int]:
        return backfill.populate_queued_for_delete(self.context(), most, self.cells)

    def stop(self, cell: Cell) -> Cell:
        return mappings.update(self.ctx, self.cells, cell.uuid, {
            "database_connection": f"sqlite:////nonexistent/{cell.uuid}.sqlite"})

    def restart(self, cell: Cell) -> None:
        mappings.update(self.ctx, self.cells, cell.uuid, {
            "database_connection": cell.database_connection})


class Gaps:
    """The tests, for whatever tables there are: nova's or ours."""

    def test_users(self: Any) -> None:
        one, other = self.cell("one"), self.cell("other")
        wanted = {
            self.instance(one, user_id="jane"): "jane",
            self.instance(other, user_id="otto"): "otto",
            # A soft-deleted one may come back, and so a deleted one counts, too.
            self.instance(one, user_id="soft", vm_state="soft-delete"): "soft",
            self.instance(other, user_id="gone", deleted=7): "gone"}
        self.assertEqual((4, 4), self.users())
        self.assertEqual(wanted, {uuid: user for uuid, (user, _) in self.values().items()})
        self.assertEqual((0, 0), self.users())

    def test_states(self: Any) -> None:
        cell = self.cell()
        wanted = {
            self.instance(cell): False,
            self.instance(cell, vm_state=None): False,
            self.instance(cell, vm_state="error"): False,
            self.instance(cell, vm_state="soft-delete"): True,
            self.instance(cell, deleted=3): True,
            # Nobody there knows it.
            self.instance(cell, known=False): False}
        self.assertEqual((6, 6), self.states())
        self.assertEqual(wanted, {uuid: state for uuid, (_, state) in self.values().items()})
        self.assertEqual((0, 0), self.states())

    def test_bad_rows_at_the_front_starve_nobody(self: Any) -> None:
        cell = self.cell()
        self.useFixture(fixtures.MonkeyPatch("placement_core.cells.backfill._PAGE", 3))
        for _ in range(8):
            self.instance(cell, known=False)
        self.instance(cell, user_id=None)
        good = [self.instance(cell) for _ in range(4)]
        for number in (1, 2, 3):
            self.assertEqual(1, self.users(1)[1])
            self.assertEqual(number, sum(
                user is not None for user, _ in self.values().values()))
        # Once round, and nobody else to be found but the last one.
        self.assertEqual(1, self.users(50)[1])
        self.assertEqual((9, 0), self.users(50))
        self.assertIn("9 instance mappings are left: cell cell1 does not know their instances",
                      self.log.output)
        self.assertTrue(all(self.values()[uuid][0] for uuid in good))
        # After a whole pass it begins at the front.
        self.assertEqual(0, watermarks.get(self.ctx, "populate_user_id"))

    def test_without_a_cell(self: Any) -> None:
        cell = self.cell()
        self.instance(None)
        good = self.instance(cell)
        self.assertEqual((2, 1), self.users())
        self.assertEqual((2, 1), self.states())
        self.assertIsNotNone(self.values()[good][0])
        for name in ("populate_user_id", "populate_queued_for_delete"):
            self.assertIn(f"{name}: 1 instance mappings are left: they have no cell yet",
                          self.log.output)

    def test_a_cell_that_is_down(self: Any) -> None:
        down, up = self.cell("down"), self.cell("up")
        for _ in range(3):
            self.instance(down)
        later = self.instance(up)
        self.stop(down)
        for migrate in (self.users, self.states):
            self.assertEqual((4, 1), migrate())
        self.assertIsNotNone(self.values()[later][0])
        self.assertIn("3 instance mappings are left: cell down is missing", self.log.output)
        # All that could be done was done: the command says so.
        outcome = online.run(self.ctx, None, [].append, online.list_migrations(self.parts))
        self.assertEqual(online.DONE, outcome.exit_code)
        self.restart(down)
        for migrate in (self.users, self.states):
            self.assertEqual((3, 3), migrate())

    def test_several_cells_that_are_down(self: Any) -> None:
        names = ("one", "another")
        for name in names:
            cell = self.cell(name)
            self.instance(cell)
            self.stop(cell)
        uuid = self.instance(self.cell("up"))
        for migrate in (self.users, self.states):
            self.assertEqual((3, 1), migrate())
        self.assertNotIn(None, self.values()[uuid])
        for name in names:
            self.assertIn(
                f"1 instance mappings are left: cell {name} is missing", self.log.output)

    def test_the_mark_that_nova_made(self: Any) -> None:
        """It is no instance: nothing fills it, counts it, or waits for it."""
        cell = self.cell()
        self.mapping(str(uuids.uuid4()), cell.id, project_id=tables.MARKER_PROJECT)
        self.assertEqual((0, 0), self.users())
        self.assertEqual(set(), counts.find_unmigrated(self.api()))
        self.assertEqual((0, 0), checks.count_unfilled(self.ctx, self.cells))


@databases.on_each_database
class TestOwnTables(Gaps, BackfillTestCase):
    def test_queued_for_delete_ones_get_their_user(self) -> None:
        cell = self.cell()
        uuid = self.instance(cell, user_id="jane")
        with db.write(self.api()) as session:
            session.execute(sa.update(tables.instance_mappings).values(queued_for_delete=True))
        self.users()
        self.assertEqual(("jane", True), self.values()[uuid])

    def test_goes_round(self) -> None:
        """What can be filled before the mark is found in the same run."""
        cell = self.cell()
        uuids_ = [self.instance(cell, known=number == 1) for number in range(3)]
        self.assertEqual(1, self.users(1)[1])
        self.assertNotEqual(0, watermarks.get(self.ctx, "populate_user_id"))
        self.execute(cell, sa.insert(cell_tables.instances), {
            "uuid": uuids_[0], "user_id": "late", "project_id": "project", "deleted": 0})
        self.assertEqual(1, self.users(1)[1])
        self.assertEqual("late", self.values()[uuids_[0]][0])

    def test_batches_of_one(self) -> None:
        cells = [self.cell("one"), self.cell("other")]
        for number in range(5):
            self.instance(cells[number % 2])
        self.assertEqual([1] * 5 + [0], [self.users(1)[1] for _ in range(6)])
        self.assertEqual([2, 2, 1, 0], [self.states(2)[1] for _ in range(4)])

    def test_two_at_once(self) -> None:
        cells = [self.cell("one"), self.cell("other")]
        for number in range(40):
            self.instance(cells[number % 2])
        other = self.service()
        outcomes = races.run(*(
            lambda parts=parts: online.run(
                parts.context(), None, [].append, online.list_migrations(parts))
            for parts in (self.parts, other)))
        done = 0
        for outcome in outcomes:
            self.assertEqual(online.DONE, getattr(outcome, "exit_code", outcome))
            done += outcome.counts["populate_user_id"][1]
        # Each row was filled once.
        self.assertEqual(40, done)
        self.assertFalse([uuid for uuid, found in self.values().items() if None in found])

    def test_nothing_is_open_while_cells_are_asked(self) -> None:
        cell = self.cell()
        self.instance(cell)
        answer = self.cells.scatter_gather
        seen = []

        def ask(ctx: Any, question: Any, cells: Any = None) -> Any:
            seen.append((ctx.session, self.api().session))
            return answer(ctx, question, cells)

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.cells.databases.CellDatabases.scatter_gather",
            lambda _self, *arguments: ask(*arguments)))
        self.assertEqual((1, 1), self.users())
        self.assertEqual([(None, None)], seen)


@databases.on_each_database
class TestNovaTables(Gaps, BackfillTestCase):
    """The same, on tables that ``nova-manage`` made."""

    def setUp(self) -> None:
        self.options = {("api_database", "connection"): nova_databases.api(self.kind)}
        super().setUp()

    def cell(self, name: str = "cell1", url: str | None = None) -> Cell:
        return super().cell(name, url or nova_databases.cell(self.kind, name))

    def test_our_own_tables_stay_empty(self) -> None:
        self.instance(self.cell())
        self.users()
        with db.read_once(self.ctx) as session:
            self.assertEqual(0, session.execute(sa.select(sa.func.count()).select_from(
                tables.instance_mappings)).scalar())


class TestLateRival(BackfillTestCase):
    def test_what_somebody_else_filled_stays(self) -> None:
        cell = self.cell()
        uuid = self.instance(cell, user_id="cells")
        asked = backfill._read_users

        def slow(ctx: Any, wanted: Any) -> Any:
            found = asked(ctx, wanted)
            with db.write(self.api()) as session:
                session.execute(sa.update(tables.instance_mappings).values(user_id="nova's"))
            return found

        of_users = backfill._Backfill("populate_user_id", tables.instance_mappings.c.user_id, slow)
        self.useFixture(fixtures.MonkeyPatch("placement_core.cells.backfill._USER_ID", of_users))
        self.assertEqual((0, 0), self.users())
        self.assertEqual("nova's", self.values()[uuid][0])


class TestCommand(testtools.TestCase):
    def test_names_and_order(self) -> None:
        names = list(online.list_migrations(_Parts()))  # type: ignore[arg-type]
        self.assertEqual(
            ["create_incomplete_consumers", "sum_up_usage_counters", "keep_fullness_of_limits",
             "protect_slot_providers", "populate_queued_for_delete", "populate_user_id",
             "migrate_compute_nodes"], names)


class _Parts:
    cells = compute_nodes = owners = None
