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
from collections.abc import Callable, Iterator
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


class TestOddities(MigrationTestCase):
    """Each ends here, or in the report with its reason."""

    def id_of(self, uuid: str) -> str:
        return f"(SELECT id FROM resource_providers WHERE uuid = '{uuid}')"

    def copy_odd(self, id_: str, *statements: str, code: int = 1) -> tuple[str, str]:
        """Return what became of a record: (outcome, details)."""
        self.change(*statements)
        expected = {row["id"]: row for row in self.migrate("check", code=code)}
        done = self.copy(code=code)
        self.assertEqual(expected, done, "the check says what the copy does")
        self.assertEqual([], self.migrate("diff"))
        return done[id_]["outcome"], done[id_]["details"]

    def read_ours(self, name: str, key: str) -> list[tuple]:
        return [row[1:] for row in view(self.connection)[name] if row[0] == key]

    def test_allocations_of_a_consumer_without_record(self) -> None:
        self.assertEqual(("create", "it has no record there"), self.copy_odd(
            SERVER, f"DELETE FROM consumers WHERE uuid = '{SERVER}'"))
        self.assertEqual(
            [(NOBODY, NOBODY, None, 0)], self.read_ours("consumers", SERVER))
        self.assertEqual(4, len(self.read_ours("allocations", SERVER)))
        self.assert_audited()

    def test_allocations_of_a_class_without_inventory(self) -> None:
        self.assertEqual(
            ("create", f"{CHILD} has no inventory of VCPU, of which it holds 2"),
            self.copy_odd(SERVER, "DELETE FROM inventories WHERE resource_provider_id = "
                          f"{self.id_of(CHILD)}"))
        self.assertIn((CHILD, "VCPU", 2), self.read_ours("allocations", SERVER))
        findings = json.loads(self.run_command("db", "audit", "-f", "json", code=1))
        self.assertEqual([("inventory", 3)],
                         [(each["what"], each["actual"]) for each in findings])

    def test_allocations_on_a_provider_that_is_gone(self) -> None:
        self.assertEqual(
            ("skipped", "60 of DISK_GB on the provider (row 77) are left out: the provider is "
             "not there; it holds nothing"),
            self.copy_odd(VOLUME, "UPDATE allocations SET resource_provider_id = 77 "
                          f"WHERE consumer_id = '{VOLUME}'"))
        self.assert_audited()

    def test_allocations_of_a_class_that_is_gone(self) -> None:
        outcome, details = self.copy_odd(
            SERVER, "UPDATE allocations SET resource_class_id = 7777 WHERE used = 2048")
        self.assertEqual("create", outcome)
        self.assertEqual(
            f"2048 of the resource class (row 7777) on {HOST} are left out: the resource class "
            "is not there", details)
        self.assert_audited()

    def test_inventory_of_a_class_that_is_gone(self) -> None:
        self.assertEqual(
            ("create", "its inventory of the resource class (row 7777) is left out: the class "
             "is not there"),
            self.copy_odd(HOST, "UPDATE inventories SET resource_class_id = 7777 "
                          "WHERE total = 65536", "DELETE FROM allocations WHERE used = 2048"))

    def test_more_used_than_fits(self) -> None:
        self.assertEqual(
            ("create", "3 VCPU are used of 1"),
            self.copy_odd(CHILD, "UPDATE inventories SET total = 1, allocation_ratio = 1.0 "
                          f"WHERE resource_provider_id = {self.id_of(CHILD)}"))
        self.assert_audited()
        self.assertEqual("equal", self.copy(code=1)[CHILD]["outcome"])

    def test_a_provider_without_root(self) -> None:
        self.assertEqual(("create", "it has no root there"), self.copy_odd(
            CHILD, "UPDATE resource_providers SET root_provider_id = NULL"))
        self.assertEqual((HOST, HOST), self.read_ours("providers", CHILD)[0][2:])

    def test_a_provider_whose_parent_is_gone(self) -> None:
        self.assertEqual(
            ("create", f"its parent (row 77) is not there: it is a root; its root there is "
             f"{HOST}, but {CHILD} is above it"),
            self.copy_odd(CHILD, "UPDATE resource_providers SET parent_provider_id = 77 "
                          f"WHERE uuid = '{CHILD}'"))
        self.assertEqual((None, CHILD), self.read_ours("providers", CHILD)[0][2:])

    def test_a_root_that_is_not_above(self) -> None:
        outcome, details = self.copy_odd(
            CHILD, f"UPDATE resource_providers SET root_provider_id = {self.id_of(SHARED)} "
            f"WHERE uuid = '{CHILD}'")
        self.assertEqual(("create", f"its root there is {SHARED}, but {HOST} is above it"),
                         (outcome, details))

    def test_a_provider_that_is_its_own_ancestor(self) -> None:
        loop = (f"UPDATE resource_providers SET parent_provider_id = {self.id_of(CHILD)} "
                f"WHERE uuid = '{HOST}'")
        self.assertEqual(("refused", "it is its own ancestor, or below one that is"),
                         self.copy_odd(HOST, loop, code=2))
        self.assertEqual("refused", self.copy(code=2)[SERVER]["outcome"])

    def test_a_provider_without_name(self) -> None:
        self.assertEqual(("refused", "it has no name"), self.copy_odd(
            SHARED, f"UPDATE resource_providers SET name = NULL WHERE uuid = '{SHARED}'",
            code=2))
        self.assertEqual(f"its resource provider {SHARED} is refused",
                         self.copy(code=2)[VOLUME]["details"])

    def test_a_provider_without_generation(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            HOST, f"UPDATE resource_providers SET generation = NULL WHERE uuid = '{HOST}'",
            code=0))
        self.assertEqual(0, self.read_ours("providers", HOST)[0][1])

    def test_a_consumer_without_allocations(self) -> None:
        self.assertEqual(("skipped", "it holds nothing"), self.copy_odd(
            VOLUME, f"DELETE FROM allocations WHERE consumer_id = '{VOLUME}'"))
        self.assertEqual([], self.read_ours("consumers", VOLUME))

    def test_a_consumer_whose_project_is_gone(self) -> None:
        self.assertEqual(
            ("create", "its project or user is not recorded there"),
            self.copy_odd(VOLUME, f"UPDATE consumers SET project_id = 77 WHERE uuid = '{VOLUME}'"))
        self.assertEqual(NOBODY, self.read_ours("consumers", VOLUME)[0][0])

    def test_a_consumer_without_type(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(VOLUME, code=0))
        self.assertEqual([("project-1", "user-1", None, 1)], self.read_ours("consumers", VOLUME))

    def test_a_consumer_whose_client_named_no_project(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(OLD_CLIENT, code=0))
        self.assertEqual((NOBODY, NOBODY), self.read_ours("consumers", OLD_CLIENT)[0][:2])

    def test_two_allocations_for_one(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            VOLUME, "INSERT INTO allocations (resource_provider_id, consumer_id, "
            "resource_class_id, used) SELECT resource_provider_id, consumer_id, "
            f"resource_class_id, 5 FROM allocations WHERE consumer_id = '{VOLUME}'", code=0))
        self.assertEqual([(SHARED, "DISK_GB", 65)], self.read_ours("allocations", VOLUME))

    def test_a_standard_trait_that_is_newer(self) -> None:
        self.assertEqual(
            ("create", "it is a standard trait there, and newer than those here"),
            self.copy_odd("HW_CPU_X86_TOMORROW", "UPDATE traits SET name = "
                          "'HW_CPU_X86_TOMORROW' WHERE name = 'CUSTOM_FAST'"))
        self.assertIn(("HW_CPU_X86_TOMORROW",), self.read_ours("traits", SHARED))

    def test_a_standard_class_that_is_newer(self) -> None:
        self.assertEqual(
            ("create", "it is a standard resource class there, and newer than those here"),
            self.copy_odd("QUBITS", "UPDATE resource_classes SET name = 'QUBITS' "
                          "WHERE name = 'CUSTOM_GOLD'"))
        self.assertIn("QUBITS", [row[0] for row in self.read_ours("inventories", HOST)])
        self.assert_audited()

    def test_a_class_of_a_name_that_none_can_have(self) -> None:
        outcome, details = self.copy_odd(
            "custom_gold", "UPDATE resource_classes SET name = 'custom_gold' "
            "WHERE name = 'CUSTOM_GOLD'", code=2)
        self.assertEqual(("refused", "no resource class can have this name"), (outcome, details))
        self.assertIn("left out", self.copy(code=2)[SERVER]["details"])
        self.assert_audited()

    def insert_providers(self, *names: str) -> list[str]:
        return [
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) "
            f"VALUES ({number}, 'odd-{number}', '{name}', 0, {number})"
            for number, name in enumerate(names, 90)]

    def test_names_that_differ_in_case(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("HOST", "Host"), code=0))

    def test_names_that_differ_in_blanks(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("host ", "host  "), code=0))

    def test_names_that_differ_in_their_unicode(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("h\u00f6st", "ho\u0308st"), code=0))


