"""The packages that the guide for authors shows: written, installed, chosen, and used."""

from __future__ import annotations

import http.server
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from typing import Any

import fixtures
import testtools
import webob
from testtools import matchers

from placement_core import app, conf, errors, services
from placement_core.catalog import services as catalog_services
from placement_core.cli import plugin_packages
from placement_core.limits import registered
from placement_core.plugin_api import choices
from placement_core.reservations.provisioning import outbox
from placement_core.testing import factories
from placement_core.testing.fakes import MemoryCompute
from tests import serving
from tests.functional.cli import commands
from tests.http import base as http_base
from tests.http.leases_api import cases
from tests.third_party import chapters, installing

#: What every 503 of this API says first.
_PREFIX = "The server is currently unavailable. Please try again at a later time.\n"
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_ROOT = pathlib.Path(__file__).parents[2]


class PackageTestCase(http_base.HttpTestCase):
    """A test with the package of a chapter installed, and what it needs in a folder.

    :cvar driver_kind: what the driver does.
    """

    driver_kind: str

    def setUp(self) -> None:
        super().setUp()
        self.chapter = chapters.read(self.driver_kind)
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.installed = self.useFixture(
            installing.Installed(self.driver_kind, self.chapter.name)).folder
        self.sample = self.chapter.files["placement.conf.sample"].replace(
            f"/var/lib/{self.chapter.distribution}", str(self.folder))
        self.url = self.connection()
        #: What was said when something went wrong.
        self.said: list[str] = []

    def write(self, *lines: tuple[object, ...], name: str) -> None:
        """Write the CSV file of the driver."""
        self.folder.joinpath(name).write_text("".join(
            ",".join(map(str, line)) + "\n" for line in lines))

    def configure(self, sample: str | None = None) -> str:
        """Write placement.conf with the sample of the package; return its path."""
        path = self.folder / "placement.conf"
        path.write_text("\n".join([
            self.sample if sample is None else sample,
            "[quota]", "count_usage_from_placement = true",
            "[placement_database]", f"connection = {self.url}",
            "sqlite_synchronous = false",
            "[api]", "auth_strategy = noauth2", "allow_remote_noauth2 = true"]))
        return str(path)

    def serve(self) -> None:
        """Let the application be one that is configured as the package says."""
        self.app = app.make_app(conf.load(config_files=[self.configure()]))
        self.ctx = self.parts[-1].context()

    def fail_to_start(self, sample: str) -> None:
        """Note why the service does not start."""
        options = conf.load(config_files=[self.configure(sample)])
        self.note(self.assertRaises(errors.ConfigurationError, services.build, options))

    def note(self, said: object) -> None:
        self.said.append(str(said).replace(
            str(self.folder / "placement.conf"), "/etc/placement/placement.conf").replace(
            str(self.folder), f"/var/lib/{self.chapter.distribution}"))

    def register_limit(self, resource: str, limit: int) -> None:
        """Have a service of the type compute, and a default of its limit."""
        compute = catalog_services.create(self.ctx, service_type="compute").id
        registered.create_many(self.ctx, self.parts[-1].catalog, [{
            "service_id": compute, "region_id": None, "resource_name": resource,
            "default_limit": limit}])

    def capacity(self, method: str, path: str, body: Any = None) -> webob.Response:
        return self.ask(method, f"/capacity/v1{path}", body, version=None)


