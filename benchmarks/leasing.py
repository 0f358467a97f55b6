"""What leases cost: processor time of requests, statements, and how late events are.

Ours alone. The reference, OpenStack Blazar 18.0.0 on MariaDB, was measured once with 1,000
hosts and 10,000 leases: creating such a lease took it 3,450 statements and 4 s of processor
time, a refused lease of hosts 4,009 and 5.4 s, reading all leases 5.1 s.
"""

from __future__ import annotations

import collections
import datetime
import json
import statistics
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from benchmarks import client, leases
from benchmarks.bench import Bench, Found
from benchmarks.lessor import DAY, PROJECT, make_lease
from placement_core.db import clock
from placement_core.reservations import records, tables

_TOKEN = f"admin:{PROJECT}"
#: Requests of one round: processor time is counted in hundredths of a second.
_WRITES, _READS, _LONG_READS, _SEARCHES = 25, 100, 10, 25
_PAGE = 1000
#: How long from now on leases are due that are written now, and how long they last.
_DUE_SECONDS, _LAST_DAYS = 4, 30
_POLL_SECONDS = 0.02
_GIVE_UP_SECONDS = 120

#: The large dataset first: what is asked of it is bounded.
_SIZES = ("10k", "1k")
_LARGER_SIZES = ("100k", "10k")

#: {"server" | "database": processor milliseconds of one}.
_Cost = Mapping[str, float]


def create(bench: Bench, rounds: int) -> Found:
    """Creating a lease of four slots, each on another host."""
    medians = _costs(bench, rounds, _create)
    return medians["ms_10k"], medians


def refuse(bench: Bench, rounds: int) -> Found:
    """Refusing one for the week in which everything is leased, and saying when it fits."""
    medians = _costs(bench, rounds, _refuse)
    return medians["ms_10k"], medians


def of_a_project(bench: Bench, rounds: int) -> Found:
    """The leases of a project that has the same number in both datasets."""
    medians = _costs(bench, rounds, _read_of_a_project)
    return medians["ms_10k"] / medians["ms_1k"], medians


def everything(bench: Bench, rounds: int) -> Found:
    """All leases: in one answer, in pages, and the first answer of a worker; what costs most."""
    first = _first_of_workers(bench, rounds)
    at_once = _costs(bench, rounds, _read_everything)
    in_pages = _costs(bench, rounds, _read_pages)
    return max(first["ms_10k"], at_once["ms_10k"], in_pages["ms_10k"]), {
        **{f"first_{name}": value for name, value in first.items()},
        **{f"at_once_{name}": value for name, value in at_once.items()},
        **{f"in_pages_{name}": value for name, value in in_pages.items()}}


def timeline(bench: Bench, rounds: int) -> Found:
    """What is free of the pool throughout the year."""
    medians = _costs(bench, rounds, _read_timeline)
    return medians["ms_10k"], medians


def next_fit(bench: Bench, rounds: int) -> Found:
    """When most of the hosts are free for a week, searched from the begin of the year."""
    medians = _costs(bench, rounds, _search)
    return medians["ms_10k"], medians


def many(bench: Bench, rounds: int) -> Found:
    """What does not answer with more leases because there are more; the worst of the ratios."""
    ratios, detail = [], {}
    for name, turn in _OF_MANY.items():
        medians = _costs(bench, rounds, turn, _LARGER_SIZES)
        ratios.append(medians["ms_100k"] / medians["ms_10k"])
        detail |= {f"{name}_{which}": value for which, value in medians.items()}
    return max(ratios), detail


def create_statements(bench: Bench, rounds: int) -> Found:
    """What creating a lease asks of the database."""
    return _statements(bench, rounds, leases.YEAR)


def refuse_statements(bench: Bench, rounds: int) -> Found:
    """What refusing one asks of the database."""
    return _statements(bench, rounds, leases.YEAR + leases.FULL[0] * DAY)


def starts(bench: Bench, rounds: int) -> Found:
    """How long after their second the last of 200 leases has started, for all to see."""
    dataset = bench.leased("10k")
    database = bench.copy(dataset)
    late = []
    with bench.managing(database) as connection:
        for number in range(rounds):
            due = _now(connection).replace(microsecond=0) + datetime.timedelta(
                seconds=_DUE_SECONDS)
            bench.insert(database, _due_at_once(dataset, number, due))
            late.append(_last_start(connection, due))
    return statistics.median(late), {
        "fastest": min(late), "slowest": max(late), "leases": _due(dataset)}


