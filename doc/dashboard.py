"""Makes the dashboard for Grafana, ``etc/monitoring/placement-core.dashboard.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

_COLUMNS = 24
_HEIGHT = 8
#: How old what managers compute may be, as the alerts have it.
_LATELY_SECONDS = {"room": 600, "stranded": 600, "quota": 900, "audit": 10_800}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """A graph.

    :ivar queries: (legend, PromQL); ``$J`` is the chosen service.
    :ivar unit: as Grafana names it.
    """

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]


def _quantile(quantile: float, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return (f"histogram_quantile({quantile}, sum by ({labels}) "
            f"(rate(placement_core_{metric}_bucket{{$J}}[$__rate_interval])))")


def _rate(metric: str, by: str, conditions: str = "") -> str:
    return f"sum by ({by}) (rate(placement_core_{metric}{{$J{conditions}}}[$__rate_interval]))"


def _most(metric: str, by: str = "job", conditions: str = "") -> str:
    return f"max by ({by}) (placement_core_{metric}{{$J{conditions}}})"


def _computed(metric: str, by: str, conditions: str = "", of: str = "") -> str:
    """Return the most of what managers have computed lately: one without a database cannot.

    :param of: which timestamp is the metric's; the first word of its name by default.
    """
    of = of or metric.partition("_")[0]
    return (f"max by ({by}) (placement_core_{metric}{{$J{conditions}}} and on (job, instance) "
            f"time() - placement_core_{of}_timestamp_seconds{{$J}} < {_LATELY_SECONDS[of]})")


_ROWS: dict[str, Sequence[Panel]] = {
    "Requests": (
        Panel("Requests by API", "reqps", [
            ("{{api}} {{status}}", _rate("http_request_seconds_count", "api, status"))]),
        Panel("Time of answers", "s", [
            (f"{quantile:.0%}", _quantile(quantile, "http_request_seconds"))
            for quantile in (0.5, 0.95, 0.99)]),
        Panel("In flight", "short", [
            ("in flight", "sum(placement_core_http_requests_in_flight{$J})"),
            ("waiting", "sum(placement_core_http_requests_waiting{$J})"),
            ("limit", "sum(placement_core_http_requests_limit{$J})")]),
        Panel("The ten most frequent operations", "reqps", [
            ("{{operation}}", f"topk(10, {_rate('http_operation_seconds_count', 'operation')})")]),
        Panel("The ten slowest operations, mean time", "s", [
            ("{{operation}}",
             f"topk(10, {_rate('http_operation_seconds_sum', 'operation')} / "
             f"{_rate('http_operation_seconds_count', 'operation')})")]),
        Panel("Refusals", "reqps", [
            ("{{status}} {{code}}",
             f"topk(10, {_rate('http_refusals_total', 'status, code')})")]),
    ),
    "Database": (
        Panel("Commits and repeated transactions", "ops", [
            ("commits", _rate("database_commit_seconds_count", "job")),
            ("repeated: {{cause}}", _rate("database_retries_total", "cause"))]),
        Panel("Time of COMMIT", "s", [
            (f"{quantile:.0%}", _quantile(quantile, "database_commit_seconds"))
            for quantile in (0.5, 0.99)]),
        Panel("Waiting for locks", "s", [
            ("seconds a second", _rate("database_lock_wait_seconds_sum", "job")),
            ("99%", _quantile(0.99, "database_lock_wait_seconds"))]),
        Panel("Connections", "short", [
            ("{{pool}} {{state}}", "sum by (pool, state) "
             '(placement_core_database_connections{$J, state!="limit"})')]),
        Panel("Time of index refreshes", "s", [
            ("{{index}} {{kind}} 99%", _quantile(0.99, "index_refresh_seconds", "index, kind"))]),
        Panel("Age of the capacity index, answers of the database", "s", [
            ("age", _most("index_age_seconds")),
            ("answers", "min(placement_core_database_answers{$J})")]),
    ),
    "Claims and quota": (
        Panel("Claims", "ops", [("{{event}}", _rate("claims_total", "event"))]),
        Panel("Decisions of the guard", "ops", [
            ("{{mode}} {{outcome}}", _rate("guard_decisions_total", "mode, outcome"))]),
        Panel("Counts of usage", "ops", [
            ("{{source}} {{outcome}}", _rate("usage_counts_total", "source, outcome"))]),
        Panel("The fullest quota", "percentunit", [
            ("{{resource}}", _computed("quota_fullest_ratio", "resource"))]),
        Panel("Projects that use 95 % or more", "short", [
            ("{{resource}}", _computed("quota_projects_over", "resource", ', percent="95"'))]),
        Panel("What audits found", "short", [("findings", _computed("audit_findings", "job"))]),
    ),
    "Capacity": (
        Panel("Used and promised", "percentunit", [
            ("{{resource_class}} " + state,
             f"""{_computed("room", "resource_class", f', state="{state}"')} / """
             f"""({_computed("room", "resource_class", ', state="capacity"')} > 0)""")
            for state in ("used", "promised")]),
        Panel("Free", "short", [
            ("{{resource_class}}", _computed("room", "resource_class", ', state="free"'))]),
        Panel("The largest free piece", "short", [
            ("{{resource_class}}", _computed("room", "resource_class", ', state="largest"'))]),
        Panel("How many more usual requests fit", "short", [
            ("{{shape}}", _computed("shape_fits", "shape", of="stranded"))]),
        Panel("Of no use to usual requests", "short", [
            ("{{resource_class}} because of {{cause}}",
             _computed("stranded", "resource_class, cause"))]),
    ),
    "Leases": (
        Panel("Leases by status", "short", [("{{status}}", _most("leases", "status"))]),
        Panel("Events of leases", "short", [
            ("due", _most("lease_events_due")), ("given up", _most("lease_events_given_up"))]),
        Panel("Lateness", "s", [
            ("the oldest event that is due", _most("lease_event_longest_due_seconds")),
            ("{{event}} 99%", _quantile(0.99, "lease_event_lateness_seconds", "event"))]),
        Panel("Managers", "short", [("managers", _most("managers"))]),
        Panel("Calls to the compute service", "short", [("calls", _most("outbox_calls"))]),
        Panel("The oldest call, the last heartbeat", "s", [
            ("call", _most("outbox_oldest_call_seconds")),
            ("heartbeat", "min(placement_core_manager_heartbeat_age_seconds{$J})")]),
    ),
}


def render() -> str:
    """Return the dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in _ROWS.items():
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1}})
        y += 1
        width = _COLUMNS // 3
        for number, panel in enumerate(row):
            panels.append(_render_panel(panel, {
                "x": number % 3 * width, "y": y + number // 3 * _HEIGHT, "w": width,
                "h": _HEIGHT}))
        y += -(-len(row) // 3) * _HEIGHT
    dashboard = {
        "title": "placement-core", "uid": "placement-core", "schemaVersion": 38,
        "editable": True, "refresh": "1m", "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Prometheus",
             "query": "prometheus"},
            {"type": "query", "name": "job", "label": "Service", "datasource": _DATASOURCE,
             "query": "label_values(placement_core_database_answers, job)", "refresh": 2},
        ]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, start=1)],
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _render_panel(panel: Panel, position: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "timeseries", "title": panel.title, "datasource": _DATASOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _DATASOURCE, "legendFormat": legend,
             "expr": query.replace("$J", 'job="$job"')}
            for number, (legend, query) in enumerate(panel.queries)],
    }
