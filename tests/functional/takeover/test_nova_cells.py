"""nova's cells, instance mappings and server groups become ours."""

from __future__ import annotations

import uuid

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.cells import backfill, instances, mappings, server_groups, tables
from placement_core.migrations import sync
from placement_core.takeover import cell_targets, copying, nova_cells, sources
from placement_core.takeover.records import (
    BUILD_REQUEST,
    CELL,
    GROUP_POLICY,
    HOST_MAPPING,
    INSTANCE,
    SERVER_GROUP,
    Contents,
    Outcome,
    Surroundings,
)
from placement_core.takeover.sources import Source
from tests import databases, nova_databases
from tests.functional.cells import cases
from tests.functional.migrations import bare
from tests.functional.takeover import comparing

_CELL0, _CELL1, _CELL2 = (f"{number:08}-0000-4000-8000-000000000000" for number in range(3))
_ANN, _BOB, _CAT = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
_GROUP = "eeeeeeee-0000-4000-8000-000000000000"
#: nova's marker of a migration, of a mapping that is none.
_MARKER = "00000000-0000-0000-0000-000000000000"

#: With nova's own code.
_FILL = f"""
import sys
from nova import config, context, objects, rpc
config.parse_args(["", "--config-file", sys.argv[1]])
objects.register_all()
rpc.init(config.CONF)
ctx = context.get_admin_context()

def add_cell(uuid, name, database):
    cell = objects.CellMapping(ctx, uuid=uuid, name=name, database_connection=database,
                               transport_url="rabbit://nova:secret@bus:5672/" + name)
    cell.create()
    return cell

cell0 = add_cell(objects.CellMapping.CELL0_UUID, "cell0", "sqlite:////srv/cell0.sqlite")
cell1 = add_cell("{_CELL1}", "cell1", "sqlite:////srv/cell1.sqlite")
add_cell("{_CELL2}", "cell2", "sqlite:////srv/cell2.sqlite")
cell1.disabled = True
cell1.save()
objects.HostMapping(ctx, host="compute1", cell_mapping=cell1).create()
objects.HostMapping(ctx, host="compute2", cell_mapping=cell1).create()
objects.InstanceMapping(ctx, instance_uuid="{_ANN}", project_id="web", user_id="ann",
                        cell_mapping=cell1).create()
objects.InstanceMapping(ctx, instance_uuid="{_BOB}", project_id="web", user_id="bob",
                        cell_mapping=cell0, queued_for_delete=True).create()
objects.InstanceGroup(ctx, uuid="{_GROUP}", name="apart", project_id="web", user_id="ann",
                      policy="anti-affinity", rules={{"max_server_per_host": 2}},
                      members=["{_ANN}", "{_BOB}"]).create()
"""


_SOURCE = Source("nova-api", nova_cells.KINDS, {"cdeec0c85668"}, nova_cells.read)


