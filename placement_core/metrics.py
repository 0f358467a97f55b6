"""All metrics for Prometheus.

Until ``start`` nothing is counted, prometheus-client is not loaded, and each function here
returns at once. Metrics are per process, as in prometheus-client. Several processes that serve
together count into files in the folder ``PROMETHEUS_MULTIPROC_DIR``, and each of them returns
the sum of all. The number of label values from outside (such as names of cells) is bounded,
because each is a series that Prometheus stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

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

#: How many sources and cells get a series of their own; later ones are ``other``.
_MOST_NAMES = 200
_OTHER = "other"
#: Any other method is ``other``.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

#: Upper bounds in seconds: from the fastest answers to the longest that clients wait.
_REQUEST_BUCKETS = (.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
#: Up to the default of ``[cells] timeout_seconds``.
_SOURCE_BUCKETS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
#: From punctual to what waited until a manager was started again.
_LATENESS_BUCKETS = (.1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
#: Upper bounds in searches: more than one only where others claimed meanwhile.
_SEARCH_BUCKETS = (1, 2, 3, 4, 8)
#: Upper bounds in writes.
_GROUP_BUCKETS = (2, 4, 8, 16, 32, 64, 128)

#: From a COMMIT without a disk to the default of ``lock_timeout``.
_DATABASE_BUCKETS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
#: From the shortest time that is called waiting on.
_LOCK_WAIT_BUCKETS = (.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
#: A round trip that writes takes less if it waits for no lock.
_SHORTEST_LOCK_WAIT_SECONDS = .005

_Metric = TypeVar("_Metric", bound="MetricWrapperBase")


class _Series(dict[tuple[str, ...], _Metric]):
    """The series of a metric, by the values of its labels.

    A cache, because the library's own lookup takes as long as counting.
    """

    def __init__(self, metric: _Metric) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, values: tuple[str, ...]) -> _Metric:
        series = self[values] = self._metric.labels(*values)
        return series


class _Metrics:
    """All metrics of the process."""

    def __init__(self) -> None:
        # Imported here, because it reads the folder from the environment on import.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

        self.registry = registry = CollectorRegistry()
        self._names: set[str] = set()
        self.requests = _Series(Histogram(
            "placement_core_http_request_seconds",
            "How long answers took, by API, method and class of status.",
            ("api", "method", "status"), registry=registry, buckets=_REQUEST_BUCKETS))
        self.operations = _Series(Summary(
            "placement_core_http_operation_seconds",
            "How long answers took, by API, operation (method and path template; none: the "
            "request was refused before it met one) and class of status.",
            ("api", "operation", "status"), registry=registry))
        self.refusals = _Series(Counter(
            "placement_core_http_refusals_total",
            "Answers that are errors, by the error's code and the status.",
            ("code", "status"), registry=registry))
        self.commits = Histogram(
            "placement_core_database_commit_seconds", "How long COMMIT took.",
            registry=registry, buckets=_DATABASE_BUCKETS)
        self.lock_waits = Histogram(
            "placement_core_database_lock_wait_seconds",
            "How long writing transactions waited for locks: the slowest round trip that wrote "
            "something, or SQLite's BEGIN, if it took 5 ms or more.", registry=registry,
            buckets=_LOCK_WAIT_BUCKETS)
        self.retries = _Series(Counter(
            "placement_core_database_retries_total",
            "Transactions that were repeated, by cause: deadlock, changed_rows, connection.",
            ("cause",), registry=registry))
        self.counts = _Series(Counter(
            "placement_core_usage_counts_total",
            "How often usage was counted: what was asked, by whom it was counted, and whether "
            "that was complete, lacked cells (partial), or failed.",
            ("source", "question", "outcome"), registry=registry))
        self.sources = _Series(Histogram(
            "placement_core_usage_source_seconds",
            "How long each source of a count took: api_database, placement, or a cell's name.",
            ("source",), registry=registry, buckets=_SOURCE_BUCKETS))
        self.missing_cells = _Series(Counter(
            "placement_core_missing_cells_total",
            "Counts that lacked a cell, by the cell's name.", ("cell",), registry=registry))
        self.decisions = _Series(Counter(
            "placement_core_guard_decisions_total",
            "What the quota guard decided; a write that is tried again is decided again.",
            ("mode", "outcome"), registry=registry))
        self.claims = _Series(Counter(
            "placement_core_claims_total",
            "What became of claims: taken (for good at once), held, confirmed, expired, "
            "released.", ("event",), registry=registry))
        self.gangs = _Series(Histogram(
            "placement_core_gang_searches",
            "How often room was searched for, for each gang: claimed, no_room, over_limit, or "
            "failed for another reason.", ("outcome",), registry=registry,
            buckets=_SEARCH_BUCKETS))
        self.write_groups = Histogram(
            "placement_core_write_group_size",
            "How many writes of allocations shared a transaction; those that had one of their "
            "own are not counted.", registry=registry, buckets=_GROUP_BUCKETS)
        self.ungrouped_writes = Counter(
            "placement_core_write_group_members_taken_out_total",
            "Writes of allocations that were refused in a group, or attempted again alone.",
            registry=registry)
        self.lease_events = _Series(Counter(
            "placement_core_lease_events_total",
            "What became of events of leases: done, failed (to be tried again), given up.",
            ("event", "outcome"), registry=registry))
        self.lateness = _Series(Histogram(
            "placement_core_lease_event_lateness_seconds",
            "How long after their time events of leases were done.", ("event",),
            registry=registry, buckets=_LATENESS_BUCKETS))
        self.removed_rows = _Series(Counter(
            "placement_core_removed_rows_total",
            "Rows that were removed because they are old, or not used any more, by table; of "
            "usage_counters sums of several rows, of leases with all that belongs to them.",
            ("table",), registry=registry))

        # The newest value counts: a manager that was started again has a process id of its own.
        self.room = _Series(Gauge(
            "placement_core_room",
            "How much there is of each resource class: total, reserved, capacity, used, held, "
            "promised, free, largest.", ("resource_class", "state"), registry=registry,
            multiprocess_mode="mostrecent"))

    def get_label(self, name: str) -> str:
        """Return a name as a label value, or ``other`` once there are too many."""
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                return _OTHER
            self._names.add(name)
        return name


#: A global, because prometheus-client counts per process; None until ``start``.
_metrics: _Metrics | None = None


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
    # Imported here, as in ``_Metrics``. A series for the time at which another one was created
    # would double most of them.
    from prometheus_client import disable_created_metrics

    disable_created_metrics()
    _metrics = _Metrics()


def is_started() -> bool:
    """Say whether this process counts."""
    return _metrics is not None


def make_page() -> WSGIApplication:
    """Return the application that Prometheus scrapes."""
    from prometheus_client import CollectorRegistry, make_wsgi_app, multiprocess

    assert _metrics is not None  # ``start`` was called before
    if os.environ.get(FOLDER_VARIABLE) is None:
        return _require_one_process(make_wsgi_app(_metrics.registry))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return make_wsgi_app(registry)


def _require_one_process(app: WSGIApplication) -> WSGIApplication:
    """Answer 503 if several processes serve, because the numbers would be those of one only."""
    refusal = (f"Several processes serve here, and {FOLDER_VARIABLE} does not name a folder "
               "that they count into together.\n").encode()

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not environ.get("wsgi.multiprocess"):
            return app(environ, start_response)
        start_response("503 Service Unavailable", [
            ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(refusal)))])
        return [refusal]

    return answer


def count_request(
    operation: tuple[str, str], method: str, status: str, seconds: float
) -> None:
    """Count a request.

    :param operation: (name of the API, name of the operation).
    :param status: three digits and the reason.
    """
    if _metrics is not None:
        api, name = operation
        status_class = f"{status[0]}xx"
        _metrics.requests[
            api, method if method in _METHODS else _OTHER, status_class].observe(seconds)
        _metrics.operations[api, name, status_class].observe(seconds)


def count_refusal(code: str, status: str) -> None:
    """Count an answer that is an error.

    :param code: of an ``errors.Error``.
    :param status: three digits.
    """
    if _metrics is not None:
        _metrics.refusals[code, status].inc()


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
        _metrics.missing_cells[_metrics.get_label(cell),].inc()
    for name, duration in seconds.items():
        _metrics.sources[_metrics.get_label(name),].observe(duration)
    _metrics.counts[source, question, outcome].inc()


def count_failed_counting(source: str, question: str) -> None:
    """Count a count of usage that failed."""
    if _metrics is not None:
        _metrics.counts[source, question, "failed"].inc()


def count_decision(mode: GuardMode, outcome: GuardOutcome) -> None:
    """Count a decision of the quota guard."""
    if _metrics is not None:
        _metrics.decisions[mode, outcome].inc()


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
        for labels in _metrics.room.keys() | amounts.keys():
            _metrics.room[labels].set(amounts.get(labels, 0))


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
