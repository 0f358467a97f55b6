"""How the cost of ours grows with the dataset: ratios of two sizes in one run."""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import (
    client,
    databases,
    datasets,
    filling,
    leasing,
    limits,
    metered,
    orders,
    processes,
    room,
    rows,
    servers,
    workloads,
)
from benchmarks.bench import Bench, Found, Growth, Measure

#: Enforced are limits of the bench's service, whichever service claims.
_LIMITS = (f"[limits]\nenforcement_model = tree\n\n"
           f"[quota]\nservice_type = {limits.SERVICE}\nregion = {limits.REGION}\n")
_BY_PLACEMENT = "count_usage_from_placement = true\n"
_GUARDS = {guard: f"{_LIMITS}{_BY_PLACEMENT}guard = {guard}\n" for guard in ("off", "enforce")}
_AUDITS = {"off": "", "on": "[audit]\nenabled = true\n"}
_GROUPINGS = {"alone": "[placement]\nmax_grouped_consumers = 1\n", "grouped": ""}
#: As in the rows about claims.
_CLAIMERS = (8, 32)
#: So many turns until every worker has seen claims of most projects.
_WARM_TURNS = 6
#: Services that take turns have so many more of them, as much shorter: each has connections of its
#: own, and how they fall on the workers makes more difference than what is compared.
_SHORTER = 4
_QUOTA = "/capacity/v1/quota"
#: Needs the index, and little else.
_FIRST_CANDIDATES = "/allocation_candidates?resources=VCPU:1&limit=1"
#: So many changes in a round.
_CHANGES = 100


def change(bench: Bench, rounds: int) -> Found:
    """One change on one worker, then a read on another: 100,000 hosts against 1,000."""
    sizes = {"1k": bench.dataset(1000), "100k": bench.dataset(100_000)}
    writes: dict[str, list[float]] = {size: [] for size in sizes}
    reads: dict[str, list[float]] = {size: [] for size in sizes}
    with contextlib.ExitStack() as stack:
        pairs = {}
        for size, dataset in sizes.items():
            database = bench.copy(dataset)
            pairs[size] = [
                _Connection(stack.enter_context(bench.serving(database, which)).target)
                for which in ("writer", "reader")]
        for number in range(-3, rounds):  # the first ones load the index
            for size, dataset in sizes.items():
                writer, reader = pairs[size]
                wrote = writer.timed("PUT", f"/allocations/{datasets.uid('change', number)}",
                                     filling.allocation(dataset.host(number % dataset.hosts),
                                                        datasets.CLAIM, "bench-change"))
                read = reader.timed(
                    "GET", f"/allocation_candidates?resources=VCPU:{number % 4 + 1}&limit=50")
                if number >= 0:
                    writes[size].append(wrote)
                    reads[size].append(read)
    medians = {
        **{f"write_ms_{size}": statistics.median(found) for size, found in writes.items()},
        **{f"read_ms_{size}": statistics.median(found) for size, found in reads.items()},
    }
    both = {size: medians[f"write_ms_{size}"] + medians[f"read_ms_{size}"] for size in sizes}
    medians["ratio_of_the_reads"] = medians["read_ms_100k"] / medians["read_ms_1k"]
    return both["100k"] / both["1k"], medians


def start(bench: Bench, rounds: int) -> Found:
    """The first candidates of a new worker, which loads the index: 100,000 / 10,000 hosts.

    Starting the process takes longer than loading 10,000 hosts, and as long whatever
    the dataset: it would hide what grows, so it is not part of the ratio.
    """
    medians = _time_starts(bench, rounds)
    return medians["seconds_100k"] / medians["seconds_10k"], medians


def start_seconds(bench: Bench, rounds: int) -> Found:
    """The same in seconds, at 100,000 hosts."""
    medians = _time_starts(bench, rounds)
    return medians["seconds_100k"], medians


def start_server(bench: Bench, rounds: int) -> Found:
    """The first candidates of each worker of a new server, its processes included."""
    database = bench.copy(bench.dataset(100_000))
    seconds = []
    for _ in range(rounds):
        started = time.monotonic()
        with bench.serving(database, workers=servers.WORKERS) as served:
            # As many at once as make every worker load its index.
            request = served.target.request("GET", _FIRST_CANDIDATES)
            served.target.drive([request] * 4 * servers.WORKERS, 4 * servers.WORKERS)
            seconds.append(time.monotonic() - started)
    return statistics.median(seconds), {"fastest": min(seconds), "slowest": max(seconds)}