class NovaCellsTestCase(cases.CellsTestCase):
    """A test that copies what a nova has."""

    def setUp(self) -> None:
        self.surroundings = Surroundings(None, None, ())
        super().setUp()
        self.source = nova_databases.api(self.kind)

    def read(self) -> Contents:
        contents = sources.read(_SOURCE, self.source, self.surroundings)
        for spool in contents.spools:
            self.addCleanup(spool.close)
        return contents

    def list_targets(self):
        return (cell_targets.list_targets(self.ctx, self.cells),
                cell_targets.list_spool_targets(self.ctx, self.cells))

    def check(self):
        return self.describe(copying.check(
            self.ctx, _SOURCE, self.read(), *self.list_targets()))

    def copy(self, **options):
        return self.describe(copying.copy(
            self.ctx, _SOURCE, self.read(), *self.list_targets(),
            report=lambda *_: None, **options))

    def diff(self):
        return self.describe(comparing.diff(
            self.ctx, [(_SOURCE, self.read())], *self.list_targets()))

    def describe(self, items):
        return [(item.kind, item.id, item.outcome.value, item.count, item.reason)
                for item in items]

    def list_outcomes(self, items) -> set[str]:
        return {outcome for _, _, outcome, _, _ in items}

    def list_reasons(self, items, kind):
        return [(id_, outcome, count, reason) for of, id_, outcome, count, reason in items
                if of == kind and reason]

    def add(self, table: str, *rows: dict | list[dict]) -> None:
        """Insert rows as an older nova, or an operator, may have done."""
        engine, reflected = nova_databases.reflected(self.source, table)
        with engine.begin() as connection:
            for row in rows:
                connection.execute(sa.insert(reflected[table]), row)
        engine.dispose()

    def change(self, table: str, where: dict, **values: object) -> None:
        engine, reflected = nova_databases.reflected(self.source, table)
        with engine.begin() as connection:
            connection.execute(sa.update(reflected[table]).values(values).where(*(
                reflected[table].c[name] == value for name, value in where.items())))
        engine.dispose()

    def remove(self, table: str, **where: object) -> None:
        engine, reflected = nova_databases.reflected(self.source, table)
        with engine.begin() as connection:
            connection.execute(sa.delete(reflected[table]).where(*(
                reflected[table].c[name] == value for name, value in where.items())))
        engine.dispose()

    def add_cell(self, number: int = 1, **values: object) -> None:
        self.add("cell_mappings", {
            "id": number, "uuid": f"{number:08}-0000-4000-8000-000000000000",
            "name": f"cell{number}", "transport_url": "none:///", "disabled": False,
            "database_connection": f"sqlite:////srv/cell{number}.sqlite", **values})

    def add_instance(self, instance_uuid: str = _ANN, **values: object) -> None:
        self.add("instance_mappings", {
            "instance_uuid": instance_uuid, "project_id": "web", "user_id": "ann",
            "cell_id": None, "queued_for_delete": False, **values})


