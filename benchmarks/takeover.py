"""How long a large Keystone takes to be taken over, and given back, and how much memory.

``python -m benchmarks.takeover URL [--projects N] [--limits N]``: on an empty database that has
its tables. Each command is a process of its own, whose memory is its peak.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from placement_core.takeover import keystone
from tests import keystone_database

_MIB = 1024
_DOMAINS = 10
_DEPTH = 5


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a command took.

    :ivar memory_mib: the most that it had.
    """

    command: str
    seconds: float
    memory_mib: float


def measure(connection: str, *, projects: int = 10_000, limits: int = 10_000) -> Iterator[Cost]:
    """Check, copy, compare, and export what a Keystone of such a size has."""
    with tempfile.TemporaryDirectory() as folder:
        source = make_source(pathlib.Path(folder, "keystone.sqlite"), projects, limits)
        for command in (
                ("migrate", "check", "--from", f"keystone={source}"),
                ("migrate", "copy", "--from", f"keystone={source}", "--execute"),
                ("migrate", "copy", "--from", f"keystone={source}", "--execute"),
                ("migrate", "diff", "--from", f"keystone={source}"),
                ("export", "keystone", "--to", str(pathlib.Path(folder, "rows")))):
            yield _run(command, connection)


def make_source(path: pathlib.Path, projects: int, limits: int) -> str:
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


def _run(command: Sequence[str], connection: str) -> Cost:
    """Run a command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "placement_core", *command], stdout=subprocess.DEVNULL,
        env={**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": connection})
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code:
        raise SystemExit(f"placement-core {' '.join(command)}: exit code {code}")
    return Cost(" ".join(command[:2]), time.monotonic() - began, usage.ru_maxrss / _MIB)


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("connection", metavar="URL")
    parser.add_argument("--projects", type=int, default=10_000)
    parser.add_argument("--limits", type=int, default=10_000)
    options = parser.parse_args()
    for cost in measure(options.connection, projects=options.projects, limits=options.limits):
        print(f"{cost.command:16} {cost.seconds:7.1f} s {cost.memory_mib:7.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
