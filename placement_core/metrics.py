"""All metrics for Prometheus.

Until ``start`` nothing is counted, prometheus-client is not loaded, and each function here
returns at once. Metrics are per process, as in prometheus-client. Several processes that serve
together count into files in the folder ``PROMETHEUS_MULTIPROC_DIR``, and each of them returns
the sum of all. The number of label values from outside (such as names of cells) is bounded,
because each is a series that Prometheus stores: 2,000 in a cloud of 10,000 hosts.

Who scrapes gets three kinds of numbers: what processes counted; what each worker notes about
itself, and a manager about the cloud; and the service's state, which the worker that is scraped
reads from the database (``State``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.metrics import MetricWrapperBase
    from prometheus_client.registry import Collector

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

#: How many sources and cells get a series of their own; later ones are ``other``.
_MOST_NAMES = 200
_OTHER = "other"
#: How many resource classes of ``room`` have series, and how many resources of quota; the others
#: are left out.
_MOST_CLASSES = 60
_MOST_RESOURCES = 60
#: How many usual requests have series, the first ones; of what is stranded, how many resource
#: classes, and causes of each. Further causes are ``other``, the rest is left out.
_MOST_SHAPES = 20
_MOST_STRANDED_CLASSES = 10
_MOST_CAUSES = 5

#: The histogram has no sum of its own: it is that of the operations (``histograms``).
_REQUEST_SECONDS = "placement_core_http_request_seconds"
_OPERATION_SECONDS = "placement_core_http_operation_seconds"
#: Upper bounds in seconds: from the fastest answers to the longest that clients wait.
_REQUEST_BUCKETS = (.0005, .0025, .005, .01, .025, .1, .25, 1, 5, 30)
#: Up to twice the default of ``[api] max_wait_seconds``.
_WAIT_BUCKETS = (.005, .025, .1, .25, .5, 1, 2.5, 5, 10)
#: Up to the default of ``[cells] timeout_seconds``.
_SOURCE_BUCKETS = (.005, .025, .1, .5, 1, 5, 60)
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

#: From some changed providers to the first load of a large cloud.
_INDEX_BUCKETS = (.001, .0025, .005, .01, .05, .1, .5, 1, 5, 30)

#: The service's state, as a worker reads it: {metric (see ``STATE``): {values of its labels:
#: number}}. Metrics that are not known are left out.
State: TypeAlias = Mapping[str, Mapping[tuple[str, ...], float]]

#: {metric: (what it is, its labels)}.
STATE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "database_answers": (
        "1: the state, which the worker that is scraped reads from the database, is of the last "
        "minute. 0: it is not known, and left out.", ()),
    "index_age_seconds": (
        "For how long attempts to refresh the capacity index of the worker that is scraped have "
        "failed; 0: it is current.", ()),
    "index_providers": ("How many resource providers its capacity index has.", ()),
    "leases": ("How many leases there are, by status; deleted ones are not counted.",
               ("status",)),
    "lease_events_due": ("How many events of leases are due, and not done.", ()),
    "lease_event_longest_due_seconds": (
        "For how long the oldest event of a lease has been due that is not done; 0: none is.",
        ()),
    "lease_events_given_up": ("How many events of leases failed, and are not tried again.", ()),
    "outbox_calls": ("How many calls to the compute service wait or are being made.", ()),
    "outbox_oldest_call_seconds": ("The age of the oldest of them; 0: there is none.", ()),
    "managers": ("How many managers have told within a minute that they live.", ()),
    "manager_heartbeat_age_seconds": (
        "How long ago the last manager told that it lives.", ()),
}

_Metric = TypeVar("_Metric", bound="MetricWrapperBase")


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaFill:
    """How full the quota of a resource is.

    :ivar fullest: the largest share that a project uses; 1.0 is all.
    :ivar over: {percentage: how many projects use as much or more}.
    """

    fullest: float
    over: Mapping[int, int]


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
        from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

        from placement_core.histograms import SumlessHistogram

        self.registry = registry = CollectorRegistry()
        self._names: set[str] = set()
        self.requests = _Series(SumlessHistogram(
            _REQUEST_SECONDS,
            "How long answers took, by API and class of status.",
            ("api", "status"), registry=registry, buckets=_REQUEST_BUCKETS))
        self.operations = _Series(Summary(
            _OPERATION_SECONDS,
            "How long answers took, by API, operation (method and path template; none: the "
            "request was refused before it met one) and class of status.",
            ("api", "operation", "status"), registry=registry))
        self.refusals = _Series(Counter(
            "placement_core_http_refusals_total",
            "Answers that are errors, by the error's code and the status.",
            ("code", "status"), registry=registry))
        self.request_waits = Histogram(
            "placement_core_http_wait_seconds",
            "How long requests waited before they were worked on or refused, if they waited.",
            registry=registry, buckets=_WAIT_BUCKETS)
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
        self.webhook_deliveries = _Series(Counter(
            "placement_core_webhook_deliveries_total",
            "Attempts to send reports of thresholds to webhooks: done, failed (it is sent again), "
            "given_up.", ("outcome",), registry=registry))

        self.index_refreshes = _Series(Histogram(
            "placement_core_index_refresh_seconds",
            "How long refreshes of an index took, by index (capacity, bookings, usage) and kind "
            "(load: of everything, update: of what had changed).", ("index", "kind"),
            registry=registry, buckets=_INDEX_BUCKETS))
        self.failed_index_refreshes = _Series(Counter(
            "placement_core_index_refresh_failures_total", "Refreshes of an index that failed.",
            ("index",), registry=registry))
        self._add_gauges()

    def _add_gauges(self) -> None:
        from prometheus_client import Gauge

        registry = self.registry
        self.in_flight = Gauge(
            "placement_core_http_requests_in_flight",
            "How many requests the workers are working on.", registry=registry,
            multiprocess_mode="livesum")
        self.waiting = Gauge(
            "placement_core_http_requests_waiting",
            "How many requests wait until the workers work on them.", registry=registry,
            multiprocess_mode="livesum")
        self.most_requests = Gauge(
            "placement_core_http_requests_limit",
            "How many they work on at a time; 0: as many as the server passes on.",
            registry=registry, multiprocess_mode="livesum")
        self.connections = _Series(Gauge(
            "placement_core_database_connections",
            "Connections of the workers to the database, by pool and state: in_use, idle, and "
            "the limit of both.", ("pool", "state"), registry=registry,
            multiprocess_mode="livesum"))
        self.threads = Gauge(
            "placement_core_threads", "How many Python threads the workers have.",
            registry=registry, multiprocess_mode="livesum")
        # Those of a manager that is gone are not true any more. The newest value counts while two
        # of them live.
        self.room = _Series(Gauge(
            "placement_core_room",
            "How much there is of each resource class: total, reserved, capacity, used, held, "
            "promised, free, largest.", ("resource_class", "state"), registry=registry,
            multiprocess_mode="livemostrecent"))
        self.room_set_at = Gauge(
            "placement_core_room_timestamp_seconds", "When a manager computed that, in Unix time.",
            registry=registry, multiprocess_mode="livemostrecent")
        self.shape_fits = _Series(Gauge(
            "placement_core_shape_fits",
            "How many more of a usual request fit, or how many at least.", ("shape",),
            registry=registry, multiprocess_mode="livemostrecent"))
        self.stranded = _Series(Gauge(
            "placement_core_stranded",
            "How much of what is free of a resource class no usual request can use, by the class "
            "that is exhausted.", ("resource_class", "cause"), registry=registry,
            multiprocess_mode="livemostrecent"))
        self.stranded_set_at = Gauge(
            "placement_core_stranded_timestamp_seconds",
            "When a manager computed both, in Unix time.", registry=registry,
            multiprocess_mode="livemostrecent")
        self.fullest_quotas = _Series(Gauge(
            "placement_core_quota_fullest_ratio",
            "The largest share that a project uses of what it may use of a resource; 1 is all.",
            ("resource",), registry=registry, multiprocess_mode="livemostrecent"))
        self.full_quotas = _Series(Gauge(
            "placement_core_quota_projects_over",
            "How many projects use 80, 95, 100 percent or more of what they may use.",
            ("resource", "percent"), registry=registry, multiprocess_mode="livemostrecent"))
        self.quotas_set_at = Gauge(
            "placement_core_quota_timestamp_seconds",
            "When a manager computed how full quotas are, in Unix time.",
            registry=registry, multiprocess_mode="livemostrecent")
        self.audit_findings = Gauge(
            "placement_core_audit_findings",
            "How many stored sums were wrong when a manager audited them last, and how many "
            "providers its own capacity index lacked a change of.", registry=registry,
            multiprocess_mode="livemostrecent")
        self.audited_at = Gauge(
            "placement_core_audit_timestamp_seconds", "When that was, in Unix time.",
            registry=registry, multiprocess_mode="livemostrecent")

    def get_label(self, name: str) -> str:
        """Return a name as a label value, or ``other`` once there are too many."""
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                return _OTHER
            self._names.add(name)
        return name


class _StateCollector:
    """Hands prometheus-client the service's state."""

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the state that are known."""
        from prometheus_client.core import GaugeMetricFamily

        state = self._read()
        for name, (what, labels) in STATE.items():
            if name in state:
                family = GaugeMetricFamily(f"placement_core_{name}", what, labels=labels)
                for values, number in state[name].items():
                    family.add_metric(values, number)
                yield family


class _RequestSums:
    """Hands prometheus-client what another collector has, with the sums of requests."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterable[Metric]:
        """Return all metrics."""
        from placement_core.histograms import fill_sums

        return fill_sums(self._collector.collect(), _REQUEST_SECONDS, _OPERATION_SECONDS)


