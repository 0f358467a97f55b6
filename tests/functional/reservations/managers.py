"""Three managers, events that are all due at once, and what may happen to managers."""

from __future__ import annotations

import collections
import contextlib
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from unittest import mock

import sqlalchemy as sa

from placement_core import conf, db, services
from placement_core.db.database import Database
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placed
from placement_core.reservations import records, tables
from placement_core.reservations.leases import notifications
from placement_core.reservations.manager import event_queue
from placement_core.testing import factories
from tests.functional.reservations import eventful

_ROOT = pathlib.Path(__file__).parents[3]
_PATIENCE_SECONDS = 120
#: How long a manager has what it took; the database ends a transaction that hangs then.
_TIMEOUT_SECONDS = 3
_HOSTS = 10

_events, _leases, _held = tables.lease_events, tables.leases, tables.computehost_allocations


class Storm:
    """Leases that end, and others that start on the same hosts in the same second.

    One manager is killed in the middle of its work, and one stopped until others have
    taken what it had. They are the product's own, as an operator starts them.

    :param count: how many events are due.
    """

    def __init__(self, database: Database, *, count: int = 200) -> None:
        self._database = database
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")]),
            "OS_PLACEMENT_CONFIG_DIR": "/nonexistent",
            "OS_PLACEMENT_DATABASE__CONNECTION": database.url.render_as_string(
                hide_password=False),
            "OS_RESERVATIONS__EVENT_TIMEOUT_SECONDS": str(_TIMEOUT_SECONDS)}
        with mock.patch.dict(os.environ, self._environment, clear=True):
            self._services = services.build(conf.load())
        self._ctx = self._services.context()
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed at the end of ``play``
            prefix="placement-managers-")
        hour = datetime.timedelta(hours=1)
        self._turning_at = (utcnow() + hour).replace(microsecond=0)
        self._end_at = self._turning_at + hour
        hosts = [self._host(f"host-{number}", count) for number in range(_HOSTS)]
        on = [hosts[number % _HOSTS] for number in range(count // 2)]
        self._first = eventful.leases(database, [
            eventful.Row(self._turning_at - 2 * hour, self._turning_at, None, [host])
            for host in on])
        self._second = eventful.leases(database, [
            eventful.Row(self._turning_at, self._end_at, None, [host]) for host in on])
        self._hosts = dict(zip([*self._first, *self._second], on + on, strict=True))

    def _host(self, name: str, size: int) -> int:
        inventory = {"VCPU": size, "MEMORY_MB": size, "DISK_GB": size}
        root = factories.provider(self._ctx, name, inventory=inventory)
        child = factories.provider(self._ctx, f"{name}-reservations", parent=root)
        with db.write(self._ctx) as session:
            key: int = session.execute(sa.insert(tables.computehosts), {
                "name": name, "provider_id": root.id, "provider_uuid": root.uuid,
                "reservation_provider_id": child.id, "vcpus": size, "memory_mb": size,
                "disk_gb": size, "reservable": True, "promised": True}).inserted_primary_key[0]
        return key

    def play(self) -> None:
        """Let it happen, and see what came of it.

        :raises AssertionError: not what should.
        """
        self._put_first_into_force()
        managers = [self._start() for _ in range(3)]
        try:
            _until(lambda: self._said().count("carries out events") == 3)
            self._play(*managers)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._said()}") from error
        finally:
            for each in managers:
                each.send_signal(signal.SIGCONT)
                each.kill()
                each.wait()
            self._log.close()
            self._services.database.dispose()

    def _play(
        self, killed: subprocess.Popen, stopped: subprocess.Popen, other: subprocess.Popen
    ) -> None:
        self._bring_forward(self._turning_at)
        _until(lambda: self._count(notifications.ENDED) >= 10)
        with self._nothing_is_done():
            self._stop_at_work(killed)
            had = self._stop_at_work(stopped)
        killed.kill()
        killed.wait()
        _until(lambda: self._open() == 0)
        self._check(had, self._second)
        # It goes on with what others have done meanwhile, and then with what is due.
        stopped.send_signal(signal.SIGCONT)
        other.send_signal(signal.SIGTERM)
        assert other.wait(_PATIENCE_SECONDS) == 0
        self._bring_forward(self._end_at)
        _until(lambda: self._open() == 0)
        _until(lambda: self._without_text() == 0)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(_PATIENCE_SECONDS) == 0
        self._check(had, [])

    def _check(self, had: set[str], in_force: list[str]) -> None:
        """See that every event had its effect once, and that nothing else is there."""
        expected = {(lease, notifications.STARTED): 1 for lease in self._hosts}
        expected |= {(lease, notifications.ENDED): 1
                     for lease in self._hosts if lease not in in_force}
        assert eventful.effects(self._database) == expected
        with self._database.autocommit.connect() as connection:
            rows = connection.execute(sa.select(_events)).all()
            lease_status = dict(
                connection.execute(sa.select(_leases.c.id, _leases.c.status)).all())
            classes = connection.scalars(sa.select(placed.resource_classes.c.name).where(
                placed.resource_classes.c.name.like("CUSTOM_RESERVATION_%"))).all()
            slots = connection.scalar(
                sa.select(sa.func.count()).select_from(placed.inventories)
                .join(placed.resource_classes, placed.resource_classes.c.id ==
                      placed.inventories.c.resource_class_id)
                .where(placed.resource_classes.c.name.like("CUSTOM_RESERVATION_%")))
        for lease, status in lease_status.items():
            assert status == (records.ACTIVE if lease in in_force else records.TERMINATED), lease
        assert len(classes) == slots == len(in_force), (len(classes), slots)
        done = [row for row in rows if row.status == records.DONE]
        assert len(done) == len(expected)
        for row in done:
            assert (row.owner, row.deadline_at, row.failures) == (None, None, 0), row
            assert row.due_at <= row.done_at, row
        assert any(row.attempt > 1 for row in done if row.id in had), "nothing was taken over"
        self._check_order(done)

    def _check_order(self, done: list[sa.Row]) -> None:
        """See that every start waited for all the ends on its host."""
        ends, starts = collections.defaultdict(list), collections.defaultdict(list)
        for row in done:
            if row.lease_id in self._first and row.event_type == records.END:
                ends[self._hosts[row.lease_id]].append(row.done_at)
            elif row.lease_id in self._second and row.event_type == records.START:
                starts[self._hosts[row.lease_id]].append(row.done_at)
        for host, times in starts.items():
            assert max(ends[host]) <= min(times), "a start did not wait for its host"

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "placement_core", "manager"], env=self._environment,
            cwd=_ROOT, stdout=self._log, stderr=subprocess.STDOUT)

    def _said(self) -> str:
        """Return what the managers have said, except for what they have done."""
        with open(self._log.name) as log:
            return "".join(line for line in log if not line.endswith(" is done\n"))

    def _put_first_into_force(self) -> None:
        while turns := event_queue.dequeue(self._ctx, "nobody", most=100, seconds=600):
            for turn in turns:
                assert self._services.transitions.execute(self._ctx, turn)

    def _bring_forward(self, planned: datetime.datetime) -> None:
        """Let everything that is planned for a time be due in a moment."""
        soon = utcnow().replace(microsecond=0) + datetime.timedelta(seconds=1)
        seconds, planned_second = eventful.second(soon), eventful.second(planned)
        with self._database.writer.begin() as connection:
            for column, old, new in (
                    (_leases.c.start_at, planned, soon), (_leases.c.end_at, planned, soon),
                    (_held.c.start_second, planned_second, seconds),
                    (_held.c.end_second, planned_second, seconds),
                    (_events.c.due_at, planned, soon)):
                connection.execute(
                    sa.update(column.table).where(column == old).values({column.name: new}))
        time.sleep(max(0.0, (soon - utcnow()).total_seconds()))

    @contextlib.contextmanager
    def _nothing_is_done(self) -> Iterator[None]:
        """Lock the hosts, so that whoever has events there keeps them."""
        providers = placed.resource_providers
        with self._database.writer.begin() as connection:
            connection.execute(sa.select(providers.c.id).order_by(providers.c.id)
                               .with_for_update()).all()
            yield

    def _stop_at_work(self, process: subprocess.Popen) -> set[str]:
        """Stop a process while it has events; return which."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            # Not stopped to look: while it was, others would take everything.
            if not self._taken_by(process):
                time.sleep(0.005)
                continue
            process.send_signal(signal.SIGSTOP)
            # What it had sent is in the database before this is asked.
            time.sleep(0.05)
            if had := self._taken_by(process):
                return had
            process.send_signal(signal.SIGCONT)
        raise AssertionError("a manager had nothing to do")

    def _taken_by(self, process: subprocess.Popen) -> set[str]:
        """Return the events that a manager has."""
        with self._database.autocommit.connect() as connection:
            return set(connection.scalars(
                sa.select(_events.c.id).where(
                    _events.c.status == records.IN_PROGRESS,
                    _events.c.owner.like(f"%:{process.pid}:%"))))

    def _count(self, notice: str) -> int:
        return sum(name == notice for _, name in eventful.effects(self._database))

    def _open(self) -> int:
        """Return how many events are due and not done."""
        with self._database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(_events)
                .where(_events.c.status != records.DONE, _events.c.due_at <= utcnow()))

    def _without_text(self) -> int:
        """Return how many leases have no text of their version."""
        texts = tables.lease_texts
        with self._database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(_leases).outerjoin(
                    texts, sa.and_(texts.c.number == _leases.c.number,
                                   texts.c.version == _leases.c.version))
                .where(texts.c.number.is_(None)))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)
