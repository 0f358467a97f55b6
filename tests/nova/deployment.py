"""A small cloud that runs: nova, Keystone, RabbitMQ, and our placement.

::

    with running_nova() as cloud:
        host = cloud.enter_freepool("c1")
        lease = cloud.member.lease("a", clients.instance_reservation(1, None))
        server = cloud.member.boot("vm", lease["reservations"][0]["flavor_id"])

nova runs from its package: nova-api, one scheduler, one conductor, and computes with its
fake driver (10 processors, 8 GiB, 1 TiB each), in one cell on MariaDB. Placement, unified
limits and reservations are ours, the API and a manager. Everything is made for
this run and removed at its end; of one that failed the logs stay.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core.reservations import tables
from tests import databases, keystone_service, nova_databases
from tests.nova import broker, clients, neighbours, processes

_ROOT = pathlib.Path(__file__).parent.parent.parent
_REGION = "RegionOne"
_CELL0 = "00000000-0000-0000-0000-000000000000"
#: The processes of our own service.
_OURS = ("placement", "manager")
_FREEPOOL = "freepool"
#: The flavor of ordinary servers, and one of which a host has room for one.
FLAVOR, LARGE_FLAVOR = "small", "large"
_FLAVORS = {FLAVOR: 512, LARGE_FLAVOR: 6144}

_NOVA = """
[DEFAULT]
transport_url = {transport_url}
state_path = {folder}
compute_driver = fake.MediumFakeDriver
my_ip = 127.0.0.1
host = controller
periodic_fuzzy_delay = 0
heal_instance_info_cache_interval = -1
sync_power_state_interval = -1
volume_usage_poll_interval = 0
running_deleted_instance_poll_interval = 0
rpc_response_timeout = 60
[api]
list_records_by_skipping_down_cells = false
[api_database]
connection = {api}
[database]
connection = {cell1}
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
limit_tenants_to_placement_aggregate = {limit_tenants}
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = nova_reservation_filter.filters.ReservationFilter
enabled_filters = {filters}
[quota]
instances = -1
cores = -1
ram = -1
[oslo_concurrency]
lock_path = {folder}/locks
[image_cache]
manager_interval = -1
[vnc]
enabled = false
[glance]
endpoint_override = {neighbours}
[neutron]
endpoint_override = {neighbours}
{login}
[placement]
{login}
[keystone]
{login}
[service_user]
send_service_user_token = false
[keystone_authtoken]
www_authenticate_uri = {keystone}
{login}
"""
_OUTBOX = sa.select(tables.outbox.c["subject", "call", "attempt", "problem"])
_KEYSTONE = """
[identity]
password_hash_rounds = 4
"""
_FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAffinityFilter,"
    "ServerGroupAntiAffinityFilter,AggregateInstanceExtraSpecsFilter,"
    "AggregateMultiTenancyIsolation,ReservationFilter")
_LOGIN = """
auth_type = password
auth_url = {keystone}
username = service
password = {password}
user_domain_id = default
project_name = service
project_domain_id = default
region_name = {region}
"""
_PLACEMENT = """
[api]
auth_strategy = keystone
[placement_database]
connection = {connection}
[keystone_authtoken]
www_authenticate_uri = {keystone}
{login}
[reservations]
compute_driver = nova
instance_design = {design}
poll_seconds = 0.2
{reservations}
[nova]
auth_section = keystone_authtoken
region_name = {region}
"""


def missing() -> str | None:
    """Say what is not there that a real nova needs; None: nothing."""
    if "mysql" not in databases.KINDS:
        return f"MariaDB (set {databases.VARIABLES['mysql']})"
    return broker.missing()


class Cloud(fixtures.Fixture):
    """A nova, with all that it needs.

    :ivar admin, service: administrators, of the projects ``admin`` and ``service``.
    :ivar member, other: ordinary members of two projects.
    :ivar computes: the names of the hosts.
    :ivar design: ``[reservations] instance_design`` at the moment.
    """

    admin: clients.Client
    service: clients.Client
    member: clients.Client
    other: clients.Client

    def __init__(
        self, *, kind: str = "mysql", design: str = "placement", computes: int = 4,
        limit_tenants: bool = True, filters: str = _FILTERS, reservations: str = "",
    ) -> None:
        """Prepare it.

        :param kind: of the database of our service; nova's own are on MariaDB always.
        :param design: ``[reservations] instance_design``.
        :param computes: how many hosts there are; they are called c1, c2 and so on.
        :param limit_tenants: nova's ``limit_tenants_to_placement_aggregate``.
        :param filters: of nova's scheduler.
        :param reservations: more lines of ``[reservations]``.
        """
        super().__init__()
        self._kind = kind
        self.design = design
        self.computes = [f"c{number}" for number in range(1, computes + 1)]
        self._limit_tenants = limit_tenants
        self._filters = filters
        self._reservations = reservations
        self._processes: dict[str, processes.Process] = {}

    def _setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-cloud-"))
        self.addCleanup(self._remove_folder)
        self._failed = False
        self._ports = {name: processes.free_port() for name in ("nova", "placement")}
        self._keystone = keystone_service.Keystone(_KEYSTONE)
        self._neighbours = self.useFixture(neighbours.Neighbours())
        transport_url = self.useFixture(broker.VirtualHost()).transport_url
        try:
            with futures.ThreadPoolExecutor() as pool:
                keystone = pool.submit(self.useFixture, self._keystone)
                urls = self._make_databases(transport_url)
                self.keystone_url = keystone.result().url
            self.addCleanup(self._keep_log)
            self._prepare_keystone()
            self._write_configuration(transport_url, urls)
            self._prepare_processes()
            self.addCleanup(self._stop_all)
            self._start_all()
        except BaseException:
            self.keep_logs()
            raise

    # What can be done to it --------------------------------------------------------

    def process(self, name: str) -> processes.Process:
        """Return a service.

        :param name: ``nova-api``, ``scheduler``, ``conductor``, a compute; of our own service
            ``placement`` is the API, ``manager`` the other half.
        """
        return self._processes[name]

    def stop_nova_api(self) -> None:
        """Let nova-api be away."""
        self._processes["nova-api"].stop(signal.SIGKILL)

    def start_nova_api(self) -> None:
        """Have it back."""
        self._processes["nova-api"].start()
        self._processes["nova-api"].wait()

    def change_design(self, design: str) -> None:
        """Restart our service with another ``instance_design``."""
        self.design = design
        for name in _OURS:
            self._processes[name].stop()
        self._write_placement()
        for name in _OURS:
            self._processes[name].start()
        self._processes["placement"].wait()

    def enter_freepool(self, host: str) -> str:
        """Let hosts of a name be reserved; return the id of the host."""
        made = self.admin.call("reservation", "POST", "/os-hosts", {"name": host})
        return str(made["host"]["id"])

    def have_in_freepool(self, host: str) -> None:
        """Let hosts of a name be reserved, if they cannot be yet."""
        hosts = self.admin.call("reservation", "GET", "/os-hosts")["hosts"]
        if all(each["hypervisor_hostname"] != host for each in hosts):
            self.enter_freepool(host)

    def leave_freepool(self, host_id: str) -> None:
        """Take a host out of the freepool."""
        self.admin.call("reservation", "DELETE", f"/os-hosts/{host_id}")

    def host_of(self, server_id: str) -> str | None:
        """Return where a server is."""
        server = self.admin.call("compute", "GET", f"/servers/{server_id}")["server"]
        host = server["OS-EXT-SRV-ATTR:host"]
        return None if host is None else str(host)

    def aggregates(self) -> dict[str, Any]:
        """Return nova's aggregates by name."""
        return {each["name"]: each for each in self.admin.call(
            "compute", "GET", "/os-aggregates")["aggregates"]}

    def freepool(self) -> list[str]:
        """Return the hosts in nova's freepool aggregate."""
        return sorted(self.aggregates().get(_FREEPOOL, {"hosts": []})["hosts"])

    def forget_freepool(self) -> None:
        """Have no freepool aggregate, as in a cloud that never had one."""
        aggregate = self.aggregates().get(_FREEPOOL)
        if aggregate is not None:
            path = f"/os-aggregates/{aggregate['id']}"
            for host in aggregate["hosts"]:
                self.admin.call("compute", "POST", f"{path}/action", {
                    "remove_host": {"host": host}})
            self.admin.call("compute", "DELETE", path)

    def made_in_nova(self) -> set[str]:
        """Return what there is in nova of reservations: "flavor ID", "aggregate NAME", …"""
        flavors = self.admin.call("compute", "GET", "/flavors?is_public=None")["flavors"]
        groups = self.admin.call(
            "compute", "GET", "/os-server-groups?all_projects=true")["server_groups"]
        return {
            *(f"flavor {each['id']}" for each in flavors if each["id"] not in _FLAVORS),
            *(f"group {each['name']}" for each in groups),
            *(f"aggregate {name}" for name in self.aggregates() if name != _FREEPOOL)}

    def clear(self) -> None:
        """End all leases and delete all servers; wait until nova has done with them."""
        for client in (self.member, self.other):
            for lease in client.call("reservation", "GET", "/leases")["leases"]:
                client.end_lease(lease["id"])
            for server in client.servers():
                with contextlib.suppress(clients.Refused):
                    client.call("compute", "DELETE", f"/servers/{server['id']}")
        for client in (self.member, self.other):
            clients.wait_for("the end of all servers", lambda: not client.servers())
        self.wait_for_outbox()

    def outbox(self) -> list[Any]:
        """Return the calls that our service has yet to make to nova."""
        with self._placement.connect() as connection:
            return list(connection.execute(_OUTBOX).mappings())

    def wait_for_outbox(self, seconds: float = 240) -> None:
        """Wait until our service has told nova everything."""
        try:
            clients.wait_for("an empty outbox", lambda: not self.outbox(), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.outbox()}") from None

    def keep_logs(self) -> None:
        """Let the logs stay when this ends."""
        self._failed = True

    def command(self, *arguments: str) -> str:
        """Run ``placement-core`` as an operator; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "placement_core", *arguments], env=self._environment(),
            cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise AssertionError(f"placement-core {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def log(self, name: str, containing: str = "") -> str:
        """Return the lines of a process's log with some text."""
        lines = self._processes[name].log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if containing in line)

    # How it is made -----------------------------------------------------------------

    def _make_databases(self, transport_url: str) -> dict[str, str]:
        with futures.ThreadPoolExecutor() as pool:
            made = {
                "api": pool.submit(nova_databases.api, "mysql"),
                "cell0": pool.submit(nova_databases.cell, "mysql", "cell0"),
                "cell1": pool.submit(nova_databases.cell, "mysql", "cell1"),
                "placement": pool.submit(databases.settings, self._kind)}
            urls = {name: future.result() for name, future in made.items()}
        urls["placement"] = urls["placement"].connection
        self._connection = urls["placement"]
        self._placement = sa.create_engine(self._connection, poolclass=sa.NullPool)
        engine, nova = nova_databases.reflected(urls["api"], "cell_mappings")
        with engine.begin() as connection:
            connection.execute(sa.insert(nova["cell_mappings"]), [
                {"uuid": _CELL0, "name": "cell0", "transport_url": "none:///",
                 "database_connection": urls["cell0"], "disabled": False},
                {"uuid": str(uuid.uuid4()), "name": "cell1", "transport_url": transport_url,
                 "database_connection": urls["cell1"], "disabled": False}])
        return urls

    def _prepare_keystone(self) -> None:
        admin = keystone_service.Admin(self.keystone_url)
        roles = {role["name"]: role["id"] for role in admin.list("roles")}
        for user, project, role in (("service", "service", "admin"), ("mona", "mine", "member"),
                                    ("otto", "theirs", "member")):
            made = {
                "projects": admin.make("projects", name=project, domain_id="default"),
                "users": admin.make("users", name=user, domain_id="default",
                                    password=keystone_service.PASSWORD)}
            status, _, answer = admin.send("PUT", (
                f"/projects/{made['projects']['id']}/users/{made['users']['id']}"
                f"/roles/{roles[role]}"))
            assert status == 204, answer
        placement = f"http://127.0.0.1:{self._ports['placement']}"
        for type_, url in (
            ("compute", f"http://127.0.0.1:{self._ports['nova']}/v2.1"),
            ("placement", placement), ("reservation", f"{placement}/v1"),
            ("image", self._neighbours.url), ("network", self._neighbours.url),
        ):
            service = admin.make("services", type=type_, name=type_)
            for interface in ("public", "internal"):
                admin.make("endpoints", service_id=service["id"], interface=interface,
                           url=url, region_id=_REGION)
        # Keystone notes the day of a user's first login: on SQLite, several at once fail.
        self.admin, self.service, self.member, self.other = (
            clients.Client(self.keystone_url, *names) for names in (
                ("admin", "admin"), ("service", "service"), ("mona", "mine"), ("otto", "theirs")))

    def _write_configuration(self, transport_url: str, urls: Mapping[str, str]) -> None:
        self._login = _LOGIN.format(
            keystone=self.keystone_url, password=keystone_service.PASSWORD, region=_REGION)
        (self.folder / "nova.conf").write_text(_NOVA.format(
            **{name: url for name, url in urls.items() if name != "placement"},
            transport_url=transport_url, folder=self.folder, keystone=self.keystone_url,
            login=self._login, neighbours=self._neighbours.url, filters=self._filters,
            limit_tenants=str(self._limit_tenants).lower()))
        for host in self.computes:
            (self.folder / host).mkdir()
            # The identity of a compute node is a file there.
            (self.folder / f"{host}.conf").write_text(
                f"[DEFAULT]\nhost = {host}\nstate_path = {self.folder}/{host}\n")
        (self.folder / "scheduler.conf").write_text("[DEFAULT]\ndebug = true\n")
        self._write_placement()

    def _write_placement(self) -> None:
        (self.folder / "placement.conf").write_text(_PLACEMENT.format(
            connection=self._connection, keystone=self.keystone_url, login=self._login,
            design=self.design, region=_REGION, reservations=self._reservations))

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        paths = (_ROOT, _ROOT / "plugins", _ROOT / "plugins" / "nova-reservation-filter")
        return {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths)),
                # With the folder in its path, each process would read all entry points anew.
                "PYTHONSAFEPATH": "1",
                "OS_PLACEMENT_CONFIG_DIR": str(self.folder),
                "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"}

    def _prepare_processes(self) -> None:
        nova = functools.partial(self._prepare, "-W", "ignore", "-m", "tests.nova.services")
        common = str(self.folder / "nova.conf")
        nova(name="conductor", arguments=("conductor", common))
        nova(name="scheduler", arguments=(
            "scheduler", common, str(self.folder / "scheduler.conf")))
        for host in self.computes:
            nova(name=host, arguments=("compute", common, str(self.folder / f"{host}.conf")))
        nova(name="nova-api", arguments=(f"api:{self._ports['nova']}", common),
             port=self._ports["nova"])
        self._prepare(
            "-m", "placement_core", name="placement", port=self._ports["placement"],
            arguments=(
                "serve", "--no-manager", "--bind", f"127.0.0.1:{self._ports['placement']}"))
        self._prepare("-m", "placement_core", name="manager", arguments=("manager",))

    def _prepare(
        self, *command: str, name: str, arguments: Sequence[str], port: int | None = None
    ) -> None:
        self._processes[name] = processes.Process(
            name, [sys.executable, *command, *arguments], self.folder, self._environment(),
            port=port)

    def _start_all(self) -> None:
        # Nova's services do not start without Placement.
        self._processes["placement"].start()
        self._processes["placement"].wait()
        for process in self._processes.values():
            if process is not self._processes["placement"]:
                process.start()
        for process in self._processes.values():
            process.wait()
        for name, memory_mb in _FLAVORS.items():
            self.admin.call("compute", "POST", "/flavors", {"flavor": {
                "id": name, "name": name, "vcpus": 1, "ram": memory_mb, "disk": 1}})
        clients.wait_for("compute nodes", self._has_computes, 180)

    def _has_computes(self) -> bool:
        for process in self._processes.values():
            process.require_running()
        found = self.admin.call("compute", "GET", "/os-hypervisors")["hypervisors"]
        providers = self.admin.call("placement", "GET", "/resource_providers")
        return (len(found) == len(self.computes)
                and len(providers["resource_providers"]) >= len(self.computes))

    def _stop_all(self) -> None:
        for process in self._processes.values():
            process.stop(signal.SIGKILL)  # Nothing here is worth an orderly end.

    def _keep_log(self) -> None:
        if self._failed:
            shutil.copy(self._keystone.log, self.folder / "keystone.log")

    def _remove_folder(self) -> None:
        if self._failed:
            print(f"The logs are in {self.folder}.", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def running_nova(**options: Any) -> Iterator[Cloud]:
    """Yield a cloud that ends with the block; ``options`` are those of ``Cloud``."""
    with Cloud(**options) as cloud:
        try:
            yield cloud
        except BaseException:
            cloud.keep_logs()
            raise


_shared: list[Cloud] = []


def share(cloud: Cloud) -> None:
    """Have tests use a cloud, instead of the one before."""
    _shared[:] = [cloud]


def shared() -> Cloud:
    """Return the cloud that tests use; without one it is made, and ends with the process."""
    if not _shared:
        # The first server there is: nova's own databases need one anyway.
        cloud = Cloud(kind=databases.KINDS[1])
        cloud.setUp()
        atexit.register(cloud.cleanUp)
        share(cloud)
    return _shared[0]
