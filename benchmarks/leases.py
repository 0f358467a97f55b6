"""A dataset of leases: hosts of the freepool, and what is promised of them in years to come.

The first year is far ahead, so that nothing of it is ever due, and the same whenever it is
loaded; the others, if any, are like it. A quarter of the hosts is leased whole, in pairs, one
lease after the other; the others give slots to instance leases, of all three affinities, which
begin at any minute. Then comes a week in which every host is leased.

Hosts enter the pool over HTTP. Leases are written as rows, as the service would leave
them: one by one, ten thousand would take minutes. Their texts are written as a manager does.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from benchmarks import databases, datasets
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.http.leases_api import representations
from placement_core.placement import tables as _placed  # noqa: F401 (foreign keys)
from placement_core.reservations import records, tables
from placement_core.reservations.leases import rendered_texts

#: The year, its days with room, and those without.
YEAR = datetime.datetime(2040, 1, 1)
DAYS = 365
FULL = (350, 357)
#: A project with the same number of leases in every dataset, and the others.
LESSEE, LESSEES_LEASES = "lessee", 20
_PROJECTS = 50
#: Fewer hosts have no four that nobody has whole.
_FEWEST = 8
#: What is made of each host.
_LEASES_OF_A_HOST = 10
#: Of ten leases so many are of whole hosts, and of so many each.
_WHOLE_IN_TEN, _PAIR = 3, 2
#: Of a host's worth, in the last week.
_HOSTS_IN_THE_FULL_WEEK = 20
SLOT = {"vcpus": 4, "memory_mb": 8192, "disk_gb": 40}
_AMOUNTS = (1, 2, 4)
_AFFINITIES = (False, None, True)
_MINUTES_IN_A_DAY = 24 * 60
_LONGEST_DAYS = 7
_SECONDS_BEFORE_END = 3600

_hosts, _reservations = tables.computehosts, tables.lease_reservations
_SIZE = ("vcpus", "memory_mb", "disk_gb")


@dataclasses.dataclass(frozen=True)
class Lease:
    """A lease of one reservation that has not begun.

    :ivar slots: {number of a host: how many slots of it}; of a whole host, 1.
    """

    name: str
    project: str
    start: datetime.datetime
    end: datetime.datetime
    slots: Mapping[int, int]
    whole: bool = False
    affinity: bool | None = None


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Flat hosts, all of them in the freepool, and ten times as many leases in each year."""

    hosts: int
    years: int = 1

    @property
    def name(self) -> str:
        """A name for files and databases."""
        years = f"_years_{self.years}" if self.years > 1 else ""
        return f"leases_hosts_{self.hosts}{years}"

    @property
    def empty(self) -> datasets.Dataset:
        """The hosts."""
        return datasets.Dataset("flat", self.hosts)

    def scaled(self, scale: float) -> Dataset:
        """Return the same kind of dataset in another size."""
        return Dataset(max(_FEWEST, self.empty.scaled(scale).hosts), self.years)

    @property
    def size(self) -> int:
        """How many leases there are."""
        return self._size_of_a_year * self.years

    @property
    def _size_of_a_year(self) -> int:
        return self.hosts * _LEASES_OF_A_HOST

    @property
    def _quarter(self) -> range:
        """The hosts that are leased whole before the last week."""
        return range(0, self.hosts, 4)

    def leases(self) -> Iterator[Lease]:
        """Yield what is promised; never more of a host than it has."""
        chance = random.Random(5)
        step = self.size // LESSEES_LEASES
        everything = (lease for year in range(self.years) for lease in self._of_year(chance, year))
        for number, lease in enumerate(everything):
            place, rest = divmod(number, step)
            project = f"project-{number % _PROJECTS}"
            if not rest and place < LESSEES_LEASES:
                project = LESSEE
            yield dataclasses.replace(lease, name=f"lease-{number}", project=project)

    def _of_year(self, chance: random.Random, year: int) -> Iterator[Lease]:
        size = self._size_of_a_year
        last = -(-self.hosts // _HOSTS_IN_THE_FULL_WEEK)
        later = datetime.timedelta(days=DAYS * year)
        wholes = self._wholes()
        for number in range(size):
            if number >= size - last:
                lease = self._of_the_full_week(number - size + last)
            elif number % 10 < _WHOLE_IN_TEN:
                lease = next(wholes)
            else:
                lease = self._of_slots(chance, number)
            yield dataclasses.replace(lease, start=lease.start + later, end=lease.end + later)

    def _wholes(self) -> Iterator[Lease]:
        """Yield leases of pairs of hosts: each has one after the other."""
        pairs = max(1, len(self._quarter) // _PAIR)
        periods = -(-self._size_of_a_year * _WHOLE_IN_TEN // 10 // pairs) + 1
        minutes = FULL[0] * _MINUTES_IN_A_DAY // periods
        for period in range(periods):
            for pair in range(pairs):
                start = _at(period * minutes)
                lasts = datetime.timedelta(minutes=minutes * (6 + pair % 4) // 10)
                yield Lease("", "", start, start + lasts, dict.fromkeys(
                    self._quarter[_PAIR * pair:_PAIR * (pair + 1)], 1), whole=True)

    def _of_slots(self, chance: random.Random, number: int) -> Lease:
        """Return a lease of slots of hosts that nobody has whole."""
        shared = chance.sample([host for host in range(self.hosts) if host % 4],
                               min(max(_AMOUNTS), self.hosts - len(self._quarter)))
        amount, affinity = _AMOUNTS[number % 7 % 3], _AFFINITIES[number % 5 % 3]
        if affinity:
            slots = {shared[0]: amount}
        else:
            each = 1 if affinity is False else 2
            slots = dict.fromkeys(shared[:max(1, amount // each)], min(each, amount))
        lasts = chance.randrange(60, _LONGEST_DAYS * _MINUTES_IN_A_DAY)
        start = _at(chance.randrange(FULL[0] * _MINUTES_IN_A_DAY - lasts))
        return Lease("", "", start, start + datetime.timedelta(minutes=lasts), slots,
                     affinity=affinity)

    def _of_the_full_week(self, number: int) -> Lease:
        start, end = (_at(day * _MINUTES_IN_A_DAY) for day in FULL)
        first = number * _HOSTS_IN_THE_FULL_WEEK
        return Lease("", "", start, end, dict.fromkeys(
            range(first, min(first + _HOSTS_IN_THE_FULL_WEEK, self.hosts)), 1), whole=True)


def _at(minutes: int) -> datetime.datetime:
    return YEAR + datetime.timedelta(minutes=minutes)


def text(at: datetime.datetime) -> str:
    """Write a time as clients do."""
    return at.strftime("%Y-%m-%d %H:%M")


def host_name(number: int) -> str:
    """Return the name of the resource provider of a host."""
    return f"flat-{number:06d}"


def insert(server: databases.Server, name: str, leases: Iterable[Lease]) -> None:
    """Write leases as rows into a database, with all that belongs to them."""
    engine = sa.create_engine(server.url(name), poolclass=sa.NullPool)
    with engine.begin() as connection:
        _insert(connection, leases)


def write_texts(server: databases.Server, name: str) -> None:
    """Write the texts of leases, as a manager does soon after they were made."""
    database = Database(
        Settings(server.url(name).render_as_string(hide_password=False)), Journal())
    try:
        rendered_texts.fill(Context(database), representations.LEASE)
    finally:
        database.dispose()


def _insert(connection: sa.Connection, leases: Iterable[Lease]) -> None:
    made: dict[sa.Table, list[dict[str, Any]]] = {
        table: [] for table in (
            tables.leases, _reservations, tables.instance_reservations,
            tables.computehost_reservations, tables.computehost_allocations,
            tables.lease_events)}
    known = {row.name: row for row in connection.execute(sa.select(
        _hosts.c.name, _hosts.c.id, *(_hosts.c[column] for column in _SIZE)))}
    made_at = datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)
    for lease in leases:
        hosts = [(known[host_name(number)], slots) for number, slots in lease.slots.items()]
        for table, row in _rows(lease, hosts):
            made[table].append({**row, **(
                {"created_at": made_at} if "created_at" in table.c else {})})
        made_at -= datetime.timedelta(seconds=1)
    for table, rows in made.items():
        if rows:
            connection.execute(sa.insert(table), rows)
    connection.execute(sa.update(_hosts).values(promised=True))


def _rows(
    lease: Lease, hosts: Sequence[tuple[sa.Row[Any], int]]
) -> Iterator[tuple[sa.Table, dict[str, Any]]]:
    """Yield the rows of a lease, each with its table."""
    id_, reservation, resource = (
        datasets.uid(lease.name, lease.start, part) for part in ("lease", "reservation", "fields"))
    kind = "physical:host" if lease.whole else "virtual:instance"
    yield tables.leases, {
        "id": id_, "name": lease.name, "user_id": f"{lease.project}-user",
        "project_id": lease.project, "start_at": lease.start, "end_at": lease.end,
        "status": records.PENDING, "degraded": False, "version": 1}
    yield _reservations, {
        "id": reservation, "lease_id": id_, "position": 0, "resource_type": kind,
        "resource_id": resource, "status": records.R_PENDING, "missing_resources": False,
        "resources_changed": False}
    of_both = {"id": resource, "reservation_id": reservation, "resource_properties": ""}
    if lease.whole:
        yield tables.computehost_reservations, {
            **of_both, "min": len(hosts), "max": len(hosts), "hypervisor_properties": "",
            "before_end": ""}
    else:
        yield tables.instance_reservations, {
            **of_both, **SLOT, "amount": sum(lease.slots.values()), "affinity": lease.affinity}
    start, end = (int(at.replace(tzinfo=datetime.UTC).timestamp())
                  for at in (lease.start, lease.end))
    for host, slots in hosts:
        size = {column: host._mapping[column] for column in _SIZE} if lease.whole else SLOT
        yield tables.computehost_allocations, {
            "reservation_id": reservation, "computehost_id": host.id, "slots": slots, **size,
            "whole": lease.whole, "start_second": start, "end_second": end}
    before_end = lease.end - datetime.timedelta(seconds=_SECONDS_BEFORE_END)
    for type_, due in ((records.START, lease.start), (records.BEFORE_END, before_end),
                       (records.END, lease.end)):
        yield tables.lease_events, {
            "id": datasets.uid(id_, type_), "lease_id": id_, "event_type": type_, "due_at": due,
            "status": records.UNDONE, "attempt": 0, "failures": 0}