class _PackageTests:
    """What holds for the package of every kind."""

    def prepare(self) -> None:
        """Write what the driver reads when it is made."""

    def test_its_own_tests(self) -> None:
        """The contract of its kind, run as the README of the package says."""
        tests = f"test_{self.chapter.module}.py"
        self.folder.joinpath(tests).write_text(self.chapter.files[tests])
        done = subprocess.run(
            [sys.executable, "-m", "unittest"], cwd=self.folder, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": _path(self.installed)}, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        (count,) = re.findall(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
        self.assertGreater(int(count), 5, done.stderr)

    def test_it_is_found(self) -> None:
        """The service's own commands find the driver, and know its options."""
        self.prepare()
        path = self.configure()
        listed = commands.run("plugins", "list", "-f", "json", "--config-file", path)
        self.assertEqual(0, listed.returncode, listed.stderr)
        (row,) = [row for row in json.loads(listed.stdout)
                  if row["distribution"] == f"{self.chapter.distribution} 0.1"]
        self.assertEqual((self.driver_kind, self.chapter.name), (row["kind"], row["name"]))
        self.assertThat(row["state"], matchers.StartsWith("in use: ["))
        checked = commands.run("config", "check", "--config-file", path)
        self.assertEqual((0, ""), (checked.returncode, checked.stderr), checked.stdout)
        option = re.findall(r"^\w+ = ", self.sample, re.MULTILINE)[-1].removesuffix(" = ")
        path = self.configure(self.sample.replace(f"{option} =", f"x{option} ="))
        checked = commands.run("config", "check", "--config-file", path)
        self.assertEqual(1, checked.returncode)
        self.assertIn(f"is {option} meant?", checked.stdout + checked.stderr)

    def test_errors(self) -> None:
        """What goes wrong is said as the chapter says, no more and no less."""
        self.provoke_errors()
        self.assertEqual(
            {_DATE.sub("DATE", error) for error in self.chapter.errors},
            {_DATE.sub("DATE", " ".join(said.split())) for said in self.said})

    def test_the_chapter_shows_it(self) -> None:
        """The driver, its tests and its configuration, as they are written and installed."""
        module = self.chapter.module
        self.assertLessEqual(
            {f"{module}.py", f"test_{module}.py", "placement.conf.sample"}, self.chapter.shown)
        self.assertEqual(self.chapter.files[f"{module}.py"],
                         self.installed.joinpath(f"{module}.py").read_text())

    def provoke_errors(self) -> None:
        """Let everything go wrong that the chapter speaks of."""
        raise NotImplementedError


class TestCounting(_PackageTests, PackageTestCase):
    driver_kind = "counting"

    def test_it_counts(self) -> None:
        self.write(("one", "project", "user", 3), ("two", "other", "user", 4),
                   name="register.csv")
        self.serve()
        self.register_limit("class:CUSTOM_LICENCES", 10)
        quota = self.capacity("GET", "/quota/project").json
        self.assertEqual("licences", quota["source"])
        self.assertEqual(3, quota["resources"]["class:CUSTOM_LICENCES"]["used"])

    def test_a_started_service_counts_with_it(self) -> None:
        """A process of its own, chosen by options of the environment alone."""
        self.write(("one", "project", "user", 3), name="register.csv")
        self.serve()
        self.register_limit("class:CUSTOM_LICENCES", 10)
        service = self.useFixture(serving.Service(self.url, options={
            "PYTHONPATH": _path(self.installed), "OS_QUOTA__COUNTING_DRIVER": "licences",
            "OS_LICENCES_COUNTING__REGISTER": str(self.folder / "register.csv")}))
        for amount in (3, 1):
            self.write(("one", "project", "user", amount), name="register.csv")
            status, quota = service.request("GET", "/capacity/v1/quota/project")
            self.assertEqual(200, status, quota)
            self.assertEqual(amount, quota["resources"]["class:CUSTOM_LICENCES"]["used"])

    def test_members_of_server_groups_are_not_counted(self) -> None:
        """No limit on them lets anything pass; operators are told that it binds nobody."""
        self.write(("one", "project", "user", 3), name="register.csv")
        self.serve()
        self.register_limit("server_group_members", 10)
        answer = self.capacity("POST", "/quota/server_group_members", {
            "project_id": "project", "user_id": "user", "members": [], "asked": 1})
        self.assertEqual(400, answer.status_int, answer.text)
        self.assertEqual("quota.resource.uncounted", answer.json["errors"][0]["code"])
        [gap] = self.parts[-1].limit_gaps(self.ctx)
        self.assertIn("held to: server_group_members. The counting driver does not", gap)

    def test_a_defect_is_named(self) -> None:
        """The client learns nothing of it, the log everything, as the first chapter says."""
        self.useFixture(fixtures.MonkeyPatch(
            f"{self.chapter.module}.LicencesCounting.count", lambda *_, **__: {}["VCPU"]))
        self.serve()
        self.register_limit("class:CUSTOM_LICENCES", 10)
        log = self.useFixture(fixtures.FakeLogger())
        answer = self.capacity("GET", "/quota/project")
        self.assertEqual(500, answer.status_int)
        self.assertNotIn("licences", answer.text)
        (line,) = re.findall("^ {4}(the counting driver licences .*)$", chapters.FOLDER.joinpath(
            "index.rst").read_text(), re.MULTILINE)
        self.assertIn(line, log.output)

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.partition("\n\n")[0])
        self.serve()
        self.register_limit("class:CUSTOM_LICENCES", 10)
        answer = self.capacity("GET", "/quota/project")
        self.assertEqual(503, answer.status_int)
        self.note(answer.json["errors"][0]["detail"].removeprefix(_PREFIX))


