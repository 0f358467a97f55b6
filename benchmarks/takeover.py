"""How long a large cloud takes to be taken over, and given back, and how much memory.

``python -m benchmarks.takeover URL [--scale X]``: on an empty database that has its tables. A
Keystone with 10,000 projects and limits, a Placement with 10,000 providers and 100,000
allocations, and a Blazar with 10,000 leases are read and copied together. Each command is a
process of its own, whose memory is its peak.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from placement_core.takeover import keystone
from tests import blazar_databases, blazar_rows, keystone_database, placement_database
from tests.placement_database import make_uuid

_MIB = 1024
_DOMAINS = 10
_DEPTH = 5
#: At scale 1.
_PROJECTS = _PROVIDERS = _LEASES = 10_000
_ALLOCATIONS = 100_000
_TRAITS = 20
_LEASED_HOSTS = 500
#: Exit codes of commands that have something to tell.
_TO_BE_READ = ((1, "check"), (1, "copy"))
#: {class: (how many there are of each provider, how many one consumer takes)}.
_CLASSES = {"VCPU": (64, 2), "MEMORY_MB": (262_144, 4096), "DISK_GB": (4000, 20)}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a command took.

    :ivar memory_mib: the most that it had.
    """

    command: str
    seconds: float
    memory_mib: float


def measure(connection: str, scale: float = 1.0) -> Iterator[Cost]:
    """Check, copy, compare, and export what services of such a size have."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        count = round(_PROJECTS * scale)
        addresses = {
            "keystone": make_keystone(path / "keystone.sqlite", count, count),
            "placement": make_placement(path / "placement.sqlite", scale),
            "blazar": make_blazar(scale)}
        sources = [word for name, url in addresses.items() for word in ("--from", f"{name}={url}")]
        for command in (
                ("migrate", "check"), ("migrate", "copy", "--execute"),
                ("migrate", "copy", "--execute"), ("migrate", "diff")):
            yield _run((*command, *sources), connection)
        for service in addresses:
            yield _run(("export", service, "--to", str(path / "rows")), connection)


def make_keystone(path: pathlib.Path, projects: int, limits: int) -> str:
    """Make a database with what is read of Keystone's; return its URL."""
    names = [f"class:CUSTOM_{number}" for number in range(max(-(-limits // projects), 1))]
    domain = {"domain_id": keystone.ROOT_ID, "parent_id": None, "is_domain": True}
    common = {"description": "", "enabled": True}
    rows: dict[str, list[dict[str, Any]]] = {
        "region": [{"id": "RegionOne", "parent_region_id": None, "description": ""}],
        "service": [{"id": "compute", "type": "compute", "enabled": True, "extra": "{}"}],
        "endpoint": [],
        "project": [
            *({"id": f"d{number}", "name": f"d{number}", **domain, **common}
              for number in range(_DOMAINS)),
            *({"id": f"p{number}", "name": f"p{number}", "domain_id": f"d{number % _DOMAINS}",
               "parent_id": (f"p{number - _DOMAINS}" if number // _DOMAINS % _DEPTH
                             else f"d{number % _DOMAINS}"),
               "is_domain": False, **common} for number in range(projects))],
        "registered_limit": [
            {"internal_id": number, "id": f"r{number}", "service_id": "compute",
             "region_id": "RegionOne", "resource_name": name, "default_limit": 10,
             "description": None} for number, name in enumerate(names)],
        "limit": [
            {"internal_id": number, "id": f"l{number}", "project_id": f"p{number % projects}",
             "domain_id": None, "resource_limit": 5, "description": None,
             "registered_limit_id": f"r{number // projects}"} for number in range(limits)]}
    return keystone_database.make(path, rows)


def make_placement(path: pathlib.Path, scale: float = 1.0) -> str:
    """Make a database with what is read of Placement's; return its URL.

    The first providers are the hosts of ``make_blazar``, with the children that Blazar makes;
    nobody holds anything of them.
    """
    providers, allocations = round(_PROVIDERS * scale), round(_ALLOCATIONS * scale)
    leased = round(_LEASED_HOSTS * scale)
    consumers = allocations // len(_CLASSES)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "resource_classes": list(enumerate(_CLASSES)),
        "traits": [(number, f"CUSTOM_{number}") for number in range(_TRAITS)],
        "resource_providers": [
            (number, make_uuid("provider", number), f"host-{number}", 3, number, None)
            for number in range(1, providers + 1)],
        "inventories": [
            (provider, number, total, 0, 1, total, 1, 1.0)
            for provider in range(1, providers + 1)
            for number, (total, _) in enumerate(_CLASSES.values())],
        "resource_provider_traits": [
            (provider, trait) for provider in range(1, providers + 1)
            for trait in range(_TRAITS)],
        "projects": [(number, f"p{number}") for number in range(1, 101)],
        "users": [(1, "user")],
        "consumer_types": [(1, "INSTANCE")],
        "consumers": [
            (number, make_uuid("consumer", number), number % 100 + 1, 1, 1, 1)
            for number in range(consumers)],
        "allocations": [
            (make_uuid("consumer", number), leased + 1 + number % (providers - leased), class_,
             used)
            for number in range(consumers) for class_, (_, used) in enumerate(_CLASSES.values())]}
    rows["resource_providers"] += [
        (providers + number, make_uuid("child", number), f"blazar_host-{number}", 0, number,
         number) for number in range(1, leased + 1)]
    return placement_database.make(path, rows)


def make_blazar(scale: float = 1.0) -> str:
    """Make a database of Blazar with hosts of ``make_placement`` and leases; return its URL."""
    url = blazar_databases.empty("sqlite")
    hosts = round(_LEASED_HOSTS * scale)
    source = blazar_databases.Tables(url)
    source.insert(blazar_rows.host(str(number), f"host-{number}")
                  for number in range(1, hosts + 1))
    days = [blazar_rows.START + datetime.timedelta(days=number) for number in range(100)]
    source.insert(itertools.chain.from_iterable(
        blazar_rows.LeaseRows(start=days[number // hosts % len(days)]).instances(
            {str(number % hosts + 1): 2})
        for number in range(round(_LEASES * scale))))
    source.dispose()
    return url


def _run(command: Sequence[str], connection: str) -> Cost:
    """Run a command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "placement_core", *command], stdout=subprocess.DEVNULL,
        env={**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": connection})
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code and (code, command[1]) not in _TO_BE_READ:
        raise SystemExit(f"placement-core {' '.join(command)}: exit code {code}")
    return Cost(" ".join(command[:2]), time.monotonic() - began, usage.ru_maxrss / _MIB)


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("connection", metavar="URL")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sources (default: 1)")
    options = parser.parse_args()
    for cost in measure(options.connection, options.scale):
        print(f"{cost.command:18} {cost.seconds:7.1f} s {cost.memory_mib:7.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