def _time_starts(bench: Bench, rounds: int) -> Mapping[str, float]:
    """Let workers load the index; two rows show it, so it is measured once."""
    if bench.starts is None:
        sizes = {"10k": bench.dataset(10_000), "100k": bench.dataset(100_000)}
        copies = {size: bench.copy(dataset) for size, dataset in sizes.items()}
        seconds: dict[str, list[float]] = {size: [] for size in sizes}
        for _ in range(rounds):
            for size, database in copies.items():
                with bench.serving(database) as served:
                    served.settle()
                    started = time.monotonic()
                    served.target.must("GET", _FIRST_CANDIDATES)
                    seconds[size].append(time.monotonic() - started)
        bench.starts = {f"seconds_{size}": statistics.median(found)
                        for size, found in seconds.items()}
    return bench.starts


def change_work(bench: Bench, rounds: int) -> Found:
    """Processor time of a worker that sees a claim of another one, with the smallest answer."""
    # It is counted in hundredths of a second: that of few changes is nothing.
    changes = rounds * _CHANGES
    dataset = bench.dataset(100_000)
    database = bench.copy(dataset)
    with bench.serving(database, "writer") as writing, bench.serving(database, "reader") as served:
        writer, reader = _Connection(writing.target), _Connection(served.target)
        reader.timed("GET", _FIRST_CANDIDATES)  # loads the index
        used: dict[bool, float] = {}
        for changing in (False, True):
            before = processes.cpu_seconds(served.process.pid)
            for number in range(changes):
                if changing:
                    writer.timed("PUT", f"/allocations/{datasets.uid('work', number)}",
                                 filling.allocation(dataset.host(number % dataset.hosts),
                                                    datasets.CLAIM, "bench-work"))
                reader.timed("GET", _FIRST_CANDIDATES)
            used[changing] = 1000 * (processes.cpu_seconds(served.process.pid) - before) / changes
    return used[True] - used[False], {"read_ms": used[False], "change_and_read_ms": used[True]}


def memory(bench: Bench, rounds: int) -> Found:
    """Resident memory of a worker at 100,000 hosts, after reads and changes."""
    database = bench.copy(bench.dataset(100_000))
    dataset = bench.dataset(100_000)
    paths = rows.candidates_paths(1000) + rows.candidates_paths(50)
    with bench.serving(database, workers=servers.WORKERS) as served:
        for number in range(rounds):
            claim = filling.allocation(dataset.host(number), datasets.CLAIM, "bench-memory")
            served.target.must("PUT", f"/allocations/{datasets.uid('memory', number)}", claim)
            served.target.drive([served.target.request("GET", path) for path in paths], 8)
        workers = [processes.resident_mib(pid) for pid in processes.tree(served.process.pid)
                   if pid != served.process.pid]
    # multiprocessing has a small helper process of its own.
    biggest = sorted(workers, key=lambda sizes: sizes["rss"])[-servers.WORKERS:]
    return max(sizes["rss"] for sizes in biggest), {
        f"{name}_mib_worker_{number}": sizes[name]
        for number, sizes in enumerate(biggest) for name in ("rss", "pss")}


def decision(bench: Bench, rounds: int) -> Found:
    """One decision, after a claim of another project of its tree, and after nothing.

    The worse of the two ratios.
    """
    medians = _decisions_after(_claim, bench, rounds)
    return max(medians[f"{which}_ms_5k"] / medians[f"{which}_ms_50"]
               for which in ("next", "after_nothing")), medians


def decision_after_limit(bench: Bench, rounds: int) -> Found:
    """One decision after a limit was changed, which outdates what was made of all of them."""
    medians = _decisions_after(_change_limit, bench, rounds)
    return medians["next_ms_5k"] / medians["next_ms_50"], medians


def _decisions_after(
    change: Callable[[client.Target, str, int], object], bench: Bench, rounds: int
) -> dict[str, float]:
    """Let a service change something, as another worker would, and decide twice.

    :param change: is handed the service, a project and the number of the round.
    :returns: medians of the next decision, and of the one after that.
    """
    sizes = {"50": bench.tree(50), "5k": bench.tree(5000)}
    taken: dict[str, list[float]] = {
        f"{which}_ms_{size}": [] for which in ("next", "after_nothing") for size in sizes}
    with contextlib.ExitStack() as stack:
        turns = []
        for size, dataset in sizes.items():
            database = bench.copy(dataset)
            turns.append((
                size, stack.enter_context(bench.serving(database, "writer")).target,
                stack.enter_context(bench.deciding(database, dataset))))
        for number in range(-3, rounds):  # the first ones load the index
            for size, target, decider in turns if number % 2 else reversed(turns):
                change(target, decider.projects[number % len(decider.projects)], number)
                following, after_nothing = decider.warm(), decider.warm()
                if number >= 0:
                    taken[f"next_ms_{size}"].append(following)
                    taken[f"after_nothing_ms_{size}"].append(after_nothing)
    return {name: statistics.median(found) for name, found in taken.items()}


