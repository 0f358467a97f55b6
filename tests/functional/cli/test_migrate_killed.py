"""``placement-core migrate copy`` is killed, at any moment, and goes on."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pathlib
import random
import signal
import time
from collections.abc import Callable, Mapping

import fixtures
import sqlalchemy as sa
import testtools

from placement_core.takeover import comparisons
from placement_core.takeover.keystone import ROOT_ID
from tests import (
    blazar_databases,
    blazar_rows,
    databases,
    keystone_database,
    nova_databases,
    placement_database,
)
from tests.functional.cli import commands, test_commands

#: How often copies of a source are killed at least, and how often one of them at most.
_KILLS = int(os.environ.get("PLACEMENT_TEST_KILLS", "1"))
_KILLS_OF_ONE = 7
_COPY, _DIFF = ("migrate", "copy", "--execute"), ("migrate", "diff")

_PROJECTS, _LIMITS = 100, 300
_OF_KEYSTONE = 2 + _PROJECTS + 3 + _LIMITS
_PROVIDERS, _CONSUMERS, _NAMES = 60, 200, 3
_OF_PLACEMENT = 2 * _NAMES + _PROVIDERS + _CONSUMERS
_HOSTS, _LEASES = 10, 100
_CELLS, _OWNERS, _INSTANCES, _GROUPS = 3, 20, 100, 20
#: Of each resource that nova has.
_DEFAULTS = 12


def _make_keystone_rows() -> dict[str, list[dict]]:
    domain = {"id": "d", "name": "d", "domain_id": ROOT_ID, "parent_id": None,
              "is_domain": True, "description": "", "enabled": True}
    projects = [
        {"id": f"p{number}", "name": f"p{number}", "domain_id": "d",
         "parent_id": f"p{number // 10}" if number else "d", "is_domain": False,
         "description": "", "enabled": True}
        for number in range(_PROJECTS)]
    resources = _LIMITS // _PROJECTS
    registered = [
        {"internal_id": number, "id": f"r{number}", "service_id": "s", "region_id": None,
         "resource_name": f"n{number}", "default_limit": 1, "description": None}
        for number in range(resources)]
    limits = [
        {"internal_id": number, "id": f"l{number}", "project_id": f"p{number // resources}",
         "domain_id": None, "resource_limit": 5, "description": None,
         "registered_limit_id": f"r{number % resources}"}
        for number in range(_LIMITS)]
    return {
        "service": [{"id": "s", "type": "compute", "enabled": True, "extra": "{}"}],
        "project": [domain, *projects], "registered_limit": registered, "limit": limits}


class KilledTestCase(test_commands.CommandTestCase):
    """Copies some sources into an empty database of ours.

    :cvar rows: how many rows our tables have when all is copied: {table: number}.
    :cvar code: with what a copy exits; 1 if it says of something that it stays there.
    """

    kind = "sqlite"
    code = 0
    rows: Mapping[str, int]

    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(19)
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sources = [word for source in self.make_sources() for word in ("--from", source)]
        for name in ("targets.Writer", "placement_targets._Providers",
                     "placement_targets._Consumers"):
            self.useFixture(fixtures.MonkeyPatch(f"placement_core.takeover.{name}.batch", 10))
        self.make_ours()

    def make_sources(self) -> list[str]:
        """Return what is copied: SERVICE=URL."""
        raise NotImplementedError

    def make_ours(self) -> None:
        self.connection = databases.settings(self.kind).connection

    def start(self, *arguments: str) -> int:
        """Start a command in a process of its own, with all modules; return its id."""
        child = os.fork()
        if child == 0:
            code = 127
            with contextlib.suppress(BaseException):
                code = commands.run(
                    *arguments, *self.sources, connection=self.connection).returncode
            os._exit(code)
        return child

    def run_whole(self, *arguments: str) -> float:
        """Run a command to its end; return the seconds that it took."""
        began = time.monotonic()
        _, status = os.waitpid(self.start(*arguments), 0)
        self.assertEqual(self.code, os.waitstatus_to_exitcode(status))
        return time.monotonic() - began

    def kill(self, seconds: float, *arguments: str) -> bool:
        """Start a command, kill it so much later; return whether it had not ended yet."""
        child = self.start(*arguments)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.assertIn(code, (self.code, -signal.SIGKILL))
        return code != self.code

    def count(self, statement: str) -> int:
        engine = sa.create_engine(self.connection, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return connection.execute(sa.text(statement)).scalar_one()

    def kill_copies(self) -> None:
        """Kill copies at random moments, go on with them, and check what they end with."""
        whole = self.run_whole(*_COPY)
        self.check_all()
        killed = 0
        parts = set()
        # Some are to be half-way.
        while killed < _KILLS or not parts - {0, self.rows["copied_records"]}:
            self.make_ours()
            for number in range(_KILLS_OF_ONE):
                moment = self.random.uniform(0, whole)
                if not self.kill(moment, *_COPY):
                    # What was measured was slower.
                    whole = whole if number else moment
                    break
                killed += 1
                parts.add(self.count("SELECT count(*) FROM copied_records"))
            self.run_whole(*_COPY)
            self.check_all()

    def check_all(self) -> None:
        """Check that all is here, and once only."""
        self.assertEqual([], json.loads(self.run_command(*_DIFF, *self.sources, "-f", "json")))
        self.assertEqual([], json.loads(self.run_command("db", "audit", "-f", "json")))
        self.assertEqual(self.rows, {
            table: self.count(f"SELECT count(*) FROM {table}") for table in self.rows})


@databases.on_each_database
class TestKeystone(KilledTestCase):
    rows = {
        "catalog_projects": _PROJECTS, "limits": _LIMITS, "copied_records": _OF_KEYSTONE,
        # What was made is told once.
        "limit_history": 3 + _LIMITS}

    def make_sources(self) -> list[str]:
        url = keystone_database.make(self.folder / "keystone.sqlite", _make_keystone_rows())
        return [f"keystone={url}"]

    def test_copies_killed_at_random_moments(self) -> None:
        self.kill_copies()

    def test_a_comparison_goes_on_where_it_was_killed(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f"{comparisons.__name__}.CHUNK", 10))
        self.run_whole(*_COPY)
        compared = 0
        for _ in range(6):
            chunks = self.random.randint(1, 6)
            deadly = _make_deadly(comparisons._advance, chunks)
            with fixtures.MonkeyPatch(f"{comparisons.__name__}._advance", deadly):
                _, status = os.waitpid(self.start(*_DIFF, "--resume"), 0)
            self.assertEqual(-signal.SIGKILL, os.waitstatus_to_exitcode(status))
            before, compared = compared, self.count("SELECT compared FROM comparisons")
            # Some chunks are the ends of kinds.
            self.assertTrue(before <= compared <= before + 10 * (chunks - 1))
        self.assertTrue(compared > 0)
        self.run_whole(*_DIFF, "--resume")
        self.assertEqual(1, self.count("SELECT count(*) FROM comparisons"))
        self.assertEqual(_OF_KEYSTONE, self.count(
            "SELECT compared FROM comparisons WHERE finished_at IS NOT NULL"))


def _make_placement_rows() -> dict[str, list[tuple]]:
    """Return providers, each tenth with children, and consumers that hold two classes each."""
    make_uuid = placement_database.make_uuid
    return {
        "resource_classes": [(number, f"CUSTOM_CLASS_{number}") for number in range(_NAMES)],
        "traits": [(number, f"CUSTOM_TRAIT_{number}") for number in range(_NAMES)],
        "resource_providers": [
            (number, make_uuid("provider", number), f"provider-{number}", 5, root,
             None if number == root else root)
            for number in range(1, _PROVIDERS + 1) for root in [(number - 1) // 10 * 10 + 1]],
        "inventories": [
            (number, class_id, 1000, 0, 1, 1000, 1, 1.0)
            for number in range(1, _PROVIDERS + 1) for class_id in range(_NAMES)],
        "resource_provider_traits": [
            (number, number % _NAMES) for number in range(1, _PROVIDERS + 1)],
        "projects": [(1, "project")], "users": [(1, "user")], "consumer_types": [(1, "INSTANCE")],
        "consumers": [(number, make_uuid("consumer", number), 1, 1, 2, 1)
                      for number in range(_CONSUMERS)],
        "allocations": [
            (make_uuid("consumer", number), number % _PROVIDERS + 1, class_id, 2)
            for number in range(_CONSUMERS) for class_id in range(2)]}


@databases.on_each_database
class TestPlacement(KilledTestCase):
    rows = {
        "resource_providers": _PROVIDERS, "inventories": _NAMES * _PROVIDERS,
        "resource_provider_traits": _PROVIDERS, "consumers": _CONSUMERS,
        "allocations": 2 * _CONSUMERS, "copied_records": _OF_PLACEMENT}

    def make_sources(self) -> list[str]:
        url = placement_database.make(
            self.folder / "placement.sqlite", _make_placement_rows())
        return [f"placement={url}"]

    def test_copies_killed_at_random_moments(self) -> None:
        self.kill_copies()


#: With nova's own code. Its public methods would look for quotas of old releases first, in a
#: cell's database.
_FILL_NOVA = f"""
CELLS, OWNERS, INSTANCES, GROUPS = {_CELLS}, {_OWNERS}, {_INSTANCES}, {_GROUPS}
""" + """
import sys, uuid
from nova import config, context, objects, rpc
config.parse_args(["", "--config-file", sys.argv[1]])
objects.register_all()
rpc.init(config.CONF)
ctx = context.get_admin_context()

