"""``placement-core migrate … --from placement=``: what real Placements know becomes ours."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import pathlib
import shutil
import tempfile
import uuid as uuids
from collections.abc import Iterator
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.placement.index.capacity_index import CapacityIndex
from placement_core.takeover import copier
from tests import databases
from tests.functional.cli import test_commands
from tests.functional.migrations import bare, test_adoption, upstream

HOST, CHILD, SHARED, SERVER, VOLUME, OLD_CLIENT = (
    test_adoption.HOST, test_adoption.CHILD, test_adoption.SHARED, test_adoption.SERVER,
    test_adoption.VOLUME, test_adoption.OLD_CLIENT)
NOBODY = "00000000-0000-0000-0000-000000000000"

#: What clients can see of the rows of Placement's tables, in both schemas.
_VIEWS = {
    "providers": "SELECT p.uuid, p.name, p.generation, q.uuid, r.uuid FROM resource_providers p "
    "LEFT JOIN resource_providers q ON q.id = p.parent_provider_id "
    "LEFT JOIN resource_providers r ON r.id = p.root_provider_id",
    "inventories": "SELECT p.uuid, c.name, i.total, i.reserved, i.min_unit, i.max_unit, "
    "i.step_size, i.allocation_ratio FROM inventories i "
    "JOIN resource_providers p ON p.id = i.resource_provider_id "
    "JOIN resource_classes c ON c.id = i.resource_class_id",
    "traits": "SELECT p.uuid, t.name FROM resource_provider_traits l "
    "JOIN resource_providers p ON p.id = l.resource_provider_id "
    "JOIN traits t ON t.id = l.trait_id",
    "aggregates": "SELECT p.uuid, a.uuid FROM resource_provider_aggregates l "
    "JOIN resource_providers p ON p.id = l.resource_provider_id "
    "JOIN placement_aggregates a ON a.id = l.aggregate_id",
    "allocations": "SELECT a.consumer_id, p.uuid, c.name, a.used FROM allocations a "
    "JOIN resource_providers p ON p.id = a.resource_provider_id "
    "JOIN resource_classes c ON c.id = a.resource_class_id",
    "consumers": "SELECT c.uuid, p.external_id, u.external_id, t.name, c.generation "
    "FROM consumers c JOIN projects p ON p.id = c.project_id "
    "JOIN users u ON u.id = c.user_id "
    "LEFT JOIN consumer_types t ON t.id = c.consumer_type_id",
    "times": "SELECT uuid, created_at FROM resource_providers UNION ALL "
    "SELECT uuid, created_at FROM consumers",
}


@contextlib.contextmanager
def connect(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def view(url: str) -> dict[str, list[tuple]]:
    """Return what a database of Placement, or ours, says."""
    with connect(url) as connection:
        return {name: sorted(map(tuple, connection.execute(sa.text(text))), key=repr)
                for name, text in _VIEWS.items()}


def sort_lists(value: Any) -> Any:
    """Return a document without the order of its lists."""
    if isinstance(value, dict):
        return {name: sort_lists(each) for name, each in value.items()}
    return sorted(map(sort_lists, value), key=repr) if isinstance(value, list) else value


@functools.cache
def _make_template() -> pathlib.Path:
    """Return a SQLite database that Placement made and filled."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="placement-source-"), "placement.sqlite")
    placement = upstream.Upstream(f"sqlite:///{path}")
    test_adoption.fill(placement)
    placement.close()
    return path


