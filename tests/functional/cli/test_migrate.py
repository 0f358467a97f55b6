"""``placement-core migrate …``: what real services know becomes ours."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import fixtures
import sqlalchemy as sa
import testtools

from placement_core.takeover.keystone import ROOT_ID
from tests import (
    blazar_databases,
    blazar_rows,
    databases,
    keystone_service,
    nova_databases,
    real_keystone_databases,
)
from tests.functional.cli import test_commands


class _Cloud:
    """A Keystone with a service, two projects, a registered limit and a limit."""

    def __init__(self) -> None:
        # The options make it another one than that of other tests.
        self.keystone = keystone_service.shared("# the source of migrations\n")
        self.database = self.keystone.folder / "keystone.sqlite"
        self._admin = keystone_service.admin(self.keystone)
        self.service = self._admin.make(
            "services", name="nova", type="compute", description="Compute")["id"]
        self._admin.make("endpoints", service_id=self.service, interface="public",
                         region_id="RegionOne", url="http://nova")
        self.domain = self._admin.make("domains", name="sales")["id"]
        self.parent = self._admin.make("projects", name="shop", domain_id=self.domain)["id"]
        self.child = self._admin.make(
            "projects", name="web", domain_id=self.domain, parent_id=self.parent,
            enabled=False)["id"]
        self.registered = self._make_limit(
            "registered_limits", default_limit=10, description="d" * 200)
        self.limit = self._make_limit("limits", project_id=self.child, resource_limit=5)

    def _make_limit(self, collection: str, **values: object) -> str:
        made = self._admin.make(
            collection, service_id=self.service, region_id="RegionOne",
            resource_name="class:VCPU", **values)
        return str(made["id"])


_make_cloud = functools.cache(_Cloud)


@testtools.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestMigrateFromKeystone(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = _make_cloud()
        self.source = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "keystone.sqlite")
        shutil.copy(self.cloud.database, self.source)
        self.database = f"sqlite:///{self.source}"
        self.sync()

    def change_keystone(self, *statements: str) -> None:
        engine = sa.create_engine(self.database)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
        engine.dispose()

    def migrate(self, *arguments: str, code: int = 0) -> list[dict]:
        command, *options = arguments
        return json.loads(self.run_command(
            "migrate", command, "--from", f"keystone={self.database}", *options, "-f", "json",
            code=code))

    def count(self, rows: list[dict]) -> dict[str, int]:
        return dict(collections.Counter(row["outcome"] for row in rows))

    def test_copy(self) -> None:
        found = self.migrate("check")
        self.assertEqual({"create"}, {row["outcome"] for row in found})
        self.assertEqual(found, self.migrate("copy"), "nothing is written without --execute")
        self.assertEqual(found, self.migrate("copy", "--execute"))
        again = self.migrate("copy", "--execute")
        self.assertEqual({"equal": len(found)}, self.count(again))
        self.assertEqual([], self.migrate("diff"))
        [limit] = json.loads(self.run_command("limits", "list", "-f", "json"))
        self.assertEqual((self.cloud.limit, 5), (limit["id"], limit["limit"]))

    def test_changes_of_keystone_follow(self) -> None:
        self.migrate("copy", "--execute")
        self.change_keystone(
            f"UPDATE project SET name = 'store' WHERE id = '{self.cloud.parent}'",
            f"UPDATE \"limit\" SET resource_limit = 6 WHERE id = '{self.cloud.limit}'")
        [limit, project] = sorted(self.migrate("diff", code=1), key=lambda row: row["kind"])
        self.assertEqual(("limit", "different", "resource_limit: 5 here, 6 there"),
                         (limit["kind"], limit["difference"], limit["details"]))
        self.assertEqual("name: \"shop\" here, \"store\" there", project["details"])
        self.assertEqual(2, self.count(self.migrate("copy", "--execute"))["update"])
        self.assertEqual([], self.migrate("diff"))

    def test_what_is_gone_stays_unless_it_is_pruned(self) -> None:
        self.migrate("copy", "--execute")
        self.change_keystone(f"DELETE FROM \"limit\" WHERE id = '{self.cloud.limit}'",
                             f"DELETE FROM project WHERE id = '{self.cloud.child}'")
        gone = [row for row in self.migrate("check", code=1) if row["outcome"] == "gone"]
        self.assertEqual([("limit", self.cloud.limit), ("project", self.cloud.child)],
                         [(row["kind"], row["id"]) for row in gone])
        self.migrate("copy", "--execute", code=1)
        self.assertEqual(["extra", "extra"],
                         [row["difference"] for row in self.migrate("diff", code=1)])
        self.assertEqual(
            2, self.count(self.migrate("copy", "--execute", "--prune"))["pruned"])
        self.assertEqual([], self.migrate("diff"))

    def replace_domain(self) -> tuple[str, str]:
        """Let a new domain and a project have the names of others, which Keystone deleted."""
        domain, project = "d" * 32, "e" * 32
        self.change_keystone(
            f"DELETE FROM \"limit\" WHERE id = '{self.cloud.limit}'",
            f"DELETE FROM project WHERE id = '{self.cloud.child}'",
            f"UPDATE project SET id = '{project}', domain_id = '{domain}', "
            f"parent_id = '{domain}' WHERE id = '{self.cloud.parent}'",
            f"UPDATE project SET id = '{domain}' WHERE id = '{self.cloud.domain}'")
        return domain, project

    def test_a_domain_that_is_gone(self) -> None:
        """It was disabled before it was deleted, which ours need not have learned."""
        self.migrate("copy", "--execute")
        new_ids = self.replace_domain()
        refused = {row["id"] for row in self.migrate("copy", "--execute", code=2)
                   if row["outcome"] == "refused"}
        self.assertEqual({*new_ids}, refused, "its name is taken")
        rows = self.migrate("copy", "--execute", "--prune")
        self.assertEqual(
            {self.cloud.limit, self.cloud.child, self.cloud.parent, self.cloud.domain},
            {row["id"] for row in rows if row["outcome"] == "pruned"})
        self.assertEqual(
            {*new_ids}, {row["id"] for row in rows if row["outcome"] == "create"})
        self.assertEqual([], self.migrate("diff"))

    def test_a_domain_that_is_gone_and_has_projects_of_ours(self) -> None:
        self.migrate("copy", "--execute")
        self.run_command("catalog", "project", "add", "ours", "--domain", self.cloud.domain)
        self.replace_domain()
        reasons = {row["id"]: row["details"] for row in self.migrate(
            "copy", "--execute", "--prune", code=2) if row["outcome"] == "refused"}
        self.assertEqual(f"The domain {self.cloud.domain} cannot be deleted: projects are in it.",
                         reasons[self.cloud.domain])
        projects = json.loads(self.run_command("catalog", "project", "list", "-f", "json"))
        self.assertIn("ours", {project["name"] for project in projects})

    def test_what_was_deleted_here_comes_again(self) -> None:
        self.migrate("copy", "--execute")
        self.run_command("catalog", "project", "remove", self.cloud.child)
        self.assertEqual(2, self.count(self.migrate("copy", "--execute"))["create"])
        self.assertEqual([], self.migrate("diff"))

    def test_what_was_here_before_is_not_gone(self) -> None:
        self.run_command("catalog", "domain", "add", "ours")
        self.migrate("copy", "--execute", "--prune")
        [extra] = self.migrate("diff", code=1)
        self.assertEqual(("domain", "extra"), (extra["kind"], extra["difference"]))

    def test_oddities_are_named(self) -> None:
        self.change_keystone(
            "INSERT INTO registered_limit (id, service_id, region_id, resource_name, "
            f"default_limit) VALUES ('twin', '{self.cloud.service}', 'RegionOne', "
            "'class:VCPU', 99)",
            'INSERT INTO "limit" (id, project_id, resource_limit, registered_limit_id) '
            f"VALUES ('ghost', 'deleted', 3, '{self.cloud.registered}')")
        left = {row["id"]: (row["outcome"], row["details"]) for row in self.migrate(
            "copy", "--execute", code=2) if row["outcome"] in ("refused", "skipped")}
        self.assertEqual({
            "twin": ("refused", f"{self.cloud.registered} is for the same resource, and older: "
                     "Keystone answers from that"),
            "ghost": ("skipped", "its project deleted was deleted"),
        }, left)
        self.assertEqual([("registered limit", "left out", 1)], [
            (row["kind"], row["difference"], row["records"]) for row in self.migrate("diff")])

    def test_a_name_that_is_taken_here(self) -> None:
        self.run_command("catalog", "domain", "add", "sales", "--id", "a" * 32)
        expected = self.migrate("check", code=2)
        refused = {row["kind"]: row["details"] for row in expected
                   if row["outcome"] == "refused"}
        self.assertEqual(f"{'a' * 32} is here already, with the same sales", refused["domain"])
        self.assertRegex(refused["project"], "^its (domain|parent) .* is refused$")
        self.assertIn("limit", refused)
        self.assertCountEqual(expected, self.migrate("copy", "--execute", code=2))

    def test_values_that_our_catalog_refuses(self) -> None:
        """The check says what the copy does."""
        self.change_keystone(
            "UPDATE endpoint SET interface = 'odd'",
            f"UPDATE project SET name = '{'x' * 65}' WHERE id = '{self.cloud.parent}'",
            f"UPDATE registered_limit SET resource_name = '{'r' * 256}'",
            f"INSERT INTO region (id, description, extra) VALUES ('{'r' * 256}', '', '{{}}')")
        expected = self.migrate("check", code=2)
        self.assertEqual({
            "region": "The id of a region must be text of 1 to 255 characters, without NUL.",
            "endpoint": "The interface of a endpoint must be one of public, internal, admin.",
            "project": f"its parent {self.cloud.parent} is refused",
            "limit": f"its project {self.cloud.child} is refused"},
            {row["kind"]: row["details"] for row in expected
             if row["outcome"] == "refused" and row["kind"] != "registered limit"})
        self.assertCountEqual(expected, self.migrate("copy", "--execute", code=2))

    def test_a_region_of_blanks(self) -> None:
        """Keystone takes it; here it would be no region to limits, on MariaDB."""
        self.change_keystone("INSERT INTO region (id, description, extra) VALUES (' ', '', '{}')")
        expected = self.migrate("check", code=2)
        self.assertEqual([("region", "The id of a region must be text that is not blank.")], [
            (row["kind"], row["details"]) for row in expected if row["outcome"] == "refused"])
        self.assertCountEqual(expected, self.migrate("copy", "--execute", code=2))

    def test_for_people_it_counts_and_names_what_to_look_at(self) -> None:
        printed = self.run_command("migrate", "check", "--from", f"keystone={self.database}")
        self.assertRegex(printed, r"projects +3 create\n")
        self.assertNotIn(self.cloud.child, printed)

    def test_an_unknown_schema(self) -> None:
        self.change_keystone("UPDATE alembic_version SET version_num = 'new' "
                             "WHERE version_num = '742c857f1dfb'")
        self.run_command(
            "migrate", "check", "--from", f"keystone={self.database}", code=255)
        self.assertEqual(
            "keystone: the database has the schema c88cdce8f248 with new; this version knows "
            "742c857f1dfb with c88cdce8f248\n", self.stderr)

    def test_a_database_that_is_not_there(self) -> None:
        self.run_command(
            "migrate", "check", "--from", "keystone=postgresql://nobody:secret@127.0.0.1:1/none",
            code=255)
        self.assertIn("keystone: postgresql://", self.stderr)
        self.assertNotIn("secret", self.stderr)
        self.assertEqual(1, self.stderr.count("\n"))

    def test_quotas_of_projects_that_come_with_it(self) -> None:
        nova = nova_databases.api("sqlite")
        engine, tables = nova_databases.reflected(nova, "quotas")
        with engine.begin() as connection:
            connection.execute(sa.insert(tables["quotas"]), {
                "project_id": self.cloud.child, "resource": "ram", "hard_limit": 5})
        engine.dispose()
        for options in ((), ("--execute",)):
            created = {row["name"] for row in self.migrate(
                "copy", "--from", f"nova-api={nova}", *options)
                if row["kind"] == "limit" and row["outcome"] == "create"}
            self.assertIn(f"class:MEMORY_MB of {self.cloud.child}", created)
        self.assertEqual([], self.migrate("diff", "--from", f"nova-api={nova}"))
        # Each alone: what only the other one has is not extra.
        self.assertEqual([], self.migrate("diff"))
        self.assertEqual([], json.loads(self.run_command(
            "migrate", "diff", "--from", f"nova-api={nova}", "-f", "json")))
        self.assertIn('Next: "migrate shadow serve"', self.run_command("migrate", "status"))

    def test_what_is_gone_from_one_of_two_sources(self) -> None:
        nova = nova_databases.api("sqlite")
        self.migrate("copy", "--from", f"nova-api={nova}", "--execute")
        self.change_keystone(f"DELETE FROM \"limit\" WHERE id = '{self.cloud.limit}'")
        [row] = self.migrate("diff", code=1)
        self.assertEqual((self.cloud.limit, "extra"), (row["id"], row["difference"]))
        self.assertEqual([], json.loads(self.run_command(
            "migrate", "diff", "--from", f"nova-api={nova}", "-f", "json")))

    def test_limits_that_two_sources_have(self) -> None:
        """The check says what the copy does."""
        sources = (f"keystone={self.database}", "--from",
                   f"nova-api={nova_databases.api('sqlite')}")
        self.change_keystone("UPDATE registered_limit SET region_id = NULL")
        outcomes = []
        for command in (("check",), ("copy", "--execute")):
            rows = json.loads(self.run_command(
                "migrate", *command, "--from", *sources, "-f", "json", code=2))
            outcomes.append({row["name"]: row["details"] for row in rows
                             if row["outcome"] == "refused"})
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(["class:VCPU"], list(outcomes[0]))
        self.assertIn(self.cloud.registered, outcomes[0]["class:VCPU"])

    def test_two_keystones(self) -> None:
        """Each would prune what came from the other."""
        other = self.source.with_name("other.sqlite")
        shutil.copy(self.source, other)
        self.run_command(
            "migrate", "copy", "--execute", "--prune", "--from", f"keystone={self.database}",
            "--from", f"keystone=sqlite:///{other}", code=255)
        self.assertEqual(
            "keystone is given twice: what is copied from one of them could not be told from what "
            "is copied from the other\n", self.stderr)
        self.assertEqual([], json.loads(self.run_command(
            "catalog", "project", "list", "-f", "json")))

    def test_a_file_that_is_not_there(self) -> None:
        path = self.source.with_name("typo.sqlite")
        self.run_command("migrate", "check", "--from", f"keystone=sqlite:///{path}", code=255)
        self.assertFalse(path.exists())

    def test_the_source_is_only_read(self) -> None:
        before = self.source.read_bytes()
        self.migrate("copy", "--execute")
        self.assertEqual(before, self.source.read_bytes())


#: The longest id that Keystone's tables of projects and limits have room for.
_LONG_ID = "a" * 64


@testtools.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
@databases.on_each_database
class TestOdditiesOfKeystone(test_commands.CommandTestCase):
    """What its tables can have, on each database that Keystone can have."""

    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.cloud = _make_cloud()
        self.source = real_keystone_databases.copy(self.kind, self.cloud.database)
        self.connection = databases.settings(self.kind).connection

    def migrate(self, *arguments: str, code: int = 0) -> list[dict]:
        return json.loads(self.run_command(
            "migrate", *arguments, "--from", f"keystone={self.source}", "-f", "json", code=code))

    def insert(self) -> None:
        """Insert what Keystone's API refuses today, and its tables do not."""
        ids = itertools.count(1000)
        registered = {"region_id": None, "resource_name": "class:DISK_GB", "default_limit": 1,
                      "description": None}
        limit = {"project_id": self.cloud.child, "domain_id": None, "resource_limit": 9,
                 "description": None, "registered_limit_id": self.cloud.registered}
        real_keystone_databases.insert(self.source, [
            ("project", {
                "id": _LONG_ID, "name": "long", "domain_id": self.cloud.domain,
                "parent_id": self.cloud.domain, "is_domain": False, "enabled": True,
                "description": "p" * 300, "extra": "{}"}),
            *(("registered_limit", {"internal_id": next(ids), **registered, **values})
              for values in (
                  # Its id is before that of the older one.
                  {"id": "0-twin", "service_id": self.cloud.service, "region_id": "RegionOne",
                   "resource_name": "class:VCPU"},
                  {"id": "described", "service_id": self.cloud.service, "description": "d" * 300},
                  {"id": "nobodys", "service_id": None},
                  {"id": "lost", "service_id": "deleted"})),
            *(("limit", {"internal_id": next(ids), **limit, **values}) for values in (
                {"id": "0-second"},
                {"id": _LONG_ID, "project_id": _LONG_ID, "description": "l" * 300},
                {"id": "of-domain", "project_id": self.cloud.domain},
                {"id": "of-twin", "project_id": self.cloud.parent,
                 "registered_limit_id": "0-twin"},
                {"id": "orphan", "registered_limit_id": "deleted"},
                {"id": "of-nobodys", "registered_limit_id": "nobodys"},
                {"id": "of-lost", "registered_limit_id": "lost"}))])

    def read_ours(self, statement: str) -> list[tuple]:
        engine = sa.create_engine(self.connection, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return sorted(tuple(row) for row in connection.execute(sa.text(statement)))

    def test_each_has_its_line(self) -> None:
        self.insert()
        checked = self.migrate("check", code=2)
        self.assertCountEqual(checked, self.migrate("copy", "--execute", code=2))
        registered = self.cloud.registered
        older = "is for the same resource, and older: Keystone answers from that"
        self.assertEqual({
            "0-twin": ("refused", f"{registered} {older}"),
            "nobodys": ("refused", "it has no service"),
            "lost": ("refused", "its service deleted is not there"),
            "0-second": ("refused", f"{self.cloud.limit} {older}"),
            "orphan": ("refused", "its registered limit deleted is not there"),
            "of-nobodys": ("refused", "its registered limit nobodys is refused"),
            "of-lost": ("refused", "its registered limit lost is refused"),
        }, {row["id"]: (row["outcome"], row["details"]) for row in checked
            if row["outcome"] != "create"})
        self.assertEqual(
            sorted([(registered, 10, "d" * 200), ("described", 1, "d" * 300)]),
            self.read_ours("SELECT uuid, default_limit, description FROM registered_limits"))
        self.assertEqual(sorted([
            (self.cloud.limit, self.cloud.child, False, 5, None),
            (_LONG_ID, _LONG_ID, False, 9, "l" * 300),
            ("of-domain", self.cloud.domain, True, 9, None),
            ("of-twin", self.cloud.parent, False, 9, None),
        ]), self.read_ours(
            "SELECT uuid, node_id, is_domain, resource_limit, description FROM limits"))
        self.assertIn(
            (_LONG_ID, "long", self.cloud.domain, "p" * 300),
            self.read_ours("SELECT id, name, domain_id, description FROM catalog_projects"))
        # The name of a service is in its "extra".
        self.assertIn(("compute", "nova", "Compute"), self.read_ours(
            "SELECT type, name, description FROM catalog_services"))
        # There the root of all domains is a row like others.
        self.assertNotIn(ROOT_ID, {row["id"] for row in checked})
        self.assertNotIn((ROOT_ID,), self.read_ours("SELECT id FROM catalog_domains"))
        again = self.migrate("copy", "--execute", code=2)
        self.assertEqual({"equal", "refused"}, {row["outcome"] for row in again})
        # What is refused is no difference, and is not silent.
        self.assertCountEqual(
            [("left out", "registered limit", 3), ("left out", "limit", 4)],
            [(row["difference"], row["kind"], row["records"]) for row in self.migrate("diff")])


_CATALOG = """
services: [{type: compute, name: nova, id: nova}]
domains: [{name: Default, id: default}]
projects: [{name: web, domain: default, id: web}, {name: shop, domain: default, id: shop}]
"""
#: With nova's own code.
_SET_QUOTAS = """
import sys
from nova import config, context, objects
config.parse_args(["", "--config-file", sys.argv[1]])
objects.register_all()
quotas, ctx = objects.Quotas, context.get_admin_context()
quotas.create_class(ctx, "default", "ram", 4096)
quotas.create_class(ctx, "gold", "ram", 8192)
quotas.create_limit(ctx, "web", "instances", 3)
quotas.create_limit(ctx, "web", "cores", -1)
quotas.create_limit(ctx, "deleted", "cores", 5)
quotas.create_limit(ctx, "web", "floating_ips", 5)
quotas.create_limit(ctx, "shop", "key_pairs", 2, user_id="ann")
"""


@databases.on_each_database
class TestMigrateFromNova(test_commands.CommandTestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.source = nova_databases.api(self.kind)
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conf = folder / "nova.conf"
        self.conf.write_text(
            f"[DEFAULT]\nstate_path = {folder}\n[quota]\ninstances = 7\n"
            f"[database]\nconnection = {nova_databases.cell(self.kind)}\n"
            f"[api_database]\nconnection = {self.source}\n")
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SET_QUOTAS, str(self.conf)], check=True,
            env={**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"},
            capture_output=True)
        catalog = folder / "catalog.yaml"
        catalog.write_text(_CATALOG)
        self.sync()
        self.run_command("catalog", "load", str(catalog))

    def migrate(self, command: str, *options: str, code: int = 0) -> list[dict]:
        return json.loads(self.run_command(
            "migrate", command, "--from", f"nova-api={self.source},{self.conf}", *options,
            "-f", "json", code=code))

    def test_copy(self) -> None:
        left = {row["name"]: row["details"] for row in self.migrate(
            "copy", "--execute", code=1) if row["outcome"] == "skipped"}
        self.assertEqual({
            "gold ram": "nova asks for no class but default",
            "cores of deleted": "its project deleted was deleted",
            "floating_ips of web": "nova gave up its networks, and the quotas of them",
        }, left)
        limits = json.loads(self.run_command("limits", "list", "-f", "json"))
        self.assertEqual(
            {"servers": 3, "class:VCPU": -1, "class:PCPU": -1, "cores": -1},
            {row["resource_name"]: row["limit"] for row in limits})
        registered = {row["resource_name"]: row["default"] for row in json.loads(
            self.run_command("limits", "list", "--registered", "-f", "json"))}
        self.assertEqual(
            (7, 4096, 100), tuple(registered[name] for name in (
                "servers", "class:MEMORY_MB", "server_key_pairs")))
        self.assertEqual([], self.migrate("diff"))
        again = self.migrate("copy", "--execute", code=1)
        self.assertEqual({"equal", "skipped"}, {row["outcome"] for row in again})

    def test_a_changed_quota_follows(self) -> None:
        self.migrate("copy", "--execute", code=1)
        engine, tables = nova_databases.reflected(self.source, "quotas", "project_user_quotas")
        with engine.begin() as connection:
            for table in tables.values():
                connection.execute(sa.update(table).values(hard_limit=9))
        engine.dispose()
        details = sorted(row["details"] for row in self.migrate("diff", code=1))
        self.assertEqual([
            *["resource_limit: -1 here, 9 there"] * 3,
            "resource_limit: 2 here, 9 there", "resource_limit: 3 here, 9 there"], details)
        self.migrate("copy", "--execute", code=1)
        self.assertEqual([], self.migrate("diff"))

    def test_prune_without_a_clear_service(self) -> None:
        """What was copied stays when it is not clear any more which service limits are of."""
        self.migrate("copy", "--execute", code=1)
        limits = self.run_command("limits", "list", "-f", "json")
        unclear = "the catalog has not exactly one service of [quota] service_type"
        self.run_command("catalog", "service", "add", "compute", "--name", "another")
        rows = self.migrate("copy", "--execute", "--prune", code=2)
        self.assertEqual(limits, self.run_command("limits", "list", "-f", "json"))
        self.assertEqual(
            {"limit": f"7 records: {unclear}", "registered limit": f"12 records: {unclear}",
             "user limit": unclear},
            {row["kind"]: row["details"] for row in rows if row["outcome"] == "refused"})
        self.assertEqual({("left out", kind, records) for kind, records in (
            ("limit", 7), ("registered limit", 12), ("user limit", 1))}, {
            (row["difference"], row["kind"], row["records"]) for row in self.migrate("diff")})
        self.run_command("catalog", "service", "remove", "another")
        self.assertEqual([], self.migrate("diff"))


@databases.on_each_database
@testtools.skipUnless(blazar_databases.INSTALLED, "Blazar is not installed")
class TestMigrateFromBlazar(test_commands.CommandTestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.source = blazar_databases.empty(self.kind)
        self.tables = blazar_databases.Tables(self.source)
        self.addCleanup(self.tables.dispose)
        self.run_command("db", "sync")
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     f"root_provider_id) VALUES (1, '{blazar_rows.new_id()}', 'c1', 0, 1)")
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "VALUES (1, 0, 8, 0, 1, 8, 1, 1.0, 0, 8)")
        self.lease = blazar_rows.LeaseRows().instances({"7": 2}, memory_mb=1, disk_gb=0)
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "VALUES (1, 1, 8, 0, 1, 8, 1, 1.0, 0, 8)")
        self.tables.insert([blazar_rows.host("7", "c1"), *self.lease])

    def migrate(self, command: str, *options: str, code: int = 0) -> list[dict]:
        return json.loads(self.run_command(
            "migrate", command, "--from", f"blazar={self.source}", *options, "-f", "json",
            code=code))

    def test_copy(self) -> None:
        checked = self.migrate("check")
        self.assertEqual([("host", "7", "create"), ("lease", self.lease.id, "create")],
                         [(row["kind"], row["id"], row["outcome"]) for row in checked])
        self.assertEqual(checked, self.migrate("copy", "--execute"))
        self.assertEqual([], self.migrate("diff"))
        [lease] = json.loads(self.run_command("leases", "list", "-f", "json"))
        self.assertEqual((self.lease.id, "PENDING"), (lease["id"], lease["status"]))
        [host] = json.loads(self.run_command("hosts", "list", "-f", "json"))
        self.assertEqual((7, "c1"), (host["id"], host["name"]))

    def test_prune_without_a_plugin(self) -> None:
        """What was copied stays when there is no plugin for it here any more."""
        self.migrate("copy", "--execute")
        [row] = [row for row in json.loads(self.run_command(
            "migrate", "copy", "--execute", "--prune", "--from", f"blazar={self.source}", "-f",
            "json", code=1, OS_RESERVATIONS__PLUGINS="physical:host"))
            if row["kind"] == "lease"]
        self.assertEqual((self.lease.id, "skipped"), (row["id"], row["outcome"]))
        self.assertEqual([], self.migrate("diff"))

    def test_differences_are_small(self) -> None:
        self.migrate("copy", "--execute")
        self.tables.update("events", self.lease.end_id, status="DONE")
        self.tables.update("leases", self.lease.id, degraded=True, status="ERROR")
        [row] = self.migrate("diff", code=1)
        self.assertEqual(
            'status: "PENDING" here, "ERROR" there; degraded: false here, true there; events.'
            f'{self.lease.end_id}.status: "UNDONE" here, "DONE" there', row["details"])

    def test_what_cannot_be_copied(self) -> None:
        """All else is equal; nobody may take that for all."""
        self.tables.insert(blazar_rows.LeaseRows("DELETING").instances({"7": 1}))
        self.tables.insert(blazar_rows.LeaseRows().other("virtual:floatingip"))
        self.migrate("copy", "--execute", code=2)
        self.assertEqual([{
            "kind": "lease", "id": "", "name": "", "difference": "left out",
            "details": '2 records: "migrate check" says why', "records": 2}],
            self.migrate("diff"))
        diff = ("migrate", "diff", "--from", f"blazar={self.source}")
        self.assertEqual(
            "All is equal but for 2 records that cannot be copied: `placement-core migrate check` "
            "says why.\n", self.run_command(*diff))
        status = self.run_command("migrate", "status")
        self.assertIn("blazar: equal but for 2 records that cannot be copied (2 records of ",
                      status)
        self.assertIn('Next: "migrate check" (blazar: 2 records cannot be copied), then ', status)
        self.tables.update("leases", self.lease.id, name="renamed")
        [row, _] = self.migrate("diff", code=1)
        self.assertEqual(("different", 1), (row["difference"], row["records"]))
        printed = self.run_command(*diff, code=1)
        self.assertEqual("Beside these, 2 records cannot be copied: `placement-core migrate "
                         "check` says why.", printed.splitlines()[-1])
        self.assertIn("| kind  | id ", printed)
        self.assertNotIn("| records", printed)

    def test_a_lease_that_was_copied_and_is_deleted_there(self) -> None:
        """What is here is not what is there, and no copy can change that."""
        self.migrate("copy", "--execute")
        self.tables.update("leases", self.lease.id, status="DELETING")
        self.assertEqual(
            "All is equal but for 1 record that cannot be copied: `placement-core migrate check` "
            "says why.\n",
            self.run_command("migrate", "diff", "--from", f"blazar={self.source}"))

    def test_what_people_are_to_know(self) -> None:
        self.tables.update("leases", self.lease.id, status="UPDATING")
        skipped = blazar_rows.LeaseRows().other("virtual:floatingip")
        self.tables.insert(skipped)
        printed = self.run_command(
            "migrate", "check", "--from", f"blazar={self.source}", code=1)
        self.assertRegex(printed, r"leases +1 create, 1 skipped\n")
        self.assertIn("it was UPDATING; by its events it is PENDING", " ".join(printed.split()))
        self.assertIn(skipped.id, printed)

    def test_an_unknown_schema(self) -> None:
        self.tables.rename_revision("new")
        self.addCleanup(self.tables.rename_revision, "553383923ca0")
        self.run_command("migrate", "check", "--from", f"blazar={self.source}", code=255)
        self.assertEqual("blazar: the database has the schema new; this version knows "
                         "553383923ca0\n", self.stderr)
