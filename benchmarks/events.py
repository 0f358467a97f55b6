"""How late leases start that are all due in the same second.

``python -m benchmarks.events URL``: on an empty database that has its tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from unittest import mock

import sqlalchemy as sa

from benchmarks import processes
from placement_core import conf, services
from placement_core.db import clock
from placement_core.reservations import records, tables
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.testing import factories

_HOSTS = 100
_SIZE = {"vcpus": 2, "memory_mb": 2048, "disk_gb": 10}
_PATIENCE_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Lateness:
    """How long after they were due leases had started.

    :ivar median: ``last``: of all of them; in seconds.
    :ivar cpu: processor time of the managers from shortly before on; in seconds.
    """

    leases: int
    managers: int
    median: float
    last: float
    cpu: float


def measure(connection: str, *, leases: int = 200, managers: int = 1) -> Lateness:
    """Let leases start in one second, on an empty database; return how late they were."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
        "OS_PLACEMENT_CONFIG_DIR": "/nonexistent",
        "OS_PLACEMENT_DATABASE__CONNECTION": connection}
    with mock.patch.dict(os.environ, environment, clear=True):
        parts = services.build(conf.load())
    try:
        start_at = _lease(parts, leases)
        with contextlib.ExitStack() as running:
            started = [running.enter_context(_manager(environment)) for _ in range(managers)]
            time.sleep(max(0.0, start_at.timestamp() - time.time() - 1))
            before = sum(processes.cpu_seconds(each.pid) for each in started)
            late = _wait(parts, leases)
            cpu = sum(processes.cpu_seconds(each.pid) for each in started) - before
    finally:
        parts.database.dispose()
    return Lateness(leases, managers, late[len(late) // 2], late[-1], cpu)


def _lease(parts: services.Services, count: int) -> datetime.datetime:
    """Make leases that start at the same time, soon; return when."""
    ctx = parts.context()
    for number in range(_HOSTS):
        provider = factories.provider(
            ctx, f"host-{number}", inventory={"VCPU": 64, "MEMORY_MB": 2**17, "DISK_GB": 2000})
        parts.pool_hosts.register(ctx, provider.name, {})
    now = _now(parts)
    hour = datetime.timedelta(hours=1)

    def create(start_at: datetime.datetime) -> None:
        parts.leases.create(ctx, NewLease(
            "lease", "project", "user", start_at, start_at + hour,
            [NewReservation("virtual:instance", {
                **_SIZE, "amount": 4, "affinity": None, "resource_properties": ""})]))

    began = time.monotonic()
    for _ in range(5):
        create(now + 24 * hour)
    # The managers, too, need some time until they are there.
    needed = math.ceil(30 + 2 * count * (time.monotonic() - began) / 5)
    start_at = _now(parts) + datetime.timedelta(seconds=needed)
    for _ in range(count):
        create(start_at)
    return start_at


def _now(parts: services.Services) -> datetime.datetime:
    with parts.database.autocommit.connect() as connection:
        now: datetime.datetime = connection.scalar(sa.select(clock.now()))
    return now.replace(microsecond=0, tzinfo=datetime.UTC)


@contextlib.contextmanager
def _manager(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "placement_core", "manager"], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait(parts: services.Services, count: int) -> list[float]:
    """Wait until leases have started; return how late, in order."""
    events = tables.lease_events
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.2)
        with parts.database.autocommit.connect() as connection:
            done = connection.execute(
                sa.select(events.c.due_at, events.c.done_at)
                .where(events.c.event_type == records.START,
                       events.c.status == records.DONE)).all()
        if len(done) == count:
            return sorted((row.done_at - row.due_at).total_seconds() for row in done)
    raise TimeoutError("the leases did not start")


if __name__ == "__main__":
    print(measure(sys.argv[1]))