def _claim(target: client.Target, project: str, number: int) -> None:
    target.must("PUT", f"/allocations/{datasets.uid('decision', number)}",
                filling.allocation(limits.PROVIDER, datasets.CLAIM, project))


def _change_limit(target: client.Target, project: str, number: int) -> None:
    target = target.at(None)
    first = target.must("GET", f"/v3/limits?project_id={project}")["limits"][0]
    target.must("PATCH", f"/v3/limits/{first['id']}", {"limit": {
        "resource_limit": first["resource_limit"] + 1}})


def first_decision(bench: Bench, rounds: int) -> Found:
    """The first decision of a process, which loads what everybody uses."""
    sizes = {"50": bench.tree(50), "5k": bench.tree(5000)}
    taken: dict[str, list[float]] = {size: [] for size in sizes}
    with contextlib.ExitStack() as stack:
        turns = [(size, stack.enter_context(bench.deciding(bench.copy(dataset), dataset)))
                 for size, dataset in sizes.items()]
        for number in range(rounds):
            for size, decider in turns if number % 2 else reversed(turns):
                taken[size].append(decider.cold().milliseconds)
    medians = {f"ms_{size}": statistics.median(found) for size, found in taken.items()}
    return medians["ms_5k"] / medians["ms_50"], medians


def statements(bench: Bench, rounds: int) -> Found:
    """What the first decision of a process asks of the database."""
    dataset = bench.tree(5000)
    with bench.deciding(bench.copy(dataset), dataset) as decider:
        counts = [decider.cold().statements for _ in range(rounds)]
    return max(counts), {"fewest": min(counts)}


def guard(bench: Bench, rounds: int) -> Found:
    """Claims of projects in 50 trees of three levels: guard off, against enforce."""
    return _guarded(bench, bench.trees(50), rounds)


def guard_of_one_tree(bench: Bench, rounds: int) -> Found:
    """Claims of projects in one tree, which wait for each other: guard off, against enforce."""
    return _guarded(bench, bench.trees(1), rounds)


def _guarded(bench: Bench, dataset: limits.Dataset, rounds: int) -> Found:
    """Let two services, one of which holds claims to limits, take turns.

    Both know the projects' limits by then, as they do while nobody changes any.

    :returns: the larger of the ratios with few clients and with many.
    """
    medians = _take_turns(
        bench, dataset, rows.guarded(dataset), _GUARDS, rounds,
        check=lambda targets: _check_guards(targets, dataset))
    return max(medians[f"ratio_{clients}"] for clients in _CLAIMERS), medians


def audit(bench: Bench, rounds: int) -> Found:
    """Claims on 1,000 hosts: who made them is recorded, against not.

    :returns: the larger of the ratios of processor time with few clients and with many.
    """
    dataset = bench.dataset(1000)
    medians = _take_turns(
        bench, dataset, rows.with_allocations(dataset)["claims"], _AUDITS, rounds,
        check=_check_audits)
    return max(medians[f"on_together_ms_{clients}"] / medians[f"off_together_ms_{clients}"]
               for clients in _CLAIMERS), medians


def grouping_of_one(bench: Bench, rounds: int) -> Found:
    """Claims of one client, which nobody shares a transaction with: alone, against grouped."""
    medians = _group(bench, rounds, 1)
    return medians["ratio_1"], medians


def grouping_of_many(bench: Bench, rounds: int) -> Found:
    """What the slowest hundredth of claims of many clients waits: grouped, against alone."""
    clients = max(_CLAIMERS)
    medians = _group(bench, rounds, clients)
    if medians[f"grouped_together_ms_{clients}"] >= medians[f"alone_together_ms_{clients}"]:
        raise RuntimeError(f"groups spare no processor time: {medians}")
    return medians[f"grouped_p99_ms_{clients}"] / medians[f"alone_p99_ms_{clients}"], medians