class TestLimits(_PackageTests, PackageTestCase):
    driver_kind = "limits"

    def test_it_limits(self) -> None:
        self.serve()
        compute = catalog_services.create(self.ctx, service_type="compute").id
        self.write(("", compute, "", "class:VCPU", 20), ("project", compute, "", "class:VCPU", 5),
                   name="limits.csv")
        for project, limit in (("project", 5), ("other", 20)):
            quota = self.capacity("GET", f"/quota/{project}").json
            self.assertEqual(limit, quota["resources"]["class:VCPU"]["limit"])

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.partition("\n\n")[0])
        self.serve()
        catalog_services.create(self.ctx, service_type="compute")
        answer = self.capacity("GET", "/quota/project")
        self.assertEqual(503, answer.status_int)
        self.note(answer.json["errors"][0]["detail"].removeprefix(_PREFIX))


class TestEnforcement(_PackageTests, PackageTestCase):
    driver_kind = "enforcement"

    def test_it_binds(self) -> None:
        self.serve()
        model = self.ask("GET", "/v3/limits/model", version=None).json["model"]
        self.assertEqual(self.chapter.name, model["name"])

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.replace("percent = 80", "percent = 0"))


class TestCatalog(_PackageTests, PackageTestCase):
    driver_kind = "catalog"

    def prepare(self) -> None:
        self.folder.joinpath("directory.json").write_text(json.dumps({
            "services": [{"id": "5e" * 16, "type": "compute"}],
            "domains": [{"id": "d0" * 16, "name": "alpha"}],
            "projects": [{"id": "b0" * 16, "name": "web", "domain_id": "d0" * 16,
                          "parent_id": "d0" * 16}]}))

    def test_it_knows_who_exists(self) -> None:
        self.prepare()
        self.serve()
        for service, status in (("5e" * 16, 201), ("5f" * 16, 400)):
            answer = self.ask("POST", "/v3/registered_limits", {"registered_limits": [{
                "service_id": service, "resource_name": "cores", "default_limit": 10}]},
                version=None)
            self.assertEqual(status, answer.status_int, answer.text)

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample)


class TestReservations(_PackageTests, PackageTestCase):
    driver_kind = "reservations"

    def reserve(self, **fields: object) -> webob.Response:
        return self.ask("POST", "/v1/leases", {
            "name": "weekend", "start_date": cases.date(1), "end_date": cases.date(3),
            "events": [], "reservations": [{
                "resource_type": self.chapter.name, "product": "solver", "amount": 15,
                **fields}]}, version=None)

    def test_it_is_reserved(self) -> None:
        self.serve()
        self.assertEqual(201, self.reserve().status_int)
        self.assertEqual(201, self.reserve(amount=5).status_int)

    def test_another_name(self) -> None:
        """Who renames the entry point alone is told at the start, and by the list."""
        renamed = pathlib.Path(shutil.copytree(self.installed, self.folder / "renamed"))
        (points,) = renamed.glob("*.dist-info/entry_points.txt")
        points.write_text(points.read_text().replace(self.chapter.name, "virtual:other"))
        self.useFixture(fixtures.MonkeyPatch("sys.path", [str(renamed), *sys.path]))
        sample = self.sample.replace(self.chapter.name, "virtual:other")
        target = f"{self.chapter.module}:VirtualLicenceReservations"
        reason = (f"{target} has the resource_type 'virtual:licence'; expected 'virtual:other', "
                  "the name of its entry point")
        self.fail_to_start(sample)
        self.assertEqual(
            [f"[reservations] plugins = virtual:other: {reason} "
             f"({self.chapter.distribution} 0.1)"],
            self.said)
        listed = commands.run(
            "plugins", "list", "-f", "json", "--config-file", self.configure(sample))
        self.assertEqual([f"{reason}; [reservations] plugins names it"], [
            row["state"] for row in json.loads(listed.stdout) if row["class"] == target])

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.replace("solver:20", "solver:many"))
        self.serve()
        for status, fields in ((400, {"product": "painter"}), (201, {}), (409, {})):
            answer = self.reserve(**fields)
            self.assertEqual(status, answer.status_int, answer.text)
            if status != 201:
                self.note(answer.json["error_message"])


