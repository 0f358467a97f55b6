"""``placement-core export``: real services go on from what is ours."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import stat
import subprocess
import sys
from typing import Any, TextIO

import fixtures
import sqlalchemy as sa
import testtools

from placement_core import db, services
from placement_core.limits import limits, registered, users
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.takeover.exports import files, keystone
from placement_core.takeover.keystone import ROOT_ID
from tests import databases, keystone_service, nova_databases, real_keystone_databases
from tests.functional.cli import test_commands
from tests.functional.migrations import bare
from tests.http import base as http_base

_CATALOG = """
regions: [{id: RegionOne}, {id: cellar, parent_region_id: RegionOne, description: below}]
services:
  - {type: compute, name: nova, id: nova}
  - {type: image, name: glance, id: glance}
endpoints: [{service: nova, interface: public, url: "http://nova", region_id: RegionOne}]
domains: [{name: Default, id: default}, {name: sales, id: sales}]
projects:
  - {name: shop, domain: sales, id: shop}
  - {name: web, domain: sales, id: web, parent: shop}
"""
_DEFAULTS = {
    "servers": 10, "class:VCPU": 20, "class:PCPU": 20, "class:MEMORY_MB": 51200,
    "server_metadata_items": 128, "server_injected_files": 5,
    "server_injected_file_content_bytes": 10240, "server_injected_file_path_bytes": 255,
    "server_key_pairs": 100, "server_groups": 10, "server_group_members": 10,
}


class ExportTestCase(test_commands.CommandTestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        # As "db sync" leaves it, in less time.
        self.connection = databases.settings(self.kind).connection
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def load(self, catalog: str = _CATALOG) -> None:
        """Register a catalog, and the service whose limits are created."""
        path = self.folder / "catalog.yaml"
        path.write_text(catalog)
        self.run_command("catalog", "load", str(path))
        self.parts = services.build(http_base.configuration(self.connection))
        self.addCleanup(self.parts.database.dispose)
        self.ctx = self.parts.context()

    def register(self, defaults=None, service_id="nova", **more) -> None:
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": service_id, "resource_name": name, "default_limit": value, **more}
            for name, value in (defaults or _DEFAULTS).items()])

    def limit(self, name: str, value: int, service_id="nova", **whose: object) -> str:
        [limit] = limits.create_many(self.ctx, self.parts.catalog, self.parts.model, [{
            "service_id": service_id, "resource_name": name, "resource_limit": value, **whose}])
        return limit.id

    def limit_user(self, name: str, value: int) -> str:
        [limit] = users.create_many(self.ctx, self.parts.catalog, [{
            "service_id": "nova", "resource_name": name, "resource_limit": value,
            "project_id": "web", "user_id": "ann"}])
        return limit.id

    def export(self, service: str, destination: str, code: int = 0) -> list[dict]:
        return json.loads(self.run_command(
            "export", service, "--to", str(destination), "-f", "json", code=code))

    def refuse(self, service: str, destination: str, reason: str) -> None:
        """Expect that nothing is exported, for a reason."""
        self.run_command("export", service, "--to", str(destination), "-f", "json", code=255)
        self.assertEqual(f"{reason}\n", self.stderr)

    def compare(self, source: str, code: int = 0) -> list[dict]:
        return json.loads(self.run_command("migrate", "diff", "--from", source, "-f", "json",
                                           code=code))

    def execute_there(self, url: str, statement: str) -> list:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            result = connection.execute(sa.text(statement))
            return list(result) if result.returns_rows else []


@testtools.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
@databases.on_each_database
class TestExportToKeystone(ExportTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()
        self.register()
        self.register({"image_count_total": 5}, "glance", region_id="RegionOne")
        self.limit("servers", 3, project_id="web", description="few")
        self.limit("class:VCPU", -1, domain_id="sales")
        self.target = real_keystone_databases.empty(self.kind)

    def count(self, table: str) -> int:
        quote = "`" if self.kind == "mysql" else '"'
        [(count,)] = self.execute_there(
            self.target, f"SELECT count(*) FROM {quote}{table}{quote}")
        return count

    def test_nothing_differs(self) -> None:
        self.assertEqual([], self.export("keystone", self.target))
        self.assertEqual([], self.compare(f"keystone={self.target}"))
        self.assertEqual(12, self.count("registered_limit"))
        # Nor from what another instance makes of it.
        self.connection = bare.database(self.kind, self.addCleanup)
        self.run_command("db", "sync")
        self.run_command(
            "migrate", "copy", "--from", f"keystone={self.target}", "--execute", "-f", "json")
        self.assertEqual([], self.compare(f"keystone={self.target}"))

    def test_keystone_as_it_is_bootstrapped(self) -> None:
        real_keystone_databases.run_keystone_manage(
            self.target, "bootstrap", "--bootstrap-password", "secret",
            "--bootstrap-region-id", "RegionOne", "--bootstrap-public-url", "http://keystone")
        kept = self.export("keystone", self.target, code=1)
        self.assertEqual(["service", "endpoint", "project"], [row["kind"] for row in kept])
        self.assertEqual({"the service's bootstrap made it; it stays, and is not ours"},
                         {row["reason"] for row in kept})
        differences = self.compare(f"keystone={self.target}", code=1)
        self.assertEqual({(row["id"], "missing") for row in kept},
                         {(row["id"], row["difference"]) for row in differences})

    def test_a_project_that_bootstrap_made_with_another_id(self) -> None:
        real_keystone_databases.run_keystone_manage(
            self.target, "bootstrap", "--bootstrap-password", "secret")
        [(id_,)] = self.execute_there(
            self.target, "SELECT id FROM project WHERE name = 'admin'")
        self.run_command("catalog", "project", "add", "admin", "--domain", "default", "--id", "a1")
        self.refuse("keystone", self.target, (
            "keystone: the database is not empty, and nothing was written: project has "
            f"{id_} with the domain_id, name of a1: default, admin"))
        self.assertEqual((3, 0, 0), (
            self.count("project"), self.count("service"), self.count("limit")))

    def test_rows_that_are_in_the_way(self) -> None:
        self.export("keystone", self.target)
        self.run_command("export", "keystone", "--to", self.target, code=255)
        self.assertRegex(self.stderr, (
            "^keystone: the database is not empty, and nothing was written: "
            r"region has 1 rows \(cellar\); service has 2 rows \(glance, nova\); "
            r"project has 3 rows \(sales, shop, web\); "
            r"registered_limit has rows \(\w{32}, \w{32}, \w{32}, …\); "
            r"limit has 2 rows \(\w{32}, \w{32}\)$"))
        self.assertEqual(2, self.count("limit"))

    def test_what_is_left_out(self) -> None:
        user_limit = self.limit_user("servers", 1)
        [left_out] = self.export("keystone", self.target, code=1)
        self.assertEqual({
            "kind": "user limit", "id": user_limit, "name": "nova servers of ann of web",
            "reason": "Keystone has no limits of users"}, left_out)
        self.assertEqual(2, self.count("limit"))

    def test_all_or_nothing(self) -> None:
        """The database refuses a row in the middle."""
        there, back = {
            "sqlite": ('CREATE UNIQUE INDEX only_one ON "limit" (resource_limit > -9)',
                       "DROP INDEX only_one"),
            "postgresql": ('CREATE UNIQUE INDEX only_one ON "limit" ((resource_limit > -9))',
                           "DROP INDEX only_one"),
            "mysql": ("ALTER TABLE `limit` ADD COLUMN one INT DEFAULT 1 UNIQUE",
                      "ALTER TABLE `limit` DROP COLUMN one"),
        }[self.kind]
        self.execute_there(self.target, there)
        self.addCleanup(self.execute_there, self.target, back)
        self.run_command("export", "keystone", "--to", self.target, code=255)
        self.assertIn("refuses a row, and nothing was written", self.stderr)
        self.assertEqual((1, 0, 0), (
            self.count("project"), self.count("region"), self.count("registered_limit")))

    def test_another_schema(self) -> None:
        self.execute_there(self.target, "UPDATE alembic_version SET version_num = 'newer' "
                           "WHERE version_num = '742c857f1dfb'")
        self.refuse("keystone", self.target, (
            "keystone: the database has the schema c88cdce8f248 with newer; this version knows "
            "742c857f1dfb with c88cdce8f248"))


@testtools.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestKeystoneServes(ExportTestCase):
    def test_limits(self) -> None:
        """A real Keystone goes on from there, and is bootstrapped afterwards."""
        self.load()
        self.register()
        of_project = self.limit("servers", 3, project_id="web", description="few")
        of_domain = self.limit("class:VCPU", -1, domain_id="sales")
        target = real_keystone_databases.empty("sqlite")
        self.export("keystone", target)
        service = self.useFixture(keystone_service.Keystone(
            f"[database]\nconnection = {target}\n"))
        admin = keystone_service.Admin(service.url)
        served = {limit.pop("id"): limit for limit in admin.list("limits")}
        for limit in served.values():
            limit.pop("links")
        common = {"service_id": "nova", "region_id": None}
        self.assertEqual({
            of_project: {**common, "project_id": "web", "domain_id": None, "description": "few",
                         "resource_name": "servers", "resource_limit": 3},
            of_domain: {**common, "project_id": None, "domain_id": "sales", "description": None,
                        "resource_name": "class:VCPU", "resource_limit": -1},
        }, served)
        self.assertEqual(_DEFAULTS, {
            limit["resource_name"]: limit["default_limit"]
            for limit in admin.list("registered_limits")})
        self.assertEqual({"nova", "glance", "keystone"},
                         {service["name"] for service in admin.list("services")})
        self.assertEqual(
            [("web", "shop", "sales")],
            [(project["id"], project["parent_id"], project["domain_id"])
             for project in admin.list("projects") if project["name"] == "web"])
        # It takes changes, too.
        admin.change("limits", of_project, resource_limit=4)
        [change] = [row for row in self.compare(f"keystone={target}", code=1)
                    if row["difference"] == "different"]
        self.assertEqual("resource_limit: 3 here, 4 there", change["details"])


#: With nova's own code.
_READ_QUOTAS = """
import json, sys
from nova import config, context, objects, quota
config.parse_args(["", "--config-file", sys.argv[1]])
objects.register_all()
ctx = context.get_admin_context()
print(json.dumps([
    {name: quotas["limit"] for name, quotas in found.items()} for found in (
        quota.QUOTAS.get_project_quotas(ctx, "web", usages=False),
        quota.QUOTAS.get_project_quotas(ctx, "shop", usages=False),
        quota.QUOTAS.get_user_quotas(ctx, "web", "ann", usages=False))]))