@databases.on_each_database
class TestNovaCells(NovaCellsTestCase):
    def test_a_nova_of_today(self) -> None:
        nova_databases.run_code(self.source, _FILL)
        left = [
            (HOST_MAPPING, "", "skipped", 2,
             "which host is in which cell is read in the databases of the cells"),
            (GROUP_POLICY, "", "skipped", 1,
             "nova's scheduler has them and their rules (1 anti-affinity)")]
        expected = [
            (CELL, mappings.CELL0, "create", 1, ""), (CELL, _CELL1, "create", 1, ""),
            (CELL, _CELL2, "create", 1, ""), (INSTANCE, "", "create", 2, ""),
            (SERVER_GROUP, _GROUP, "create", 1, ""), *left]
        self.assertCountEqual(expected, self.check())
        self.assertEqual([], self.cells.cells(self.ctx), "nothing is written")
        self.assertCountEqual(expected, self.copy())
        cell0, cell1, cell2 = self.cells.cells(self.ctx)
        self.assertEqual(
            (_CELL1, "cell1", "rabbit://nova:secret@bus:5672/cell1",
             "sqlite:////srv/cell1.sqlite", True),
            (cell1.uuid, cell1.name, cell1.transport_url, cell1.database_connection,
             cell1.disabled))
        self.assertEqual((mappings.CELL0, False, False),
                         (cell0.uuid, cell0.disabled, cell2.disabled))
        self.assertEqual(
            [(_ANN, "web", "ann", _CELL1, False), (_BOB, "web", "bob", mappings.CELL0, True)],
            [(made.uuid, made.project_id, made.user_id, made.cell_uuid, made.queued_for_delete)
             for made in instances.list_(self.ctx, self.cells)])
        self.assertEqual([_ANN, _BOB], sorted(server_groups.list_members(
            self.ctx, self.cells, "apart", project_id="web")))
        self.assertEqual([], self.diff())
        before = self.list_rows()
        again = self.copy()
        self.assertEqual({"equal", "skipped"}, self.list_outcomes(again))
        self.assertEqual(before, self.list_rows(), "the second copy writes nothing")

    def list_rows(self) -> list:
        return [self.rows(table) for table in (
            "cell_mappings", "instance_mappings", "instance_groups", "instance_group_member")]

    def test_what_nova_changes_follows(self) -> None:
        self.add_cell()
        self.add_cell(2)
        self.add_instance(cell_id=1)
        self.add("instance_groups", {"id": 1, "uuid": _GROUP, "name": "apart"})
        self.add("instance_group_member", {"group_id": 1, "instance_uuid": _ANN})
        self.copy()
        self.change("cell_mappings", {"id": 2}, name="north", disabled=True)
        self.change("instance_mappings", {}, cell_id=2, queued_for_delete=True)
        self.change("instance_groups", {}, name="together")
        self.add("instance_group_member", {"group_id": 1, "instance_uuid": _BOB})
        expected = {(CELL, _CELL2, "update", 1, ""), (INSTANCE, _ANN, "update", 1, ""),
                    (SERVER_GROUP, _GROUP, "update", 1, "")}
        self.assertEqual(expected, set(self.diff()))
        self.assertLess(expected, set(self.copy()))
        self.assertEqual([], self.diff())
        self.assertTrue(mappings.get(self.ctx, self.cells, "north").disabled)
        [instance] = instances.list_(self.ctx, self.cells)
        self.assertEqual((_CELL2, True), (instance.cell_uuid, instance.queued_for_delete))

    def test_what_is_gone_is_removed_only_if_it_is_pruned(self) -> None:
        self.add_cell()
        self.add_cell(2)
        self.add_instance(cell_id=1)
        self.add_instance(_BOB, cell_id=2)
        self.add("instance_groups", {"id": 1, "uuid": _GROUP})
        self.copy()
        self.cell("ours")
        ours, _ = instances.register(
            self.ctx, self.cells, uuid=str(uuid.uuid4()), project_id="p", user_id="u")
        self.remove("instance_mappings", instance_uuid=_ANN)
        self.remove("instance_groups", id=1)
        self.remove("cell_mappings", id=1)
        gone = {(CELL, _CELL1, "gone", 1, ""), (INSTANCE, _ANN, "gone", 1, ""),
                (SERVER_GROUP, _GROUP, "gone", 1, "")}
        self.assertLess(gone, set(self.check()))
        self.assertLess(gone, set(self.copy()))
        self.assertEqual(3, len(self.cells.cells(self.ctx)))
        pruned = {(kind, id_, "pruned", 1, "") for kind, id_, _, _, _ in gone}
        self.assertLess(pruned, set(self.copy(prune=True)))
        self.assertEqual(["cell2", "ours"], [cell.name for cell in self.cells.cells(self.ctx)])
        self.assertEqual({_BOB, ours.uuid}, {
            made.uuid for made in instances.list_(self.ctx, self.cells)})
        self.assertEqual({"equal"}, self.list_outcomes(self.copy(prune=True)))

    # Oddities -------------------------------------------------------------------

    def test_a_cell_without_urls(self) -> None:
        self.add_cell(transport_url=None, database_connection=None)
        self.add_instance(cell_id=1)
        expected = self.check()
        self.assertEqual(
            [(_CELL1, "warning", 1, "it has no database_connection: it will be missing in each "
              "answer, until `placement-core cells set` gives it one")],
            self.list_reasons(expected, CELL))
        self.assertCountEqual(expected, self.copy())
        [cell] = self.cells.cells(self.ctx)
        self.assertEqual(("", ""), (cell.database_connection, cell.transport_url))
        self.assertEqual(_CELL1, instances.list_(self.ctx, self.cells)[0].cell_uuid)
        answers = self.cells.scatter_gather(self.ctx, lambda ctx, cell: None)
        self.assertEqual(["its database_connection makes no sense"],
                         [missing.reason for missing in answers.missing])
        self.assertNotIn("update", self.list_outcomes(self.copy()))

    def test_two_cells_without_urls(self) -> None:
        self.add_cell(database_connection=None)
        self.add_cell(2, database_connection=None)
        self.copy()
        self.assertEqual(2, len(self.cells.cells(self.ctx)))

    def test_a_template(self) -> None:
        template = "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}"
        self.add_cell(database_connection=template, transport_url="{scheme}://{hostname1}/")
        self.template_source = "mysql+pymysql://nova:secret@127.0.0.1:3306/nova?charset=utf8"
        self.cells = self.databases()
        self.surroundings = Surroundings(None, None, (), fills_templates=True)
        self.assertEqual([(CELL, _CELL1, "create", 1, "")], self.check())
        self.copy()
        [cell] = self.cells.cells(self.ctx)
        self.assertEqual((template, "{scheme}://{hostname1}/"),
                         (cell.database_connection, cell.transport_url))
        self.assertEqual("nova_cell1", self.cells.of(self.ctx, cell).database.url.database)

    def test_a_template_and_nothing_to_fill_it(self) -> None:
        self.add_cell(database_connection="sqlite:////srv/{path}")
        self.assertEqual(
            [(_CELL1, "warning", 1, "its database_connection is a template, and is filled from "
              "our own connection: set [cells] template_connection to that of nova's "
              "[database]")], self.list_reasons(self.check(), CELL))

    def test_a_template_that_cannot_be_filled(self) -> None:
        self.add_cell(database_connection="mysql://{username3}@db/nova_cell1")
        self.template_source = "mysql+pymysql://one:a@h1,two:b@h2,h3/nova"
        self.cells = self.databases()
        self.surroundings = Surroundings(None, None, (), fills_templates=True)
        self.add_instance(cell_id=1)
        expected = self.check()
        self.assertIn((INSTANCE, _ANN, "refused", 1, f"its cell {_CELL1} is refused"), expected)
        [(_, outcome, _, reason)] = self.list_reasons(expected, CELL)
        self.assertEqual("refused", outcome)
        self.assertIn("its template asks for {username3}", reason)
        self.assertCountEqual(expected, self.copy())
        self.assertEqual([], self.cells.cells(self.ctx))

    def test_a_url_that_is_not_allowed(self) -> None:
        self.add_cell(database_connection="mysql://u:secret@db/nova?read_default_file=/etc/x")
        expected = self.check()
        [(_, outcome, _, reason)] = self.list_reasons(expected, CELL)
        self.assertEqual("refused", outcome)
        self.assertIn("it has a parameter other than those that cells may have", reason)
        self.assertIn("read_default_file", reason)
        self.assertNotIn("secret", reason)
        self.assertEqual(expected, self.copy())

    def test_two_cells_with_one_database(self) -> None:
        """Their instances would count twice."""
        self.add_cell()
        self.add_cell(2, database_connection="sqlite:////srv/cell1.sqlite")
        expected = self.check()
        self.assertEqual(
            [(_CELL2, "refused", 1, "The cell cell1 has that database_connection already.")],
            self.list_reasons(expected, CELL))
        self.assertCountEqual(expected, self.copy())

    def test_names_that_are_missing_or_there_twice(self) -> None:
        self.add_cell(name=None)
        self.add_cell(2, name="north")
        self.add_cell(3, name="north")
        self.assertEqual({"create"}, self.list_outcomes(self.check()))
        self.copy()
        self.assertEqual(["", "north", "north"],
                         [cell.name for cell in self.cells.cells(self.ctx)])
        self.assertEqual({"equal"}, self.list_outcomes(self.copy()))

    def test_cell0_that_somebody_disabled(self) -> None:
        self.add_cell(uuid=mappings.CELL0, disabled=True)
        self.copy()
        self.assertEqual([(mappings.CELL0, True)], [
            (cell.uuid, cell.disabled) for cell in self.cells.cells(self.ctx)])

    def test_disabled_is_null(self) -> None:
        self.add_cell(disabled=None)
        self.copy()
        self.assertEqual({"equal"}, self.list_outcomes(self.copy()))

    def test_an_instance_without_a_cell(self) -> None:
        self.add_instance()
        self.assertEqual({"create"}, self.list_outcomes(self.copy()))
        [instance] = instances.list_(self.ctx, self.cells)
        self.assertIsNone(instance.cell_uuid)
        self.add_cell()
        self.change("instance_mappings", {}, cell_id=1)
        self.copy()
        self.assertEqual(_CELL1, instances.list_(self.ctx, self.cells)[0].cell_uuid)

    def test_instances_of_older_novas(self) -> None:
        self.add_cell()
        self.add_instance(cell_id=1, user_id=None)
        self.add_instance(_BOB, cell_id=1, queued_for_delete=None)
        fills = "`placement-core db online-data-migrations` reads it in their cells"
        expected = self.check()
        self.assertEqual([
            ("", "warning", 1, f"they have no user_id: {fills}"),
            ("", "warning", 1, f"they have no queued_for_delete: {fills}")],
            self.list_reasons(expected, INSTANCE))
        self.assertCountEqual(expected, self.copy())
        self.assertEqual((1, 1), (
            backfill.count_without_user_id(self.ctx, self.cells),
            backfill.count_without_queued_for_delete(self.ctx, self.cells)))

    def test_what_was_filled_here_stays(self) -> None:
        self.add_instance(user_id=None, queued_for_delete=None)
        self.copy()
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.instance_mappings).values(
                user_id="ann", queued_for_delete=True))
        self.assertEqual([], self.diff())
        self.copy()
        [instance] = instances.list_(self.ctx, self.cells)
        self.assertEqual(("ann", True), (instance.user_id, instance.queued_for_delete))

    def test_an_instance_in_a_cell_that_is_not_there(self) -> None:
        self.add_cell()
        self.add_instance(cell_id=1)
        engine, _ = nova_databases.reflected(self.source, "cell_mappings")
        careless = {"postgresql": "SET session_replication_role = replica",
                    "mysql": "SET FOREIGN_KEY_CHECKS = 0"}.get(self.kind, "SELECT 1")
        with engine.begin() as connection:
            connection.execute(sa.text(careless))
            connection.execute(sa.text("DELETE FROM cell_mappings"))
        engine.dispose()
        expected = [(INSTANCE, _ANN, "refused", 1, "its cell 1 is not there")]
        self.assertEqual(expected, self.check())
        self.assertEqual(expected, self.copy())

    def test_the_marker_of_a_migration(self) -> None:
        self.add_instance(_MARKER, project_id=_MARKER, user_id=_MARKER)
        expected = [(INSTANCE, "", "skipped", 1,
                     "nova marks with it how far a migration has come")]
        self.assertEqual(expected, self.check())
        self.assertEqual(expected, self.copy())

    def test_an_instance_that_is_being_built(self) -> None:
        self.add_instance()
        self.add("build_requests", {"instance_uuid": _ANN, "project_id": "web"})
        self.assertEqual(
            [("", "skipped", 1, "an instance that is being built gets its cell in nova; copy "
              "again then")], self.list_reasons(self.check(), BUILD_REQUEST))

    def test_a_member_that_is_there_twice(self) -> None:
        self.add("instance_groups", {"id": 1, "uuid": _GROUP, "name": None, "project_id": "web"})
        self.add("instance_group_member", *[
            {"group_id": 1, "instance_uuid": member} for member in (_ANN, _ANN, None)])
        self.copy()
        self.assertEqual([_ANN], server_groups.list_members(
            self.ctx, self.cells, _GROUP, project_id="web"))
        self.assertEqual([], self.diff())

    def test_groups_of_one_name(self) -> None:
        self.add("instance_groups", *[
            {"uuid": str(uuid.uuid4()), "name": "apart", "project_id": "web"}
            for _ in range(2)])
        self.assertEqual([(SERVER_GROUP, "", "create", 2, "")], self.check())
        self.copy()
        self.assertEqual(2, len(self.rows("instance_groups")))

    # Many -----------------------------------------------------------------------

    def test_many_are_counted_and_the_first_are_named(self) -> None:
        self.add_cell(database_connection="mysql://u@db/nova?local_infile=1")
        self.add_cell(2)
        self.add("instance_mappings", [
            {"instance_uuid": str(uuid.uuid4()), "project_id": "web", "user_id": "ann",
             "cell_id": 1 + number % 2, "queued_for_delete": False} for number in range(2400)])
        items = [item for item in self.check() if item[0] == INSTANCE]
        created = (INSTANCE, "", "create", 1200, "")
        self.assertIn(created, items)
        [(_, _, outcome, count, reason)] = set(items) - {created}
        self.assertEqual(("refused", 1200), (outcome, count))
        self.assertRegex(reason, rf"^its cell {_CELL1} is refused \(the first is .*\)$")
        self.assertCountEqual(items, [item for item in self.copy() if item[0] == INSTANCE])
        self.assertEqual(1200, len(self.rows("instance_mappings")))
        self.change("instance_mappings", {}, project_id="shop")
        different = [item for item in self.diff() if item[0] == INSTANCE]
        self.assertEqual(101, len(different))
        self.assertEqual(
            (INSTANCE, "", "update", 1100, "beyond the 100 that are named"), different[-1])