class MigrationTestCase(test_commands.CommandTestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.connection = bare.database(self.kind, self.addCleanup)
        self.source = self.make_source()
        self.run_command("db", "sync")

    def make_source(self) -> str:
        """Return the URL of a database that Placement made and filled."""
        if self.kind != "sqlite":
            url = bare.database(self.kind, self.addCleanup)
            placement = upstream.Upstream(url)
            self.addCleanup(placement.close)
            test_adoption.fill(placement)
            placement.stop()
            return url
        folder = self.useFixture(fixtures.TempDir()).path
        return f"sqlite:///{shutil.copy(_make_template(), folder)}"

    def change(self, *statements: str, url: str | None = None) -> None:
        """Change the source."""
        with connect(url or self.source) as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def migrate(self, command: str, *options: str, code: int = 0, **more: Any) -> list[dict]:
        return json.loads(self.run_command(
            "migrate", command, "--from", f"placement={self.source}", *options, "-f", "json",
            code=code, **more))

    def copy(self, *options: str, code: int = 0) -> dict[str, dict]:
        return {row["id"]: row for row in self.migrate(
            "copy", "--execute", *options, code=code)}

    def count(self, rows: list[dict]) -> dict[str, int]:
        return dict(collections.Counter(row["outcome"] for row in rows))

    def assert_audited(self) -> None:
        self.assertEqual([], json.loads(self.run_command("db", "audit", "-f", "json")))

    def assert_same(self) -> None:
        """Check that ours is what the source has, by all means."""
        self.assertEqual([], self.migrate("diff"))
        theirs, ours = view(self.source), view(self.connection)
        for name in _VIEWS:
            self.assertEqual(theirs[name], ours[name])
        self.assert_audited()


@databases.on_each_database
class TestMigrateFromPlacement(MigrationTestCase):
    def test_copy(self) -> None:
        database = Database(Settings(self.connection), Journal())
        self.addCleanup(database.dispose)
        index = CapacityIndex(database)
        self.assertEqual(0, index.snapshot(Context(database)).size)
        expected = self.migrate("check")
        self.assertEqual({"create"}, {row["outcome"] for row in expected})
        self.assertEqual(
            {"resource class": 1, "trait": 1, "resource provider": 3, "consumer": 3},
            dict(collections.Counter(row["kind"] for row in expected)))
        self.assertEqual(expected, self.migrate("copy"), "nothing is written without --execute")
        self.assertEqual(expected, self.migrate("copy", "--execute"))
        self.assert_same()
        # What runs sees the providers.
        snapshot = index.snapshot(Context(database))
        self.assertEqual({HOST, CHILD, SHARED}, {
            entry.provider.uuid for row in range(snapshot.size)
            if (entry := snapshot.entries[row]) is not None})
        self.assertEqual([], index.verify(Context(database)))

    def test_nothing_is_written_again(self) -> None:
        self.migrate("copy", "--execute")
        before = self.read_heads()
        again = self.migrate("copy", "--execute")
        self.assertEqual({"equal": 8}, self.count(again))
        self.assertEqual(before, self.read_heads())

    def read_heads(self) -> list[tuple]:
        with connect(self.connection) as connection:
            return sorted(map(tuple, connection.execute(sa.text(
                "SELECT slot, serial, txn FROM change_heads"))))

    def test_changes_of_placement_follow(self) -> None:
        self.migrate("copy", "--execute")
        placement = upstream.Upstream(self.source)
        self.addCleanup(placement.close)
        placement.do("PUT", f"/allocations/{SERVER}", {
            "allocations": {CHILD: {"resources": {"VCPU": 3}}}, "project_id": "other",
            "user_id": "other", "consumer_generation": 1, "consumer_type": "MIGRATION"})
        new = str(uuids.uuid4())
        placement.do("PUT", f"/allocations/{new}", {
            "allocations": {CHILD: {"resources": {"VCPU": 1}}}, "project_id": "other",
            "user_id": "other", "consumer_generation": None, "consumer_type": "MIGRATION"})
        placement.do("PUT", f"/resource_providers/{HOST}", {"name": "renamed"})
        placement.do("DELETE", f"/resource_providers/{HOST}/traits")
        placement.do("DELETE", f"/allocations/{VOLUME}")
        placement.stop()
        differences = {row["id"]: row for row in self.migrate("diff", code=1)}
        self.assertEqual({
            SERVER: "different", new: "missing", HOST: "different", VOLUME: "extra",
            CHILD: "different", SHARED: "different",
        }, {id_: row["difference"] for id_, row in differences.items()} | {
            # Its generation rises or not, by the release.
            SHARED: "different"})
        self.assertIn('name: "host" here, "renamed" there', differences[HOST]["details"])
        self.assertEqual("gone", self.copy(code=1)[VOLUME]["outcome"])
        self.assertEqual("pruned", self.copy("--prune")[VOLUME]["outcome"])
        self.assert_same()


class TestMigratePlacementOnSQLite(MigrationTestCase):
    def test_what_is_gone_goes_with_what_depends_on_it(self) -> None:
        self.migrate("copy", "--execute")
        self.change("DELETE FROM allocations", "DELETE FROM consumers", "DELETE FROM inventories",
                    "DELETE FROM resource_provider_traits",
                    "DELETE FROM resource_provider_aggregates",
                    "UPDATE resource_providers SET root_provider_id = NULL",
                    f"DELETE FROM resource_providers WHERE uuid = '{CHILD}'",
                    "DELETE FROM resource_providers", "DELETE FROM traits WHERE name LIKE 'CUS%'",
                    "DELETE FROM resource_classes WHERE name LIKE 'CUSTOM%'")
        self.assertEqual({"gone": 8}, self.count(self.migrate("check", code=1)))
        self.assertEqual({"gone": 8}, self.count(self.migrate("copy", "--execute", code=1)))
        self.assertEqual({"pruned": 8}, self.count(self.migrate("copy", "--execute", "--prune")))
        self.assert_same()

    def test_a_host_whose_servers_moved(self) -> None:
        """What is gone can be deleted only when others have let go of it."""
        self.migrate("copy", "--execute")
        self.change(
            "UPDATE allocations SET resource_provider_id = (SELECT id FROM resource_providers "
            f"WHERE uuid = '{HOST}') WHERE resource_provider_id = (SELECT id FROM "
            f"resource_providers WHERE uuid = '{CHILD}')",
            "UPDATE inventories SET resource_provider_id = (SELECT id FROM resource_providers "
            f"WHERE uuid = '{HOST}') WHERE resource_provider_id = (SELECT id FROM "
            f"resource_providers WHERE uuid = '{CHILD}')",
            f"DELETE FROM resource_providers WHERE uuid = '{CHILD}'")
        done = self.copy("--prune")
        self.assertEqual("pruned", done[CHILD]["outcome"])
        self.assert_same()

    def test_a_name_that_another_provider_has_now(self) -> None:
        self.migrate("copy", "--execute")
        other = str(uuids.uuid4())
        self.change(
            f"UPDATE resource_providers SET name = 'old' WHERE uuid = '{HOST}'",
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) "
            f"VALUES (99, '{other}', 'host', 3, 99)")
        done = self.copy()
        self.assertEqual(("create", "update"), (done[other]["outcome"], done[HOST]["outcome"]))
        self.assert_same()

    def test_a_host_that_was_made_anew(self) -> None:
        self.change("INSERT INTO resource_providers (id, uuid, name, generation, "
                    "root_provider_id) VALUES (99, 'gone', 'compute9', 3, 99)")
        self.migrate("copy", "--execute")
        self.change("UPDATE resource_providers SET uuid = 'new' WHERE id = 99")
        self.assertIn("gone is here already", self.copy(code=2)["new"]["details"])
        self.assertEqual("create", self.copy("--prune")["new"]["outcome"])
        self.assert_same()

    def test_killed_after_each_transaction(self) -> None:
        """The next run goes on, wherever the one before was killed."""
        for module, name in (("placement_targets", "_Providers"),
                             ("placement_targets", "_Consumers")):
            self.useFixture(fixtures.MonkeyPatch(
                f"placement_core.takeover.{module}.{name}.batch", 1))
        write = copier.Copier._write
        survived = 0

        def die_second(*arguments: Any) -> None:
            nonlocal survived
            if survived == 1:
                raise KeyboardInterrupt
            survived += 1
            write(*arguments)

        runs = 0
        with fixtures.MonkeyPatch("placement_core.takeover.copier.Copier._write", die_second):
            while True:
                survived = 0
                runs += 1
                try:
                    self.migrate("copy", "--execute")
                    break
                except (KeyboardInterrupt, AssertionError):
                    self.assertEqual(1, survived)
        self.assertGreater(runs, 7)
        self.assert_same()

    def test_adoption_stays_as_it_is(self) -> None:
        """A database that was adopted is what its copy is."""
        self.connection = self.make_source()
        self.run_command("db", "sync")
        self.assertEqual({"equal": 8}, self.count(self.migrate("copy", "--execute")))
        self.assert_same()

    def test_an_adopted_database_follows_its_source(self) -> None:
        """What was never copied is changed, and remembered once."""
        self.connection = self.make_source()
        self.run_command("db", "sync")
        self.change(f"UPDATE resource_providers SET generation = 9 WHERE uuid = '{HOST}'",
                    f"UPDATE consumers SET generation = 9 WHERE uuid = '{SERVER}'")
        done = self.copy()
        self.assertEqual(["update"] * 2, [done[id_]["outcome"] for id_ in (HOST, SERVER)])
        self.assert_same()
        self.assertEqual({"equal": 8}, self.count(self.migrate("copy", "--execute")))

    def test_for_people(self) -> None:
        self.change("UPDATE inventories SET total = 1 WHERE total = 16")
        printed = self.run_command(
            "migrate", "check", "--from", f"placement={self.source}")
        self.assertRegex(printed, r"resource classes +1 create\n")
        self.assertNotIn(VOLUME, printed)

    def test_limits_may_be_elsewhere(self) -> None:
        """Placement has none, so it does not matter where they are."""
        elsewhere = {
            "OS_LIMITS__DRIVER": "keystone", "OS_KEYSTONE_CLIENT__AUTH_TYPE": "password",
            "OS_KEYSTONE_CLIENT__AUTH_URL": "http://127.0.0.1:1"}
        self.assertEqual({"create": 8}, self.count(self.migrate("check", **elsewhere)))

    def test_an_unknown_schema(self) -> None:
        self.change("UPDATE alembic_version SET version_num = 'b5c396305c25'")
        self.run_command(
            "migrate", "check", "--from", f"placement={self.source}", code=255)
        self.assertEqual("placement: the database has the schema b5c396305c25; this version "
                         "knows a082b8bb98d0\n", self.stderr)

    def test_the_source_is_only_read(self) -> None:
        path = pathlib.Path(self.source.removeprefix("sqlite:///"))
        before = path.read_bytes()
        self.migrate("copy", "--execute")
        self.assertEqual(before, path.read_bytes())


