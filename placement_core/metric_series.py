"""The series that a process counts into, with what they are, their labels and their buckets.

It loads prometheus-client, which reads the folder of several processes from the environment then:
``metrics`` imports it only where something is counted.
"""

from __future__ import annotations

from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.metrics import MetricWrapperBase

from placement_core.histograms import SumlessHistogram

#: The histogram has no sum of its own: it is that of the operations (``histograms``).
REQUEST_SECONDS = "placement_core_http_request_seconds"
OPERATION_SECONDS = "placement_core_http_operation_seconds"
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

#: From some changed providers to the first load of a large cloud.
_INDEX_BUCKETS = (.001, .0025, .005, .01, .05, .1, .5, 1, 5, 30)

_Metric = TypeVar("_Metric", bound=MetricWrapperBase)


class Series(dict[tuple[str, ...], _Metric]):
    """The series of a metric, by the values of its labels.

    A cache, because the library's own lookup takes as long as counting.
    """

    def __init__(self, metric: _Metric) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, values: tuple[str, ...]) -> _Metric:
        series = self[values] = self._metric.labels(*values)
        return series


class Metrics:
    """All metrics of the process.

    :ivar names: of sources and cells that have series of their own.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.names: set[str] = set()
        self.requests = Series(SumlessHistogram(
            REQUEST_SECONDS,
            "How long answers took, by API and class of status.",
            ("api", "status"), registry=registry, buckets=_REQUEST_BUCKETS))
        self.operations = Series(Summary(
            OPERATION_SECONDS,
            "How long answers took, by API, operation (method and path template; none: the "
            "request was refused before it met one) and class of status.",
            ("api", "operation", "status"), registry=registry))
        self.refusals = Series(Counter(
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
        self.retries = Series(Counter(
            "placement_core_database_retries_total",
            "Transactions that were repeated, by cause: deadlock, changed_rows, connection.",
            ("cause",), registry=registry))
        self.counts = Series(Counter(
            "placement_core_usage_counts_total",
            "How often usage was counted: what was asked, by whom it was counted, and whether "
            "that was complete, lacked cells (partial), or failed.",
            ("source", "question", "outcome"), registry=registry))
        self.sources = Series(Histogram(
            "placement_core_usage_source_seconds",
            "How long each source of a count took: api_database, placement, or a cell's name.",
            ("source",), registry=registry, buckets=_SOURCE_BUCKETS))
        self.missing_cells = Series(Counter(
            "placement_core_missing_cells_total",
            "Counts that lacked a cell, by the cell's name.", ("cell",), registry=registry))
        self.decisions = Series(Counter(
            "placement_core_guard_decisions_total",
            "What the quota guard decided; a write that is tried again is decided again.",
            ("mode", "outcome"), registry=registry))
        self.claims = Series(Counter(
            "placement_core_claims_total",
            "What became of claims: taken (for good at once), held, confirmed, expired, "
            "released.", ("event",), registry=registry))
        self.gangs = Series(Histogram(
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
        self.lease_events = Series(Counter(
            "placement_core_lease_events_total",
            "What became of events of leases: done, failed (to be tried again), given up.",
            ("event", "outcome"), registry=registry))
        self.lateness = Series(Histogram(
            "placement_core_lease_event_lateness_seconds",
            "How long after their time events of leases were done.", ("event",),
            registry=registry, buckets=_LATENESS_BUCKETS))
        self.removed_rows = Series(Counter(
            "placement_core_removed_rows_total",
            "Rows that were removed because they are old, or not used any more, by table; of "
            "usage_counters sums of several rows, of leases with all that belongs to them.",
            ("table",), registry=registry))
        self.webhook_deliveries = Series(Counter(
            "placement_core_webhook_deliveries_total",
            "Attempts to send reports of thresholds to webhooks: done, failed (it is sent again), "
            "given_up.", ("outcome",), registry=registry))

        self.index_refreshes = Series(Histogram(
            "placement_core_index_refresh_seconds",
            "How long refreshes of an index took, by index (capacity, bookings, usage) and kind "
            "(load: of everything, update: of what had changed).", ("index", "kind"),
            registry=registry, buckets=_INDEX_BUCKETS))
        self.failed_index_refreshes = Series(Counter(
            "placement_core_index_refresh_failures_total", "Refreshes of an index that failed.",
            ("index",), registry=registry))
        self._add_gauges()

    def _add_gauges(self) -> None:
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
        self.connections = Series(Gauge(
            "placement_core_database_connections",
            "Connections of the workers to the database, by pool and state: in_use, idle, and "
            "the limit of both.", ("pool", "state"), registry=registry,
            multiprocess_mode="livesum"))
        self.threads = Gauge(
            "placement_core_threads", "How many Python threads the workers have.",
            registry=registry, multiprocess_mode="livesum")
        # Those of a manager that is gone are not true any more. The newest value counts while two
        # of them live.
        self.room = Series(Gauge(
            "placement_core_room",
            "How much there is of each resource class: total, reserved, capacity, used, held, "
            "promised, free, largest.", ("resource_class", "state"), registry=registry,
            multiprocess_mode="livemostrecent"))
        self.room_set_at = Gauge(
            "placement_core_room_timestamp_seconds", "When a manager computed that, in Unix time.",
            registry=registry, multiprocess_mode="livemostrecent")
        self.shape_fits = Series(Gauge(
            "placement_core_shape_fits",
            "How many more of a usual request fit, or how many at least.", ("shape",),
            registry=registry, multiprocess_mode="livemostrecent"))
        self.stranded = Series(Gauge(
            "placement_core_stranded",
            "How much of what is free of a resource class no usual request can use, by the class "
            "that is exhausted.", ("resource_class", "cause"), registry=registry,
            multiprocess_mode="livemostrecent"))
        self.stranded_set_at = Gauge(
            "placement_core_stranded_timestamp_seconds",
            "When a manager computed both, in Unix time.", registry=registry,
            multiprocess_mode="livemostrecent")
        self.fullest_quotas = Series(Gauge(
            "placement_core_quota_fullest_ratio",
            "The largest share that a project uses of what it may use of a resource; 1 is all.",
            ("resource",), registry=registry, multiprocess_mode="livemostrecent"))
        self.full_quotas = Series(Gauge(
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