cells = [objects.CellMapping(
    ctx, uuid=str(uuid.uuid4()), name=f"cell{number}", transport_url="rabbit://bus/",
    database_connection=f"sqlite:////srv/cell{number}.sqlite") for number in range(CELLS)]
for cell in cells:
    cell.create()
instances = [str(uuid.uuid4()) for _ in range(INSTANCES)]
for number, instance in enumerate(instances):
    objects.InstanceMapping(
        ctx, instance_uuid=instance, project_id=f"p{number % OWNERS}", user_id="ann",
        cell_mapping=cells[number % CELLS], queued_for_delete=number % 10 == 0).create()
for number in range(GROUPS):
    objects.InstanceGroup(
        ctx, uuid=str(uuid.uuid4()), name="apart", project_id=f"p{number % OWNERS}",
        user_id="ann", policy="anti-affinity", members=instances[number:number + 2]).create()
quotas = objects.Quotas
quotas._create_class_in_db(ctx, "default", "ram", 4096)
for number in range(OWNERS):
    quotas._create_limit_in_db(ctx, f"p{number}", "instances", 3)
    quotas._create_limit_in_db(ctx, f"p{number}", "ram", -1)
    quotas._create_limit_in_db(ctx, f"p{number}", "key_pairs", 2, user_id="ann")