@databases.on_each_database
class TestContracted(NovaCellsTestCase):
    """Our mappings must have what those of older novas lack."""

    def setUp(self) -> None:
        # What is contracted does not open up again for the next test.
        settings = databases.Settings(
            bare.database(self.kind, self.addCleanup), sqlite_synchronous=False)
        sync.sync(settings)
        self.useFixture(fixtures.MonkeyPatch("tests.databases.settings", lambda _: settings))
        super().setUp()

    def contract(self) -> None:
        sync.sync(self.database.settings, contracted=True)

    def read(self) -> Contents:
        self.surroundings = Surroundings(
            None, None, (),
            required_fields=cell_targets.list_required_fields(self.ctx, self.cells))
        return super().read()

    def test_instances_of_older_novas(self) -> None:
        self.contract()
        self.add_cell()
        self.add_instance(cell_id=1)
        self.add_instance(_BOB, cell_id=1, user_id=None)
        self.add_instance(_CAT, cell_id=1, user_id=None, queued_for_delete=None)
        expected = self.check()
        fill = "and `db sync --contract` was run: fill it in nova first"
        self.assertCountEqual([
            (CELL, _CELL1, "create", 1, ""),
            (INSTANCE, _ANN, "create", 1, ""),
            (INSTANCE, _BOB, "refused", 1, f"it has no user_id, {fill}"),
            (INSTANCE, _CAT, "refused", 1, f"it has no user_id and no queued_for_delete, {fill}"),
        ], expected)
        self.assertCountEqual(expected, self.copy())
        self.change("instance_mappings", {}, user_id="ann", queued_for_delete=False)
        self.copy()
        self.assertEqual([_ANN, _BOB, _CAT], sorted(
            instance.uuid for instance in instances.list_(self.ctx, self.cells)))

    def test_what_was_filled_here_before(self) -> None:
        self.add_instance(user_id=None)
        self.copy()
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.instance_mappings).values(user_id="ann"))
        self.contract()
        self.change("instance_mappings", {}, queued_for_delete=True)
        expected = [(INSTANCE, _ANN, "update", 1, "")]
        self.assertEqual(expected, self.check())
        self.assertEqual(expected, self.copy())
        [instance] = instances.list_(self.ctx, self.cells)
        self.assertEqual(("ann", True), (instance.user_id, instance.queued_for_delete))


class TestMappingsOfNova(cases.CellsTestCase):
    """Our service reads the mappings in nova's database."""

    nova = True

    def test_nothing_is_copied(self) -> None:
        self.cell("cell1")
        surroundings = Surroundings(
            None, None, (), keeps_cells=cell_targets.keeps_cells(self.ctx, self.cells))
        contents = sources.read(_SOURCE, self.api_url, surroundings)
        self.assertEqual([], cell_targets.list_targets(self.ctx, self.cells))
        [item] = copying.check(self.ctx, _SOURCE, contents, [], [])
        self.assertEqual(
            (CELL, Outcome.SKIPPED, 1,
             "[api_database] connection is set: they are read in that database"),
            (item.kind, item.outcome, item.count, item.reason))