class TestCompute(_PackageTests, PackageTestCase):
    driver_kind = "compute"

    def setUp(self) -> None:
        super().setUp()
        # With the other design, a host is let into the freepool by the service itself.
        self.sample = self.sample.replace(
            "[reservations]", "[reservations]\ninstance_design = aggregate")

    def listen(self, handler: type[http.server.BaseHTTPRequestHandler]) -> MemoryCompute:
        agent = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.addCleanup(agent.server_close)
        self.addCleanup(agent.shutdown)
        threading.Thread(target=agent.serve_forever, daemon=True).start()
        self.sample = self.sample.replace("127.0.0.1:9000", f"127.0.0.1:{agent.server_port}")
        agent.compute = MemoryCompute(["c1"])
        return agent.compute

    def test_it_is_called(self) -> None:
        """A host that enters the freepool does so in the compute service, too."""
        tests = f"test_{self.chapter.module}"
        self.folder.joinpath(f"{tests}.py").write_text(self.chapter.files[f"{tests}.py"])
        self.useFixture(fixtures.MonkeyPatch("sys.path", [str(self.folder), *sys.path]))
        compute = self.listen(importlib.import_module(tests).Agent)
        self.serve()
        self.enter_freepool()
        self.assertEqual({"c1"}, compute.freepool)

    def enter_freepool(self) -> str | None:
        """Let a host in, and make the call of the outbox; return what became of it."""
        factories.provider(self.ctx, "c1", inventory={"VCPU": 8, "MEMORY_MB": 8192,
                                                      "DISK_GB": 100})
        answer = self.ask("POST", "/v1/os-hosts", {"name": "c1"}, version=None)
        self.assertEqual(201, answer.status_int, answer.text)
        outbox.make_calls(self.ctx, self.parts[-1].compute, "me", 10)
        return next((call.problem for call in outbox.list_(self.ctx)), None)

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.partition("\n\n")[0])
        # Nobody listens there.
        self.sample = self.sample.replace("127.0.0.1:9000", "127.0.0.1:1")
        self.serve()
        self.note(self.enter_freepool())


class TestCandidateOrder(_PackageTests, PackageTestCase):
    driver_kind = "candidate_order"

    def test_it_orders(self) -> None:
        self.serve()
        for name, memory in (("small", 1024), ("large", 8192), ("middle", 2048)):
            factories.provider(self.ctx, name, inventory={"VCPU": 8, "MEMORY_MB": memory})
        answer = self.ask("GET", "/allocation_candidates?resources=VCPU:1&limit=2").json
        names = {entry["uuid"]: entry["name"] for entry in self.ask(
            "GET", "/resource_providers").json["resource_providers"]}
        self.assertEqual(["large", "middle"], [
            names[uuid] for candidate in answer["allocation_requests"]
            for uuid in candidate["allocations"]])

    def provoke_errors(self) -> None:
        self.fail_to_start(self.sample.replace("MEMORY_MB", "memory"))


class TestNew(testtools.TestCase):
    """``placement-core plugins new``."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, kind: str, name: str) -> subprocess.CompletedProcess[str]:
        return commands.run("plugins", "new", kind, name, "--directory", str(self.folder))

    def test_it_writes_what_the_chapters_show(self) -> None:
        for kind in choices.KINDS:
            chapter = chapters.read(kind)
            done = self.write(kind, chapter.name)
            self.assertEqual(0, done.returncode, done.stderr)
            package = self.folder / chapter.distribution
            self.assertIn(f"pip install {package}", done.stdout)
            self.assertEqual(
                chapter.files, {file.name: file.read_text() for file in package.iterdir()})
        linted = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--line-length",
             "99", "--select", "B,C4,E,F,PIE,S,SIM,UP,W", self.folder],
            capture_output=True, text=True, check=False)
        self.assertEqual(0, linted.returncode, linted.stdout)

    def test_any_name(self) -> None:
        """What is written can be read by Python, and no name is one of somebody else's."""
        for kind, name in (("counting", "a"), ("limits", "x_1_y"), ("counting", "csv"),
                           ("reservations", "device:gpu.large"), ("catalog", "c" * 64)):
            files = plugin_packages.render(kind, name)
            module = plugin_packages.name_distribution(kind, name).replace("-", "_")
            compile(files[f"{module}.py"], module, "exec")
            self.assertNotIn(module, sys.stdlib_module_names)

    def test_what_is_there_stays(self) -> None:
        self.write("limits", "mine")
        readme = self.folder / "mine-limits" / "README.rst"
        readme.write_text("changed")
        done = self.write("limits", "mine")
        self.assertEqual((1, "changed"), (done.returncode, readme.read_text()))
        self.assertEqual(f"{self.folder}/mine-limits is there already\n", done.stderr)

    def test_bad_names(self) -> None:
        for kind, name, reason in (
            ("counting", "Mine", "expected letters from a to z, digits and underscores"),
            ("counting", "", "expected letters from a to z"),
            ("counting", "../mine", "expected letters from a to z"),
            ("counting", "x" * 65, "at most 64 characters"),
            ("reservations", "licence", "expected a resource type such as virtual:licence"),
            ("counting", "placement", "there is a counting driver placement already, of "
             "placement-core"),
        ):
            done = self.write(kind, name)
            self.assertEqual(1, done.returncode, name)
            self.assertIn(reason, done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
        self.assertEqual([], list(self.folder.iterdir()))


def _path(installed: pathlib.Path) -> str:
    """Return PYTHONPATH for a process that has the package, too."""
    return os.pathsep.join([str(installed), str(_ROOT), str(_ROOT / "plugins")])