"""


@functools.cache
def _make_nova() -> str:
    """Return the URL of an API database that nova has filled; it is only read."""
    url = nova_databases.api("sqlite")
    nova_databases.run_code(url, _FILL_NOVA)
    return url


@databases.on_each_database
class TestNova(KilledTestCase):
    """Quotas, cells, instance mappings and server groups, beside the projects in our catalog."""

    code = 1
    rows = {
        "registered_limits": _DEFAULTS, "limits": 2 * _OWNERS, "user_limits": _OWNERS,
        "cell_mappings": _CELLS, "instance_mappings": _INSTANCES, "instance_groups": _GROUPS,
        "instance_group_member": 2 * _GROUPS,
        "copied_records": _DEFAULTS + 3 * _OWNERS + _CELLS + _INSTANCES + _GROUPS,
        "limit_history": _DEFAULTS + 3 * _OWNERS}

    def make_sources(self) -> list[str]:
        projects = "".join(
            f"  - {{name: p{number}, domain: default, id: p{number}}}\n"
            for number in range(_OWNERS))
        self.catalog = self.folder / "catalog.yaml"
        self.catalog.write_text(
            "services: [{type: compute, name: nova}]\n"
            f"domains: [{{name: Default, id: default}}]\nprojects:\n{projects}")
        return [f"nova-api={_make_nova()}"]

    def make_ours(self) -> None:
        super().make_ours()
        self.run_command("catalog", "load", str(self.catalog))

    def test_copies_killed_at_random_moments(self) -> None:
        self.kill_copies()


@testtools.skipUnless(blazar_databases.INSTALLED, "Blazar is not installed")
@databases.on_each_database
class TestBlazar(KilledTestCase):
    """With the Placement that has its hosts, and the children for the slots on them."""

    rows = {
        "computehosts": _HOSTS, "leases": _LEASES, "lease_reservations": _LEASES,
        "lease_events": 3 * _LEASES, "resource_providers": 2 * _HOSTS,
        "copied_records": 3 * _HOSTS + _LEASES}

    def make_sources(self) -> list[str]:
        make_uuid = placement_database.make_uuid
        placement = placement_database.make(self.folder / "placement.sqlite", {
            "resource_classes": list(enumerate(("VCPU", "MEMORY_MB", "DISK_GB"))),
            "resource_providers": [
                *((number, make_uuid("host", number), f"host-{number}", 1, number, None)
                  for number in range(1, _HOSTS + 1)),
                *((_HOSTS + number, make_uuid("child", number), f"blazar_host-{number}", 0,
                   number, number) for number in range(1, _HOSTS + 1))],
            "inventories": [(number, class_id, 100_000, 0, 1, 100_000, 1, 1.0)
                            for number in range(1, _HOSTS + 1) for class_id in range(3)]})
        blazar = blazar_databases.empty("sqlite")
        tables = blazar_databases.Tables(blazar)
        tables.insert(blazar_rows.host(str(number), f"host-{number}")
                      for number in range(1, _HOSTS + 1))
        for number in range(_LEASES):
            tables.insert(blazar_rows.LeaseRows(
                start=blazar_rows.START + number * blazar_rows.DAY).instances(
                    {str(number % _HOSTS + 1): 2}))
        tables.dispose()
        return [f"placement={placement}", f"blazar={blazar}"]

    def test_copies_killed_at_random_moments(self) -> None:
        self.kill_copies()


def _make_deadly(function: Callable[..., None], number: int) -> Callable[..., None]:
    """Return a function that is killed, with its process, before the call of a number."""
    calls = itertools.count(1)

    def call(*arguments: object) -> None:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        function(*arguments)

    return call