class TestTwoPlacements(MigrationTestCase):
    """Two Placements become one service, each with its own providers and consumers."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.make_source()
        self.rename: Callable[[str], str] = lambda uuid: f"f{uuid[1:]}"
        self.change(
            "UPDATE resource_providers SET uuid = 'f' || substr(uuid, 2), name = 'b ' || name",
            "UPDATE consumers SET uuid = 'f' || substr(uuid, 2)",
            "UPDATE allocations SET consumer_id = 'f' || substr(consumer_id, 2)",
            url=self.other)
        self.two = ("--from", f"placement@b={self.other}")

    def test_copy(self) -> None:
        expected = self.migrate("check", *self.two)
        self.assertEqual({"create": 14, "equal": 2}, self.count(expected))
        self.assertEqual(expected, self.migrate("copy", "--execute", *self.two))
        self.assertEqual([], self.migrate("diff", *self.two))
        self.assert_audited()
        self.assertEqual([], self.migrate("diff"), "what is of the other one is not extra")
        with connect(self.connection) as connection:
            origins = {row.source for row in connection.execute(
                sa.text("SELECT source FROM copied_records"))}
        self.assertEqual(2, len(origins))
        self.assertIn("placement@b", origins)

    def test_what_is_gone_from_one_of_them(self) -> None:
        self.migrate("copy", "--execute", *self.two)
        self.change("DELETE FROM allocations", "DELETE FROM consumers",
                    "DELETE FROM inventories",
                    "DELETE FROM resource_classes WHERE name = 'CUSTOM_GOLD'")
        done = self.copy("--prune")
        self.assertEqual({"CUSTOM_GOLD", SERVER, VOLUME, OLD_CLIENT},
                         {id_ for id_, row in done.items() if row["outcome"] == "pruned"})
        self.assertEqual([], self.migrate("diff", *self.two))
        self.assertEqual(3, len(view(self.connection)["consumers"]))
        self.assert_audited()

    def test_a_provider_of_both(self) -> None:
        self.change(f"UPDATE resource_providers SET uuid = '{HOST}' WHERE name = 'b host'",
                    url=self.other)
        outcomes = []
        for command in (("check",), ("copy", "--execute")):
            outcomes.append({row["id"]: row["details"] for row in self.migrate(
                *command, *self.two, code=2) if row["outcome"] == "refused"})
        self.assertEqual(outcomes[0], outcomes[1])
        refused = outcomes[0]
        self.assertEqual(
            {HOST, *map(self.rename, (CHILD, SERVER, OLD_CLIENT))}, refused.keys())
        self.assertRegex(refused.pop(HOST),
                         "^it was copied from placement@.*, and is never merged$")
        self.assertEqual(f"its parent {HOST} is refused", refused.pop(self.rename(CHILD)))
        for details in refused.values():
            self.assertRegex(details, "^its resource provider .* is refused$")
        self.assertEqual([], self.migrate("diff"), "the first is as it was")

    def test_a_consumer_of_both(self) -> None:
        self.change(
            f"UPDATE consumers SET uuid = '{VOLUME}' WHERE uuid = '{self.rename(VOLUME)}'",
            f"UPDATE allocations SET consumer_id = '{VOLUME}' "
            f"WHERE consumer_id = '{self.rename(VOLUME)}'", url=self.other)
        refused = [row for row in self.migrate("copy", "--execute", *self.two, code=2)
                   if row["outcome"] == "refused"]
        self.assertEqual([("consumer", VOLUME)], [(row["kind"], row["id"]) for row in refused])
        self.assertIn("is never merged", refused[0]["details"])
        self.assert_audited()

    def test_a_name_of_both(self) -> None:
        self.change("UPDATE resource_providers SET name = 'host' WHERE name = 'b host'",
                    url=self.other)
        for command in (("check",), ("copy", "--execute")):
            refused = {row["id"]: row["details"] for row in self.migrate(
                *command, *self.two, code=2) if row["outcome"] == "refused"}
            self.assertEqual(f"{HOST} is here already, with the same host",
                             refused[self.rename(HOST)])

    def test_a_label_that_is_too_long(self) -> None:
        self.run_command("migrate", "check", "--from", f"placement@{'x' * 21}={self.other}",
                         code=2)
        self.assertIn("a label of 1 to 20 characters", self.stderr)


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
        self.source = target
        self.assertEqual([], self.migrate("diff"))