class _ProcessCollector:
    """Hands prometheus-client what all processes have counted into a folder."""

    def __init__(self, folder: str) -> None:
        from prometheus_client import CollectorRegistry, multiprocess

        self._folder = folder
        self._collector = multiprocess.MultiProcessCollector(  # type: ignore[no-untyped-call]
            CollectorRegistry(), folder)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics; the gauges of processes that live only."""
        for path in glob.glob(os.path.join(glob.escape(self._folder), "gauge_live*_*.db")):
            pid = int(path.removesuffix(".db").rpartition("_")[2])
            if not _is_alive(pid):
                # Another scrape may be faster.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
        collected: Iterable[Metric] = self._collector.collect()  # type: ignore[no-untyped-call]
        return collected


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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

    disable_created_metrics()  # type: ignore[no-untyped-call]
    _metrics = _Metrics()


def is_started() -> bool:
    """Say whether this process counts."""
    return _metrics is not None


def get_present() -> object:
    """Return what this process counts into, for a thread that ends when it counts anew."""
    return _metrics


def make_page(read_state: Callable[[], State] = dict) -> WSGIApplication:
    """Return the application that Prometheus scrapes.

    :param read_state: returns the service's state within some seconds.
    """
    from prometheus_client import CollectorRegistry, make_wsgi_app

    assert _metrics is not None  # ``start`` was called before
    registry = CollectorRegistry()
    registry.register(_StateCollector(read_state))
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        registry.register(_RequestSums(_ProcessCollector(folder)))
        return make_wsgi_app(registry)
    registry.register(_RequestSums(_metrics.registry))
    return _require_one_process(make_wsgi_app(registry))


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
        _metrics.missing_cells[_metrics.get_label(cell),].inc()
    for name, duration in seconds.items():
        _metrics.sources[_metrics.get_label(name),].observe(duration)
    _metrics.counts[source, question, outcome].inc()


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