@databases.on_each_database
class TestNames(MigrationTestCase):
    def make_source(self) -> str:
        """Return one on SQLite, which has names that MySQL cannot tell apart."""
        folder = self.useFixture(fixtures.TempDir()).path
        return f"sqlite:///{shutil.copy(_make_template(), folder)}"

    def test_that_differ_in_blanks_at_the_end(self) -> None:
        """The check knows what the database will say."""
        self.change(
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES "
            "(90, 'odd-90', 'host ', 0, 90), (91, 'odd-91', 'new', 0, 91), "
            "(92, 'odd-92', 'new ', 0, 92)")
        is_padded = self.kind == "mysql"
        expected = {"odd-90": "refused", "odd-91": "create", "odd-92": "refused"
                    } if is_padded else dict.fromkeys(("odd-90", "odd-91", "odd-92"), "create")
        for command in (("check",), ("copy", "--execute")):
            rows = self.migrate(*command, code=2 * is_padded)
            self.assertEqual(expected, {
                row["id"]: row["outcome"] for row in rows if row["id"].startswith("odd")})


@databases.on_each_database
class TestExport(MigrationTestCase):
    def test_rows_into_an_empty_placement(self) -> None:
        self.migrate("copy", "--execute")
        expected = view(self.connection)
        target = bare.database(self.kind, self.addCleanup)
        placement = upstream.Upstream(target)
        self.addCleanup(placement.close)
        placement.make_database()
        self.assertEqual([], json.loads(self.run_command(
            "export", "placement", "--to", target, "-f", "json")))
        self.run_command("export", "placement", "--to", target, code=255)
        self.assertIn("the database is not empty", self.stderr)
        self.assertEqual(expected, view(target))
        original = upstream.Upstream(self.source)
        self.addCleanup(original.close)
        for path in ("/resource_providers", f"/resource_providers/{HOST}/inventories",
                     f"/resource_providers/{SHARED}/traits",
                     f"/resource_providers/{SHARED}/aggregates", f"/allocations/{SERVER}",
                     f"/allocations/{OLD_CLIENT}", "/usages?project_id=project-1",
                     "/allocation_candidates?resources=VCPU:1", "/resource_classes"):
            self.assertEqual(*(
                # Newer versions of its usages fail on PostgreSQL.
                sort_lists(each.do("GET", path, version="1.37").json)
                for each in (original, placement)))
        self._require_columns_of(target)
        # It is another Placement with the same records, and those are never merged.
        self.source = target
        self.assertCountEqual(
            [("left out", "resource provider", 3), ("left out", "consumer", 3)],
            [(row["difference"], row["kind"], row["records"]) for row in self.migrate("diff")])

    def _require_columns_of(self, target: str) -> None:
        """Lines of JSON have the columns of Placement, too."""
        rows = list(map(json.loads, self.run_command(
            "export", "placement", "--to", "-").splitlines()))
        self.assertIn("allocations", {row["table"] for row in rows})
        with connect(target) as connection:
            inspected = sa.inspect(connection)
            columns = {table: {column["name"] for column in inspected.get_columns(table)}
                       for table in {row["table"] for row in rows}}
        for row in rows:
            self.assertEqual(columns[row["table"]], {*row["values"]}, row["table"])