# Processor time ----------------------------------------------------------------------


def _costs(
    bench: Bench, rounds: int,
    turn: Callable[[client.Target, leases.Dataset, int], _Cost],
    sizes: Sequence[str] = _SIZES,
) -> dict[str, float]:
    """Let services on two datasets take turns.

    :param turn: is handed the number of the round; the first one only warms up.
    :param sizes: keys of the datasets.
    :returns: medians: ``ms_10k`` of server and database together, and of each.
    """
    found: dict[str, list[float]] = collections.defaultdict(list)
    for number in range(-1, rounds):
        for size in sizes if number % 2 else reversed(sizes):
            target, dataset = bench.lessor_of(size)
            cost = turn(target.bearing(_TOKEN), dataset, number + 1)
            if number >= 0:
                found[f"ms_{size}"].append(sum(cost.values()))
                for part, milliseconds in cost.items():
                    found[f"{part}_ms_{size}"].append(milliseconds)
    return {name: statistics.median(values) for name, values in found.items()}


def _create(target: client.Target, dataset: leases.Dataset, number: int) -> _Cost:
    cost = _driven(target, [
        target.request("POST", "/v1/leases", make_lease(
            f"{number}-{place}", _at(number, place, dataset.years)))
        for place in range(_WRITES)], 201)
    # The next round finds the dataset as this one did.
    made = target.must("GET", f"/v1/leases?project_id={PROJECT}")["leases"]
    if len(made) != _WRITES:
        raise RuntimeError(f"{len(made)} of {_WRITES} leases")
    _driven(target, [target.request("DELETE", f"/v1/leases/{one['id']}") for one in made], 204)
    return cost


def _at(number: int, place: int, years: int) -> datetime.datetime:
    """Return when a lease begins that is created: at any time with room, of any year."""
    return leases.YEAR + datetime.timedelta(
        days=leases.DAYS * (place % years),
        hours=(7 * _WRITES * number + 211 * place) % (24 * (leases.FULL[0] - 2)))


def _refuse(target: client.Target, _dataset: leases.Dataset, number: int) -> _Cost:
    begins, ends = (leases.YEAR + day * DAY for day in leases.FULL)
    status, refusal = target.call("POST", "/v1/leases", make_lease("full", begins))
    if status != 409 or leases.text(ends) not in refusal["error_message"]:
        raise RuntimeError(f"{status} {refusal}")
    return _driven(target, [
        target.request("POST", "/v1/leases", make_lease(
            f"{number}-{place}", begins + datetime.timedelta(hours=place)))
        for place in range(_WRITES)], 409)


def _read_of_a_project(target: client.Target, _dataset: leases.Dataset, _number: int) -> _Cost:
    path = f"/v1/leases?project_id={leases.LESSEE}"
    _check(target, path, leases.LESSEES_LEASES)
    return _driven(target, [target.request("GET", path)] * _READS, 200)


def _read_everything(target: client.Target, dataset: leases.Dataset, number: int) -> _Cost:
    if not number:
        _check(target, "/v1/leases", dataset.size)
    return _driven(target, [target.request("GET", "/v1/leases")] * _LONG_READS, 200)


def _first_of_workers(bench: Bench, rounds: int) -> dict[str, float]:
    """Read all leases with one worker after the other that knows none.

    :returns: medians, as of ``_costs``.
    """
    dataset = bench.leased("10k")
    database = bench.copy(dataset, "_first")
    found: dict[str, list[float]] = collections.defaultdict(list)
    for _ in range(rounds):
        with bench.serving(database) as served:
            served.settle()
            target = served.target.at(None).bearing(_TOKEN)
            cost = _driven(target, [target.request("GET", "/v1/leases")], 200)
            found["ms_10k"].append(sum(cost.values()))
            for part, milliseconds in cost.items():
                found[f"{part}_ms_10k"].append(milliseconds)
            _check(target, "/v1/leases", dataset.size)
    return {name: statistics.median(values) for name, values in found.items()}


def _read_pages(target: client.Target, dataset: leases.Dataset, _number: int) -> _Cost:
    """Read all pages, one after the other; the cost is that of all."""
    paths, count = [f"/v1/leases?limit={_PAGE}"], 0
    while True:
        page = target.must("GET", paths[-1])
        count += len(page["leases"])
        if "leases_links" not in page:
            break
        following = urllib.parse.urlsplit(page["leases_links"][0]["href"])
        paths.append(f"{following.path}?{following.query}")
    if count != dataset.size:
        raise RuntimeError(f"{count} of {dataset.size} leases in pages")
    return _drive_pages(target, paths)