def _group(bench: Bench, rounds: int, clients: int) -> dict[str, float]:
    """Let two services, one of which gives each claim its own transaction, take turns."""
    dataset = bench.dataset(1000)
    return _take_turns(
        bench, dataset, rows.with_allocations(dataset)["claims"], _GROUPINGS, rounds,
        claimers=(clients,))


def _take_turns(
    bench: Bench, dataset: filling.Dataset, workload: workloads.Workload,
    settings_of: Mapping[str, str], rounds: int, *,
    check: Callable[[Mapping[str, client.Target]], None] | None = None,
    claimers: Sequence[int] = _CLAIMERS,
) -> dict[str, float]:
    """Let two services of different settings take turns at claims.

    :param settings_of: {name: settings}; the second one's cost is compared to the first one's.
    :param check: sees that the settings make a difference.
    :param claimers: numbers of clients to measure.
    :returns: medians by name and number of clients; ``ratio_``: of the rates.
    """
    first, second = settings_of
    seconds = bench.turn_seconds / _SHORTER
    found: dict[str, list[float]] = collections.defaultdict(list)
    with contextlib.ExitStack() as stack:
        databases_of = {name: bench.copy(dataset, f"_{name}") for name in settings_of}
        turns = {
            name: stack.enter_context(bench.serving(
                databases_of[name], workers=servers.WORKERS, settings=settings)).target
            for name, settings in settings_of.items()}
        if check:
            check(turns)
        for target in turns.values():
            # Workers learn what binds each project when it first claims.
            workload.measure(target, min(claimers), _WARM_TURNS * bench.turn_seconds)
        for database in databases_of.values():
            bench.settle(database)
        for number in range(rounds * _SHORTER):
            order = list(turns) if number % 2 else list(reversed(turns))
            for clients in claimers:
                rates = {}
                for name in order:
                    measured = workload.measure(turns[name], clients, seconds)
                    if measured.problems:
                        raise RuntimeError(f"{name}: {measured.problems}")
                    rates[name] = measured.rate
                    found[f"{name}_per_second_{clients}"].append(measured.rate)
                    found[f"{name}_p99_ms_{clients}"].append(measured.p99_ms)
                    together = sum(measured.cpu_ms.values())
                    for part, milliseconds in {**measured.cpu_ms, "together": together}.items():
                        found[f"{name}_{part}_ms_{clients}"].append(milliseconds)
                found[f"ratio_{clients}"].append(rates[first] / rates[second])
    return {name: statistics.median(values) for name, values in found.items()}


def _check_audits(targets: Mapping[str, client.Target]) -> None:
    """See that only one of them records who wrote."""
    for name, target in targets.items():
        target.must("PUT", "/traits/CUSTOM_RECORDED")
        recorded = bool(target.at(None).must("GET", "/capacity/v1/audit")["entries"])
        if recorded != (name == "on"):
            raise RuntimeError(f"audit {name}: something was recorded: {recorded}")


def _check_guards(targets: Mapping[str, client.Target], dataset: limits.Dataset) -> None:
    """See that only the guard refuses what is more than a project may have."""
    for guard, status in (("off", 409), ("enforce", 403)):
        target = targets[guard]
        project = limits.ids(target.at(None)).projects[dataset.lowest]
        body = filling.allocation(
            dataset.empty.host(0), {"VCPU": limits.ENOUGH + 1}, project)
        answered, document = target.call("PUT", f"/allocations/{datasets.uid('guard')}", body)
        if answered != status:
            raise RuntimeError(f"guard = {guard}: {answered} {document}")


def count_in_cells(bench: Bench, rounds: int) -> Found:
    """A count over 20 cells, each farther than the one before, against the farthest alone."""
    taken: dict[str, list[float]] = collections.defaultdict(list)
    with bench.counting(20) as counters:
        for number in range(-3, rounds):  # the first ones connect
            for which in counters if number % 2 else reversed(counters):
                milliseconds = counters[which].timed()
                if number >= 0:
                    taken[f"ms_{which}"].append(milliseconds)
    medians = {name: statistics.median(found) for name, found in taken.items()}
    return medians["ms_all"] / medians["ms_farthest"], medians


