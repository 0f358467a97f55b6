"""``openstack capacity ...`` with a real Keystone: what tenants see of the service."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

import fixtures

from tests import base, keystone_service, serving
from tests.clients import preloaded
from tests.keystone_service import PASSWORD
from tests.third_party import installing

FOLDER = pathlib.Path(__file__).parents[2] / "plugins" / "python-capacityclient"
_REGION = "RegionOne"
_SLOTS = "resource_type=virtual:instance,vcpus=4,memory_mb=4096,disk_gb=10,amount={}"
#: A requirement has commas of its own.
_HOST = ("resource_type=physical:host,min=1,max=1,"
         'hypervisor_properties=["and", ["=", "$hypervisor_hostname", "host1"], [">=", "$vcpus", '
         '"{}"]]')


class _Cloud:
    """A Keystone with limits of nova, and two projects with a member of the same name each."""

    def __init__(self) -> None:
        # One of its own: other tests have services of the same types.
        self.keystone = keystone_service.shared("# for the capacity commands\n")
        self.admin = keystone_service.admin(self.keystone)
        compute = self.admin.make("services", type="compute", name="nova")
        for name, default in (("cores", 20), ("ram", 51200)):
            self.admin.make("registered_limits", service_id=compute["id"], region_id=_REGION,
                            resource_name=name, default_limit=default)
        capacity = self.admin.make("services", type="capacity", name="capacity")
        self.endpoint = self.admin.make(
            "endpoints", service_id=capacity["id"], interface="public", region_id=_REGION,
            url="http://127.0.0.1:1")
        self.projects = {name: self._make_project(name) for name in ("demo", "other")}

    def _make_project(self, name: str) -> str:
        project = self.admin.make("projects", name=name, domain_id="default")
        user = self.admin.make("users", name=name, domain_id="default", password=PASSWORD)
        roles = {role["name"]: role["id"] for role in self.admin.list("roles")}
        self.admin.send("PUT", f"/projects/{project['id']}/users/{user['id']}/roles/"
                        f"{roles['member']}")
        return project["id"]


_make_cloud = functools.cache(_Cloud)


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class CapacityCommandsTestCase(base.DatabaseTestCase):
    """A member of a project asks; everything else is in Keystone's catalog."""

    def make_configuration(self) -> str | None:
        """Return the text of the service's placement.conf; None: it has none."""
        return None

    def setUp(self) -> None:
        super().setUp()
        cloud = _make_cloud()
        self.keystone, self.admin, self.projects = cloud.keystone, cloud.admin, cloud.projects
        self.service = self.useFixture(serving.Service(
            self.database.settings.connection, options=self._options(),
            configuration=self.make_configuration()))
        self.admin.change(
            "endpoints", cloud.endpoint["id"], url=f"{self.service.url}/capacity/v1")
        self.site_packages = installing.install(FOLDER)
        self.program = preloaded.command(str(self.site_packages))
        self.cache = self.useFixture(fixtures.TempDir()).path

    def _options(self) -> dict[str, str]:
        login = {
            "AUTH_TYPE": "password", "AUTH_URL": self.keystone.url, "USERNAME": "admin",
            "PASSWORD": PASSWORD, "PROJECT_NAME": "admin", "USER_DOMAIN_ID": "default",
            "PROJECT_DOMAIN_ID": "default", "WWW_AUTHENTICATE_URI": self.keystone.url}
        return {
            "OS_API__AUTH_STRATEGY": "keystone",
            "OS_CATALOG__DRIVER": "keystone", "OS_LIMITS__DRIVER": "keystone",
            "OS_KEYSTONE_CLIENT__AUTH_SECTION": "keystone_authtoken",
            "OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true",
            **{f"OS_KEYSTONE_AUTHTOKEN__{name}": value for name, value in login.items()}}

    def start_openstack(
        self, *arguments: str, user: str = "demo", **more: str
    ) -> subprocess.Popen[str]:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "PYTHONPATH": str(self.site_packages), "XDG_CACHE_HOME": str(self.cache),
            "OS_AUTH_URL": self.keystone.url, "OS_USERNAME": user, "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": user, "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default", "OS_REGION_NAME": _REGION,
            "OS_IDENTITY_API_VERSION": "3", **more}
        process = subprocess.Popen(
            [*self.program, "capacity", *arguments], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # Whoever reads its output is not to wait longer.
        timer = threading.Timer(120, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        self.addCleanup(process.kill)
        return process

    def finish(
        self, process: subprocess.Popen[str], code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        stdout, stderr = process.communicate()
        self.assertEqual(code, process.returncode, stdout + stderr)
        # Blazar's plugin names a command that it does not have.
        return subprocess.CompletedProcess(
            process.args, process.returncode, stdout,
            re.sub("Could not load 'reservation_.*\n", "", stderr))

    def run_openstack(
        self, *arguments: str, code: int = 0, user: str = "demo", **more: str
    ) -> subprocess.CompletedProcess[str]:
        return self.finish(self.start_openstack(*arguments, user=user, **more), code)

    def read(self, *arguments: str, **options: object) -> object:
        return json.loads(self.run_openstack(*arguments, "-f", "json", **options).stdout)

    def add_host(self) -> None:
        """Register a host, and put it into the freepool, as the administrator does."""
        admin, headers = self.add_provider()
        self.assertEqual(
            201, admin.send("POST", "/v1/os-hosts", {"name": "host1"}, headers=headers)[0])

    def add_provider(
        self, name: str = "host1", *, vcpus: int = 16, memory_mb: int = 65536
    ) -> tuple[keystone_service.Admin, dict[str, str]]:
        """Register a host; return who did, and with which headers."""
        headers = {"X-Auth-Token": self.admin.token,
                   "OpenStack-API-Version": "placement 1.39"}
        admin = keystone_service.Admin.__new__(keystone_service.Admin)
        admin.url, admin.token = self.service.url, self.admin.token
        status, _, answer = admin.send(
            "POST", "/resource_providers", {"name": name}, headers=headers)
        self.assertEqual(200, status, answer)
        path = f"/resource_providers/{json.loads(answer)['uuid']}/inventories"
        self.assertEqual(200, admin.send("PUT", path, {
            "resource_provider_generation": 0, "inventories": {
                "VCPU": {"total": vcpus}, "MEMORY_MB": {"total": memory_mb},
                "DISK_GB": {"total": 500}}}, headers=headers)[0])
        return admin, headers


class TestCapacityCommands(CapacityCommandsTestCase):
    """Commands that ask once."""

    def test_quota(self) -> None:
        """What a project has; what fits, what does not, and why."""
        self.program = [str(pathlib.Path(sys.executable).with_name("openstack"))]
        self.assertEqual(
            {"resource": "cores", "limit": 20, "source": "default", "used": 0, "free": 20,
             "held_by": self.projects["demo"]},
            next(row for row in self.read("quota", "show") if row["resource"] == "cores"))
        self.assertEqual("It fits.\n", self.run_openstack("quota", "check", "cores=20").stdout)
        self.assertEqual([], self.read("quota", "check", "cores=20"))
        row, = self.read("quota", "check", "cores=21", code=1)
        self.assertEqual(("cores", 20, 0, 21, 1), tuple(
            row[name] for name in ("resource_name", "limit", "used", "asked", "over_by")))
        sentence = self.run_openstack("quota", "explain", "cores=21", code=1).stdout
        self.assertIn("cores", sentence)
        self.assertNotIn("|", sentence)
        row, = self.read("quota", "explain", "cores=21", code=1)
        self.assertEqual(sentence, row["sentence"] + "\n")

    def test_other_projects(self) -> None:
        """A member sees no other project; the one line says which role would."""
        done = self.run_openstack("quota", "show", "--project", self.projects["other"], code=1)
        self.assertEqual("", done.stdout)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)
        self.assertIn("HTTP 403", done.stderr)
        rows = self.read("quota", "show", "--project", self.projects["other"], user="admin")
        self.assertEqual({"cores", "ram"}, {row["resource"] for row in rows})

    def test_explain(self) -> None:
        """Administrators may ask; the sentence stands beside the rows."""
        done = self.run_openstack("explain", "resources=VCPU:64", user="admin")
        self.assertEqual("there are no resource providers\n", done.stderr)
        self.run_openstack("explain", "resources=VCPU:64", code=1)
        self.run_openstack("explain", "resource=VCPU:64", user="admin", code=1)

    def test_how_many_more_fit(self) -> None:
        """Administrators ask how much more fits; what stops it stands beside the rows."""
        self.add_provider()
        done = self.run_openstack("fits", "resources=VCPU:4", user="admin")
        self.assertIn("#" * 20, done.stdout)
        self.assertEqual("4 more fit, on 1 hosts; then: 1 host has no room for VCPU:4\n",
                         done.stderr)
        row, = self.read("fits", "resources=VCPU:4", user="admin")
        self.assertEqual(("host1", 4), (row["name"], row["fits"]))
        done = self.run_openstack("fits", "resources=VCPU:17", user="admin", code=1)
        self.assertEqual("It fits nowhere.\n", done.stdout)
        self.assertIn("HTTP 403", self.run_openstack("fits", "resources=VCPU:4", code=1).stderr)
        done = self.run_openstack("stranded", user="admin", code=1)
        self.assertIn("[least_stranded] shape", done.stderr)

    def test_leases(self) -> None:
        """Whether and when one fits, while the freepool has one host."""
        self.assertEqual("No host can be leased: the freepool is empty.\n",
                         self.run_openstack("lease", "timeline").stdout)
        self.add_host()
        step, = self.read("lease", "timeline", "--end", "+2d")
        self.assertEqual((1, 16), (step["hosts"], step["vcpus"]))
        self.assertIn("#" * 20, self.run_openstack("lease", "timeline").stdout)
        few, many = ("--reservation", _SLOTS.format(4)), ("--reservation", _SLOTS.format(5))
        self.assertEqual([True], [
            row["fits"] for row in self.read("lease", "whatif", "--end", "+2d", *few)])
        row, = self.read("lease", "whatif", "--end", "+2d", *many, code=1)
        self.assertEqual((False, {"slots": 1, "VCPU": 4}, None),
                         (row["fits"], row["missing"], row["fits_at"]))
        for vcpus, code in (("16", 0), ("17", 1)):
            row, = self.read("lease", "whatif", "--end", "+2d", "--reservation",
                             _HOST.replace("{}", vcpus), code=code)
            self.assertEqual(not code, row["fits"], row)
        self.assertEqual(1, len(self.read("lease", "next-fit", "--minutes", "60", *few)))
        done = self.run_openstack("lease", "next-fit", "--minutes", "60", *many, code=1)
        self.assertEqual("It fits at no time.\n", done.stdout)
        self.run_openstack("lease", "whatif", "--end", "soon", *few, code=2)
        self.run_openstack("lease", "whatif", "--end", "+2d", "--reservation", "vcpus", code=2)

    def test_room(self) -> None:
        """Administrators may ask; all pages of groups are read."""
        self.assertEqual("There is no such inventory.\n",
                         self.run_openstack("room", user="admin").stdout)
        self.add_host()
        row, = self.read("room", "--resource-class", "VCPU", user="admin")
        self.assertEqual(
            {"resource_class": "VCPU", "total": 16, "reserved": 0, "capacity": 16, "used": 0,
             "held": 0, "promised": 0, "free": 16, "largest": 16}, row)
        self.assertIn("." * 20, self.run_openstack("room", user="admin").stdout)
        rows = self.read("room", "--group-by", "root", user="admin")
        self.assertEqual([("host1", name) for name in ("VCPU", "MEMORY_MB", "DISK_GB")],
                         [(row["name"], row["resource_class"]) for row in rows])
        self.assertEqual([], self.read("room", "--group-by", "trait", user="admin"))
        done = self.run_openstack("room", code=1)
        self.assertIn("HTTP 403", done.stderr)
        self.run_openstack("room", "--required", "CUSTOM_NO", user="admin", code=1)

    def test_another_endpoint(self) -> None:
        """The override is the field's; what is no capacity API is told in one line."""
        self.assertTrue(self.read(
            "quota", "show", OS_CAPACITY_ENDPOINT_OVERRIDE=f"{self.service.url}/capacity/v1"))
        done = self.run_openstack(
            "quota", "show", code=1, OS_CAPACITY_ENDPOINT_OVERRIDE=f"{self.service.url}/nowhere")
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)


class TestStranded(CapacityCommandsTestCase):
    """A site with usual requests; members may ask what is stranded, but see no hosts."""

    _ROWS = (
        {"resource_class": "DISK_GB", "cause": "DISK_GB", "stranded": 200, "free": 1000},
        {"resource_class": "MEMORY_MB", "cause": "VCPU", "stranded": 32768, "free": 73728},
        {"resource_class": "VCPU", "cause": "MEMORY_MB", "stranded": 6, "free": 26})

    def make_configuration(self) -> str:
        policy = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "policy.yaml")
        policy.write_text(
            '"capacity:room:stranded": "rule:admin_or_service_api or role:member"\n')
        return ("[least_stranded]\nshape = VCPU:4,MEMORY_MB:8192\nshape = DISK_GB:200\n"
                f"[oslo_policy]\npolicy_file = {policy}\n")

    def setUp(self) -> None:
        super().setUp()
        self.add_provider()
        self.add_provider("host2", vcpus=10, memory_mb=8192)

    def test_what_an_administrator_sees(self) -> None:
        done = self.run_openstack("stranded", user="admin")
        self.assertEqual([
            "5 more of VCPU:4,MEMORY_MB:8192", "4 more of DISK_GB:200",
            "hosts with room that no usual request can use: 2; those that lose most:",
            "host1: 100 DISK_GB (DISK_GB), 32768 MEMORY_MB (VCPU)",
            "host2: 100 DISK_GB (DISK_GB), 6 VCPU (MEMORY_MB)"], done.stderr.splitlines())
        bars = [line.split("|")[-2].strip() for line in done.stdout.splitlines() if "." in line]
        self.assertEqual(["#" * filled + "." * (20 - filled) for filled in (4, 9, 5)], bars)
        self.assertEqual([*self._ROWS], self.read("stranded", user="admin"))
        rows = self.read("stranded", "--hosts", "--limit", "1", user="admin")
        self.assertEqual(
            [("host1", "DISK_GB", "DISK_GB", 100), ("host1", "MEMORY_MB", "VCPU", 32768)],
            [tuple(row[name] for name in ("name", "resource_class", "cause", "stranded"))
             for row in rows])
        self.run_openstack("stranded", "--limit", "0", user="admin", code=1)

    def test_what_a_member_sees(self) -> None:
        """All but the hosts, and why not these."""
        done = self.run_openstack("stranded", "-f", "json")
        self.assertEqual([*self._ROWS], json.loads(done.stdout))
        self.assertEqual([
            "5 more of VCPU:4,MEMORY_MB:8192", "4 more of DISK_GB:200",
            "hosts with room that no usual request can use: 2; they are not listed: the policy "
            "rule capacity:room:hosts does not let you see them"], done.stderr.splitlines())
        done = self.run_openstack("stranded", "--hosts", code=1)
        self.assertEqual("", done.stdout)
        self.assertIn("capacity:room:hosts", done.stderr)


class TestPackage(base.TestCase):
    """It is installed where users are."""

    def test_nothing_of_the_service(self) -> None:
        """It speaks HTTP alone."""
        for path in (FOLDER / "capacityclient").rglob("*.py"):
            self.assertNotRegex(path.read_text(), r"(?m)^\s*(from|import) placement")
