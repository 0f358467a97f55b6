"""What is counted for Prometheus: a function for each thing.

Until ``start`` nothing is counted, prometheus-client is not loaded, and each function here
returns at once. Metrics are per process, as in prometheus-client. Several processes that serve
together count into files in the folder ``PROMETHEUS_MULTIPROC_DIR``, and each of them returns
the sum of all. The number of label values from outside (such as names of cells) is bounded,
because each is a series that Prometheus stores: 2,000 in a cloud of 10,000 hosts.

Who scrapes gets three kinds of numbers: what processes counted; what each worker notes about
itself, and a manager about the cloud; and the service's state, which the worker that is scraped
reads from the database (``monitoring/state.py``). ``monitoring/page.py`` shows all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from placement_core import errors

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placement_core.metric_series import Metrics

#: The environment variable of the folder that several processes count into, as
#: prometheus-client names it.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

GuardMode = Literal["audit", "enforce"]
GuardOutcome = Literal["allowed", "refused", "would_be_refused", "unknown"]
#: ``taken``: permanent from the start.
GangOutcome = Literal["claimed", "no_room", "over_limit", "failed"]
ClaimEvent = Literal["taken", "held", "confirmed", "expired", "released"]
#: ``failed``: it is retried; ``given_up``: it is not.
LeaseEventFailure = Literal["failed", "given_up"]
#: ``deadlock``: the database rolled the transaction back, for that or to keep the order of
#: transactions; ``changed_rows``: we did, because another one had changed what it read.
RetryCause = Literal["deadlock", "changed_rows", "connection"]
IndexRefresh = Literal["load", "update"]

#: How many resource classes of ``room`` have series, and how many resources of quota; the others
#: are left out.
_MOST_CLASSES = 60
_MOST_RESOURCES = 60
#: How many usual requests have series, the first ones; of what is stranded, how many resource
#: classes, and causes of each. Further causes are ``other``, the rest is left out.
_MOST_SHAPES = 20
_MOST_STRANDED_CLASSES = 10
_MOST_CAUSES = 5
#: How many sources and cells get a series of their own; later ones are ``other``.
_MOST_NAMES = 200
_OTHER = "other"

#: A round trip that writes takes less if it waits for no lock.
_SHORTEST_LOCK_WAIT_SECONDS = .005


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaFill:
    """How full the quota of a resource is.

    :ivar fullest: the largest share that a project uses; 1.0 is all.
    :ivar over: {percentage: how many projects use as much or more}.
    """

    fullest: float
    over: Mapping[int, int]


#: A global, because prometheus-client counts per process; None until ``start``.
_metrics: Metrics | None = None


def start() -> None:
    """Start to count in this process.

    :raises errors.ConfigurationError: the folder to count into cannot be used.
    """
    global _metrics
    if _metrics is not None:
        return
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise errors.ConfigurationError(
            f"{FOLDER_VARIABLE} = {folder}: expected a folder that can be written to, because "
            "[metrics] enabled = true")
    # Imported here, because it reads the folder from the environment on import.
    from prometheus_client import disable_created_metrics

    from placement_core.metric_series import Metrics

    # A series for the time at which another one was created would double most of them.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    _metrics = Metrics()


def is_started() -> bool:
    """Say whether this process counts."""
    return _metrics is not None


def get_registry() -> CollectorRegistry:
    """Return what this process has counted; ``start`` was called."""
    assert _metrics is not None
    return _metrics.registry


def get_present() -> object:
    """Return what this process counts into, for a thread that ends when it counts anew."""
    return _metrics


def count_request(operation: tuple[str, str], status: str, seconds: float) -> None:
    """Count a request.

    :param operation: (name of the API, name of the operation).
    :param status: three digits and the reason.
    """
    if _metrics is not None:
        api, name = operation
        status_class = f"{status[0]}xx"
        _metrics.requests[api, status_class].observe(seconds)
        _metrics.operations[api, name, status_class].observe(seconds)


def count_refusal(code: str, status: str) -> None:
    """Count an answer that is an error.

    :param code: of an ``errors.Error``.
    :param status: three digits.
    """
    if _metrics is not None:
        _metrics.refusals[code, status].inc()


def observe_request_wait(seconds: float) -> None:
    """Observe how long a request waited for others."""
    if _metrics is not None:
        _metrics.request_waits.observe(seconds)


def observe_commit(seconds: float) -> None:
    """Observe a COMMIT."""
    if _metrics is not None:
        _metrics.commits.observe(seconds)


def observe_lock_wait(seconds: float) -> None:
    """Observe how long a transaction waited for the locks of others, if it did.

    :param seconds: of its slowest round trip that may have waited.
    """
    if _metrics is not None and seconds >= _SHORTEST_LOCK_WAIT_SECONDS:
        _metrics.lock_waits.observe(seconds)


def count_retry(cause: RetryCause) -> None:
    """Count a transaction that is repeated."""
    if _metrics is not None:
        _metrics.retries[cause,].inc()


def count_counting(
    source: str, question: str, missing_cells: Iterable[str], seconds: Mapping[str, float]
) -> None:
    """Count a successful count of usage.

    :param source: the name of the counting driver.
    :param missing_cells: the names of cells that did not answer.
    :param seconds: {source: how long it took}.
    """
    if _metrics is None:
        return
    outcome = "complete"
    for cell in missing_cells:
        outcome = "partial"
        _metrics.missing_cells[_get_label(_metrics.names, cell),].inc()
    for name, duration in seconds.items():
        _metrics.sources[_get_label(_metrics.names, name),].observe(duration)
    _metrics.counts[source, question, outcome].inc()


def _get_label(names: set[str], name: str) -> str:
    """Return a name as a label value, or ``other`` once there are too many.

    :param names: those that have series; a new one joins them.
    """
    if name not in names:
        if len(names) >= _MOST_NAMES:
            return _OTHER
        names.add(name)
    return name


def count_failed_counting(source: str, question: str) -> None:
    """Count a count of usage that failed."""
    if _metrics is not None:
        _metrics.counts[source, question, "failed"].inc()


def count_decision(mode: GuardMode, outcome: GuardOutcome, times: int = 1) -> None:
    """Count a decision of the quota guard, or several that are alike."""
    if _metrics is not None:
        _metrics.decisions[mode, outcome].inc(times)


def observe_write_group(size: int, taken_out: int) -> None:
    """Observe a group of writes of allocations.

    :param taken_out: how many of them were not applied in it.
    """
    if _metrics is not None:
        _metrics.write_groups.observe(size)
        _metrics.ungrouped_writes.inc(taken_out)


def set_room(amounts: Mapping[tuple[str, ...], int]) -> None:
    """Set how much room there is, {(resource class, state): amount}; what is left out is 0."""
    if _metrics is not None:
        chosen = _choose(
            (name for name, _ in amounts), {name for name, _ in _metrics.room}, _MOST_CLASSES)
        for labels in _metrics.room.keys() | {
                labels for labels in amounts if labels[0] in chosen}:
            _metrics.room[labels].set(amounts.get(labels, 0))
        _metrics.room_set_at.set(time.time())


def set_stranded(
    fits: Mapping[str, int], stranded: Mapping[str, Mapping[str, int]]
) -> None:
    """Set how often usual requests fit, and what none of them can use.

    :param fits: by request, always the same ones in a process.
    :param stranded: {resource class: {cause: amount}}, the causes that matter most first; what is
        left out is 0. The class itself is always a cause.
    """
    if _metrics is None:
        return
    for shape, number in itertools.islice(fits.items(), _MOST_SHAPES):
        _metrics.shape_fits[shape,].set(number)
    amounts = _merge_causes(stranded, _metrics.stranded.keys())
    for labels in _metrics.stranded.keys() | amounts.keys():
        _metrics.stranded[labels].set(amounts.get(labels, 0))
    _metrics.stranded_set_at.set(time.time())


def _merge_causes(
    stranded: Mapping[str, Mapping[str, int]], shown: Collection[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """Return what gets series, {(resource class, cause): amount}.

    :param shown: what has some. It keeps them.
    """
    classes = _choose(stranded, {name for name, _ in shown}, _MOST_STRANDED_CLASSES)
    amounts: dict[tuple[str, ...], int] = {}
    for name in classes & stranded.keys():
        causes = {name, *(cause for of_class, cause in shown if of_class == name)} - {_OTHER}
        amounts[name, name] = 0
        for cause, amount in stranded[name].items():
            if len(causes) < _MOST_CAUSES:
                causes.add(cause)
            labels = name, cause if cause in causes else _OTHER
            amounts[labels] = amounts.get(labels, 0) + amount
    return amounts


def _choose(names: Iterable[str], shown: Collection[str], most: int) -> set[str]:
    """Return the names that get series: those that have some, then standard ones, then custom."""
    new = sorted(set(names) - set(shown), key=lambda name: ("CUSTOM_" in name, name))
    return {*shown, *new[:max(0, most - len(shown))]}


def set_quota(fills: Mapping[str, QuotaFill]) -> None:
    """Set how full quotas are, by resource; what is left out is 0."""
    if _metrics is None:
        return
    shown = {name for name, in _metrics.fullest_quotas}
    chosen = _choose(fills, shown, _MOST_RESOURCES)
    for name in shown | (chosen & fills.keys()):
        fill = fills.get(name)
        _metrics.fullest_quotas[name,].set(0.0 if fill is None else fill.fullest)
    over: dict[tuple[str, ...], int] = {
        (name, str(percentage)): count for name in chosen & fills.keys()
        for percentage, count in fills[name].over.items()}
    for labels in _metrics.full_quotas.keys() | over.keys():
        _metrics.full_quotas[labels].set(over.get(labels, 0))
    _metrics.quotas_set_at.set(time.time())


def set_process(
    *, in_flight: int, waiting: int, most_requests: int,
    connections: Mapping[tuple[str, str], int], threads: int,
) -> None:
    """Set what this process has in use.

    :param connections: to the database, {(pool, state): how many}.
    """
    if _metrics is not None:
        _metrics.in_flight.set(in_flight)
        _metrics.waiting.set(waiting)
        _metrics.most_requests.set(most_requests)
        for labels, number in connections.items():
            _metrics.connections[labels].set(number)
        _metrics.threads.set(threads)


def set_audit(findings: int) -> None:
    """Set what an audit found that ended now."""
    if _metrics is not None:
        _metrics.audit_findings.set(findings)
        _metrics.audited_at.set(time.time())


def observe_index_refresh(index: str, kind: IndexRefresh, seconds: float) -> None:
    """Observe a refresh of an index."""
    if _metrics is not None:
        _metrics.index_refreshes[index, kind].observe(seconds)


def count_failed_index_refresh(index: str) -> None:
    """Count a refresh of an index that failed."""
    if _metrics is not None:
        _metrics.failed_index_refreshes[index,].inc()


def count_claim(event: ClaimEvent) -> None:
    """Count an event of a claim."""
    if _metrics is not None:
        _metrics.claims[event,].inc()


def observe_gang(outcome: GangOutcome, searches: int) -> None:
    """Observe how a claim of a gang ended, after how many searches for room."""
    if _metrics is not None:
        _metrics.gangs[outcome,].observe(searches)


def count_lease_event(event_type: str, late_seconds: float) -> None:
    """Count an executed event of a lease, and observe its lateness."""
    if _metrics is not None:
        _metrics.lease_events[event_type, "done"].inc()
        _metrics.lateness[event_type,].observe(late_seconds)


def count_failed_lease_event(event_type: str, outcome: LeaseEventFailure) -> None:
    """Count an event of a lease that failed."""
    if _metrics is not None:
        _metrics.lease_events[event_type, outcome].inc()


def count_removed_rows(table: str, rows: int) -> None:
    """Count rows that were removed because they are old, or not used any more.

    :param table: its name, one of the service's own.
    """
    if _metrics is not None and rows:
        _metrics.removed_rows[table,].inc(rows)


def count_webhook_delivery(outcome: str) -> None:
    """Count an attempt to send a report: ``done``, ``failed`` or ``given_up``."""
    if _metrics is not None:
        _metrics.webhook_deliveries[outcome,].inc()