def quota_of_all(bench: Bench, rounds: int) -> Found:
    """The quota of 5,000 projects in one answer, against that of one.

    After a claim, and after nothing: the worse of the two ratios.
    """
    dataset = bench.tree(5000)
    taken: dict[str, list[float]] = collections.defaultdict(list)
    with bench.serving(bench.copy(dataset), settings=f"{_LIMITS}{_BY_PLACEMENT}") as served:
        target = served.target.at(None)
        projects = sorted(limits.ids(target).projects.values())
        _check_quota(target, projects)
        asking = _Connection(target)
        for number in range(-3, rounds):  # the first ones load the index
            project = projects[number % len(projects)]
            paths = {"one": f"{_QUOTA}/{project}", "all": _QUOTA}
            for which in paths if number % 2 else reversed(paths):
                _claim(served.target, project, 2 * number + (which == "all"))
                after_claim, after_nothing = (
                    asking.timed("GET", paths[which]) for _ in range(2))
                if number >= 0:
                    taken[f"after_claim_ms_{which}"].append(after_claim)
                    taken[f"after_nothing_ms_{which}"].append(after_nothing)
    medians = {name: statistics.median(found) for name, found in taken.items()}
    return max(medians[f"{when}_ms_all"] / medians[f"{when}_ms_one"]
               for when in ("after_claim", "after_nothing")), medians


def _check_quota(target: client.Target, projects: Sequence[str]) -> None:
    """See that the answer about all has every project, and says what that about one says."""
    everything = {each["project_id"]: _amounts(each)
                  for each in target.must("GET", _QUOTA)["projects"]}
    one = projects[-1]
    alone = _amounts(target.must("GET", f"{_QUOTA}/{one}"))
    if set(everything) != set(projects) or everything[one] != alone or not alone:
        raise RuntimeError(
            f"quota of {len(everything)} of {len(projects)} projects; {one}: "
            f"{everything.get(one)}, alone {alone}")