def _drive_pages(target: client.Target, paths: Sequence[str]) -> _Cost:
    """Read pages again and again; return the cost of all together."""
    cost = _driven(target, [target.request("GET", path) for path in [*paths] * _LONG_READS], 200)
    return {part: milliseconds * len(paths) for part, milliseconds in cost.items()}


def _read_timeline(target: client.Target, _dataset: leases.Dataset, _number: int) -> _Cost:
    path = "/capacity/v1/reservations/timeline?" + urllib.parse.urlencode({
        "start": leases.text(leases.YEAR), "end": leases.text(leases.YEAR + leases.DAYS * DAY)})
    paths, steps = [path], []
    while True:
        page = target.must("GET", paths[-1])
        steps += page["timeline"]
        following = page["links"]["next"]
        if following is None:
            break
        paths.append(following)
    if min(step["vcpus"] for step in steps):
        raise RuntimeError("something is free in the week in which nothing is")
    return _drive_pages(target, paths)


def _search(target: client.Target, dataset: leases.Dataset, _number: int) -> _Cost:
    wanted = -(-2 * dataset.hosts // 3)
    path = "/capacity/v1/reservations/next_fit?" + urllib.parse.urlencode({
        "reservations": json.dumps([{
            "resource_type": "physical:host", "min": wanted, "max": wanted,
            "hypervisor_properties": "", "resource_properties": ""}]),
        "start": leases.text(leases.YEAR), "minutes": 7 * 24 * 60})
    if not target.must("GET", path)["next_fit"]:
        raise RuntimeError("most of the hosts are never free")
    return _driven(target, [target.request("GET", path)] * _SEARCHES, 200)


#: By name.
_OF_MANY = {"create": _create, "refuse": _refuse, "of_a_project": _read_of_a_project,
            "next_fit": _search}


def _driven(target: client.Target, requests: Sequence[client.Request], status: int) -> _Cost:
    """Send requests one after the other, and return what one costs."""
    drive = target.drive(requests, 1)
    if {answer.status for answer in drive.answers} != {status}:
        raise RuntimeError(f"{collections.Counter(answer.status for answer in drive.answers)}: "
                           f"{drive.errors[:1]}")
    return {part: seconds * 1000 / len(requests) for part, seconds in drive.cpu.items()}


def _check(target: client.Target, path: str, count: int) -> None:
    found = len(target.must("GET", path)["leases"])
    if found != count:
        raise RuntimeError(f"GET {path}: {found} of {count} leases")


# Statements --------------------------------------------------------------------------


def _statements(bench: Bench, rounds: int, start: datetime.datetime) -> Found:
    """Return the most that one lease asks for, of some that begin at ``start``."""
    database = bench.copy(bench.leased("10k"))
    with bench.lessor(database) as lessor:
        counts = [lessor.statements(start) for _ in range(rounds)]
    return max(counts), {"fewest": min(counts)}


# Events ------------------------------------------------------------------------------


def _due(dataset: leases.Dataset) -> int:
    """Return how many leases are due in one second: 200 of those of 1,000 hosts."""
    return max(1, dataset.hosts // 5)


def _due_at_once(
    dataset: leases.Dataset, number: int, due: datetime.datetime
) -> Iterator[leases.Lease]:
    """Yield leases that begin in the same second, each with slots of two hosts."""
    count = _due(dataset)
    for place in range(count):
        hosts = (place, count + place)
        yield leases.Lease(
            f"due-{number}-{place}", PROJECT, due, due + _LAST_DAYS * DAY,
            dict.fromkeys(hosts, 2))


def _last_start(connection: sa.Connection, due: datetime.datetime) -> float:
    """Wait until all leases of a second are in force; return how many seconds it took."""
    waiting = sa.select(sa.func.count(), clock.now().label("at")).select_from(
        tables.leases).where(tables.leases.c.start_at == due,
                             tables.leases.c.status != records.ACTIVE)
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        left, at = connection.execute(waiting).one()
        if not left:
            return float((_moment(at) - due).total_seconds())
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} leases have not started in {_GIVE_UP_SECONDS} s")
        time.sleep(_POLL_SECONDS)


def _now(connection: sa.Connection) -> datetime.datetime:
    return _moment(connection.execute(sa.select(clock.now())).scalar_one())


def _moment(at: datetime.datetime) -> datetime.datetime:
    return at.replace(tzinfo=None)