"""


@databases.on_each_database
class TestExportToNova(ExportTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()
        self.target = nova_databases.api(self.kind)

    def read_quotas(self) -> list[dict[str, int]]:
        """Return what nova itself makes of web, shop, and ann in web."""
        conf = self.folder / "nova.conf"
        conf.write_text(
            f"[DEFAULT]\nstate_path = {self.folder}\n"
            f"[database]\nconnection = {nova_databases.cell(self.kind)}\n"
            f"[api_database]\nconnection = {self.target}\n")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _READ_QUOTAS, str(conf)], check=False,
            env={**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"},
            capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_nova_reads_its_quotas(self) -> None:
        self.register({**_DEFAULTS, "servers": 11})
        self.limit("servers", 3, project_id="web")
        for name in ("class:VCPU", "class:PCPU"):
            self.limit(name, -1, project_id="web")
        self.limit_user("server_key_pairs", 2)
        self.assertEqual([], self.export("nova-quotas", self.target))
        of_web, of_shop, of_ann = self.read_quotas()
        self.assertEqual((3, -1, 51200), tuple(
            of_web[name] for name in ("instances", "cores", "ram")))
        self.assertEqual((11, 20, 51200), tuple(
            of_shop[name] for name in ("instances", "cores", "ram")))
        self.assertEqual((3, 2), (of_ann["instances"], of_ann["key_pairs"]))

    def test_there_and_back(self) -> None:
        """What came from nova and goes to another one is the same there."""
        engine, tables = nova_databases.reflected(
            self.target, "quotas", "quota_classes", "project_user_quotas")
        resources = ("instances", "cores", "ram", "metadata_items", "injected_files",
                     "injected_file_content_bytes", "injected_file_path_bytes", "key_pairs",
                     "server_groups", "server_group_members")
        with engine.begin() as connection:
            connection.execute(sa.insert(tables["quota_classes"]), [
                {"class_name": "default", "resource": name, "hard_limit": number}
                for number, name in enumerate(resources, 1)])
            connection.execute(sa.insert(tables["quotas"]), [
                {"project_id": project, "resource": name, "hard_limit": 5}
                for project in ("web", "shop") for name in resources])
            connection.execute(sa.insert(tables["project_user_quotas"]), [
                {"project_id": "web", "user_id": "ann", "resource": name, "hard_limit": 2}
                for name in resources])
        engine.dispose()
        self.run_command("migrate", "copy", "--from", f"nova-api={self.target}", "--execute")
        self.target = nova_databases.api(self.kind)
        self.assertEqual([], self.export("nova-quotas", self.target))
        self.assertEqual([], self.compare(f"nova-api={self.target}"))

    def test_what_nova_cannot_have(self) -> None:
        self.register({"servers": 11, "class:CUSTOM_GPU": 1})
        self.register({"image_count_total": 5}, "glance")
        of_domain = self.limit("servers", 3, domain_id="sales")
        left_out = {row["name"]: (row["id"], row["reason"]) for row in self.export(
            "nova-quotas", self.target, code=1)}
        self.assertEqual({"class:CUSTOM_GPU", "servers of sales", "glance image_count_total"},
                         set(left_out))
        self.assertEqual((of_domain, "nova has no quotas of domains"),
                         left_out["servers of sales"])

    def test_rows_that_are_in_the_way(self) -> None:
        self.register()
        self.execute_there(self.target, "INSERT INTO quotas (project_id, resource, hard_limit) "
                           "VALUES ('p', 'cores', 1)")
        [(id_,)] = self.execute_there(self.target, "SELECT id FROM quotas")
        self.refuse("nova-quotas", self.target, (
            "nova-quotas: the database is not empty, and nothing was written: "
            f"quotas has 1 rows ({id_})"))
        self.assertEqual([], self.execute_there(self.target, "SELECT id FROM quota_classes"))


class TestExportToFiles(ExportTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.load()
        self.register({"servers": 10})
        self.path = self.folder / "rows"

    def test_lines(self) -> None:
        limit = self.limit("servers", 3, project_id="web", description="wenige é")
        self.assertEqual([], self.export("keystone", str(self.path)))
        rows = [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]
        self.assertEqual(
            ["region", "service", "endpoint", "project", "registered_limit", "limit"],
            list(dict.fromkeys(row["table"] for row in rows)))
        self.assertEqual(ROOT_ID, next(
            row["values"]["id"] for row in rows if row["table"] == "project"))
        self.assertEqual(
            (limit, "web", 3, "wenige é"),
            tuple(rows[-1]["values"][name] for name in (
                "id", "project_id", "resource_limit", "description")))

    def test_a_catalog_that_keystone_has_stays_there(self) -> None:
        self.limit("servers", 3, project_id="web")
        exporter = keystone.make_exporter(_RemoteCatalog(self.parts.catalog), self.parts.model)
        with db.read(self.ctx):
            self.assertEqual(["registered_limit", "limit"],
                             [table for table, _ in exporter.list_rows(self.ctx)])
        self.assertEqual(("registered_limit", "limit"), exporter.tables)

    def test_only_the_owner_can_read_it(self) -> None:
        self.export("keystone", str(self.path))
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))

    def test_the_file_before_stays_until_all_is_written(self) -> None:
        def write_some(stream: TextIO, *_: object) -> None:
            stream.write("a part")
            raise OSError(errno.ENOSPC, "No space left on device")

        self.path.write_text("before")
        self.useFixture(fixtures.MonkeyPatch(f"{files.__name__}.write_lines", write_some))
        self.refuse("keystone", str(self.path), f"{self.path}: No space left on device")
        self.assertEqual("before", self.path.read_text())
        self.assertEqual({"catalog.yaml", "rows"}, set(os.listdir(self.folder)))

    def test_a_pipe_stays_one(self) -> None:
        os.mkfifo(self.path)
        # It has a reader before the command runs, and room for what that writes.
        with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as pipe:
            self.export("keystone", str(self.path))
            tables = {json.loads(line)["table"] for line in pipe}
        self.assertIn("registered_limit", tables)
        self.assertTrue(stat.S_ISFIFO(self.path.lstat().st_mode))
        self.assertEqual({"catalog.yaml", "rows"}, set(os.listdir(self.folder)))

    def test_a_link(self) -> None:
        """Neither it nor the file that it leads to is changed."""
        target = self.folder / "elsewhere"
        self.path.symlink_to(target)
        for _ in range(2):
            self.refuse("keystone", str(self.path),
                        f"{self.path}: it is a link; expected a file, or - for stdout")
            self.assertTrue(self.path.is_symlink())
            target.write_text("before")
        self.assertEqual("before", target.read_text())

    def test_a_folder(self) -> None:
        self.path.mkdir()
        self.refuse("keystone", str(self.path), f"{self.path}: Is a directory")

    def test_stdout(self) -> None:
        user_limit = self.limit_user("servers", 1)
        self.run_command("export", "keystone", "--to", "-", code=1)
        self.assertEqual(
            f"left out: user limit {user_limit} nova servers of ann of web: "
            "Keystone has no limits of users\n", self.stderr)

    def test_for_people(self) -> None:
        printed = self.run_command("export", "keystone", "--to", str(self.path))
        self.assertRegex(printed, r"registered_limit +1 rows\n")
        self.assertTrue(printed.endswith("Everything is exported.\n"), printed)

    def test_a_folder_that_is_not_there(self) -> None:
        path = self.folder / "none" / "rows"
        self.refuse("keystone", str(path), f"{path}: No such file or directory")

    def test_a_database_that_is_not_there(self) -> None:
        path = self.folder / "typo.sqlite"
        self.run_command("export", "keystone", "--to", f"sqlite:///{path}", code=255)
        self.assertRegex(self.stderr, "^keystone: sqlite:///.* cannot be written: ")
        self.assertFalse(path.exists())

    def test_limits_that_another_service_has(self) -> None:
        self.run_command("export", "keystone", "--to", str(self.path), code=255,
                         OS_LIMITS__DRIVER="keystone", OS_CATALOG__DRIVER="keystone",
                         OS_KEYSTONE_CLIENT__AUTH_TYPE="none",
                         OS_KEYSTONE_CLIENT__ENDPOINT_OVERRIDE="http://127.0.0.1:1")
        self.assertEqual("[limits] driver = keystone: limits are in another service already\n",
                         self.stderr)

    def test_no_compute_service(self) -> None:
        self.run_command("catalog", "service", "add", "compute", "--name", "second")
        self.refuse("nova-quotas", str(self.path), (
            "[quota] service_type = compute: the catalog has 2 services of this type; expected "
            "one, whose limits become nova's quotas"))


class _RemoteCatalog:
    """A catalog like another, which another service has."""

    local = False

    def __init__(self, catalog: CatalogDriver) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)