def _amounts(quota: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return limit, used and free of each resource."""
    return {name: (share["limit"], share["used"], share["free"])
            for name, share in quota["resources"].items()}


def allocations(bench: Bench, rounds: int) -> Found:
    """What does not answer with more because more is allocated; the worst of the ratios."""
    sizes = {"100k": bench.holding(100_000), "1m": bench.holding(1_000_000)}
    found: dict[str, list[float]] = collections.defaultdict(list)
    with contextlib.ExitStack() as stack:
        targets = {
            size: stack.enter_context(bench.serving(
                bench.copy(dataset), size, workers=servers.WORKERS)).target
            for size, dataset in sizes.items()}
        work = rows.with_allocations(sizes["1m"])
        for name, workload in work.items():
            for target in targets.values():
                workload.prepare(target)
            for number in range(rounds):
                rates = {}
                for size in targets if number % 2 else reversed(targets):
                    measured = workload.measure(targets[size], min(_CLAIMERS), bench.turn_seconds)
                    if measured.problems:
                        raise RuntimeError(f"{name}, {size}: {measured.problems}")
                    rates[size] = measured.rate
                    found[f"{name}_per_second_{size}"].append(measured.rate)
                found[f"{name}_ratio"].append(rates["100k"] / rates["1m"])
    medians = {name: statistics.median(values) for name, values in found.items()}
    return max(medians[f"{name}_ratio"] for name in work), medians


#: By the name of the row.
MEASURES: Mapping[str, Measure] = {
    "growth-change": Measure(
        "one change and a read on another worker, 100,000 / 1,000 hosts", 2, 150, change),
    "growth-start": Measure(
        "cold start: the first candidates of a new worker, 100,000 / 10,000 hosts",
        12, 5, start),
    "growth-start-seconds": Measure(
        "cold start: the first candidates of a new worker, 100,000 hosts, seconds", 5, 5,
        start_seconds),
    "growth-start-server": Measure(
        "the same of a server of two workers, its processes included, seconds", None, 5,
        start_server),
    "growth-memory": Measure(
        "resident memory of a worker at 100,000 hosts, MiB", 350, 10, memory),
    "growth-change-work": Measure(
        "a change seen by another worker, 100,000 hosts, ms of processor", 5, 3, change_work),
    "growth-allocations": Measure(
        "requests of eight clients on 1,000 hosts, 1,000,000 / 100,000 allocations, the worst",
        2, 3, allocations),
    "growth-decision": Measure(
        "one decision on 3 resources in a tree of 5 levels, 5,000 / 50 projects",
        2, 150, decision),
    "growth-decision-limit": Measure(
        "a decision after a change of a limit, 5,000 / 50 projects", None, 50,
        decision_after_limit),
    "growth-decision-first": Measure(
        "a decision, the first of a new worker, 5,000 / 50 projects", None, 30, first_decision),
    "growth-decision-statements": Measure(
        "statements of the first decision of a new worker, 5,000 projects", 5, 3, statements),
    # Claims without groups are what they were before there were any.
    "growth-grouping-one": Measure(
        "PUT /allocations of one client, max_grouped_consumers = 1 / default", 1.05, 6,
        grouping_of_one),
    "growth-grouping-p99": Measure(
        "99th percentile of PUT /allocations of 32 clients, max_grouped_consumers = default / 1",
        1, 6, grouping_of_many),
    "growth-guard": Measure(
        "PUT /allocations, 50 trees of 3 levels, guard = off / enforce",
        {"postgresql": 1.15, "mysql": 1.4}, 5, guard),
    "growth-guard-one-tree": Measure(
        "PUT /allocations, one tree of 3 levels, guard = off / enforce", None, 5,
        guard_of_one_tree),
    "growth-audit": Measure(
        "PUT /allocations, audit = on / off, ms of processor", 1.05, 5, audit),
    "growth-metrics": Measure(
        "what metrics add to a request, microseconds of processor", 5, 5, metered.of_request),
    "growth-cells": Measure(
        "a count over 20 cells (legacy_cell), all / the slowest alone", 2, 30, count_in_cells),
    "growth-quota-all": Measure(
        "quota of 5,000 projects in one answer, all / one", 30, 30, quota_of_all),
    "room-shapes": Measure(
        "how often each of 10 shapes fits on 10,000 hosts, ms of processor", 100, 10,
        room.simple),
    "room-groups": Measure(
        "the same for shapes of two groups in one subtree, 1,000 trees of 7 providers", 100, 10,
        room.related),
    "order-placed": Measure(
        "servers placed before the first refusal, candidate_order = rotate / least_stranded",
        1 / 1.05, 1, orders.placed),
    "order-time": Measure(
        "1000 candidates among 10,000 hosts, the dearest order / rotate, ms of processor",
        1.1, 5, orders.took),
    "order-time-loop": Measure(
        "the same of a loop: 1000 candidates, a claim on one of them, its end", 1.1, 5,
        orders.took_in_loop),
    # With 1,000 hosts and 10,000 leases; ms of processor time, server and database.
    "leases-create": Measure(
        "creating an instance lease of 4 slots among 10,000 leases, ms of processor",
        40, 5, leasing.create),
    "leases-create-statements": Measure(
        "statements of creating it", 15, 3, leasing.create_statements),
    "leases-refuse": Measure(
        "refusing it for lack of room, with the time at which it fits, ms of processor",
        40, 5, leasing.refuse),
    "leases-refuse-statements": Measure(
        "statements of refusing it", 15, 3, leasing.refuse_statements),
    "leases-project": Measure(
        "GET /v1/leases of a project with 20 leases, among 10,000 / 1,000", 1.5, 9,
        leasing.of_a_project),
    # A twentieth of what the reference takes.
    "leases-all": Measure(
        "GET /v1/leases, all 10,000, in one answer or in pages, ms of processor", 250, 5,
        leasing.everything),
    "leases-timeline": Measure(
        "timeline of a year with 10,000 leases, ms of processor", 300, 5, leasing.timeline),
    "leases-next-fit": Measure(
        "next_fit for most of 1,000 hosts in that year, ms of processor", 300, 5,
        leasing.next_fit),
    "leases-many": Measure(
        "creating, refusing, next_fit, a project's leases, 100,000 / 10,000 leases, the worst",
        2, 5, leasing.many),
    "leases-starts": Measure(
        "200 leases due in one second: the last one starts so many seconds late", 2, 5,
        leasing.starts),
}


def measure(name: str, bench: Bench, at_most: int | None) -> Growth:
    """Measure a row.

    :param at_most: so many rounds; None for as many as the row wants.
    """
    row = MEASURES[name]
    value, detail = row.run(bench, min(row.rounds, at_most or row.rounds))
    return Growth(
        name, row.title, value, databases.find_bound(row.bound, bench.kind), detail)


class _Connection:
    """One kept-alive connection, on which single requests are timed."""

    def __init__(self, target: client.Target) -> None:
        self._target = target
        self._connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=120)

    def timed(self, method: str, path: str, body: object = None) -> float:
        """Send one request; return its milliseconds."""
        headers = self._target.headers()
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body)
        started = time.perf_counter()
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        received = answer.read()
        taken = (time.perf_counter() - started) * 1000
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {received[:300]!r}")
        return taken
