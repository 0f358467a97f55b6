"""All metrics together: how many series there are, and whether each is documented."""

from __future__ import annotations

import re
import time

import fixtures

from doc import samples
from placement_core import app, metrics
from placement_core.db.metadata import metadata
from placement_core.monitoring.state import STATE, State
from tests import base, scraping

_DOCUMENT = samples.ROOT / "doc" / "operator" / "monitoring.rst"
_ROW = re.compile(
    r"^   \* - ``([a-z_]+)``\n     - (\w+)\n     -(.*?)\n     - ", re.MULTILINE | re.DOTALL)

#: A cloud of 10,000 hosts.
_CELLS, _CLASSES, _RESOURCES, _CODES = 20, 20, 20, 60
#: Classes of usual requests, each of which is a cause of what is stranded of all others.
_SHAPES, _CLASSES_OF_SHAPES = 20, 4


def _read_state() -> State:
    """Return a state in which everything is known."""
    return {name: {("ACTIVE",) * len(labels): 1.0}
            for name, (_, labels) in STATE.items()}


class MetricsTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()


class TestDocument(MetricsTestCase):
    def test_each_metric_is_documented(self) -> None:
        documented = {
            name: (kind, tuple(re.findall(
                r"``(\w+)``", re.sub(r"\([^)]*\)", "", labels, flags=re.DOTALL))))
            for name, kind, labels in _ROW.findall(_DOCUMENT.read_text())}
        self.assertEqual(scraping.list_metrics(), documented)


class TestLargeCloud(MetricsTestCase):
    def setUp(self) -> None:
        super().setUp()
        for api in app.APIS:
            for operation in api.operations:
                name = api.name, f"{operation.method} {api.prefix}{operation.path}"
                for status in ("200 OK", "404 Not Found", "503 Service Unavailable"):
                    metrics.count_request(name, status, 0.01)
            metrics.count_request((api.name, "none"), "401 Unauthorized", 0.01)
        for number in range(_CODES):
            metrics.count_refusal(f"some.code{number}", "409")
        for number in range(_CELLS):
            cell = f"cell{number}"
            for question in ("project", "projects", "users", "members"):
                metrics.count_counting("legacy_cell", question, [cell], {cell: 0.1})
                metrics.count_failed_counting("legacy_cell", question)
        metrics.set_room({
            (f"CUSTOM_{number}", state): 1 for number in range(_CLASSES)
            for state in ("total", "reserved", "capacity", "used", "held", "promised", "free",
                          "largest")})
        classes = [f"CUSTOM_{number}" for number in range(_CLASSES_OF_SHAPES)]
        metrics.set_stranded(
            {f"CUSTOM_0:{number}": 1 for number in range(_SHAPES)},
            {name: dict.fromkeys(classes, 1) for name in classes})
        metrics.set_quota({
            f"class:CUSTOM_{number}": metrics.QuotaFill(0.5, {80: 0, 95: 0, 100: 0})
            for number in range(_RESOURCES)})
        metrics.observe_request_wait(0.1)
        metrics.observe_commit(0.1)
        metrics.observe_lock_wait(0.1)
        metrics.observe_write_group(2, 1)
        for cause in ("deadlock", "changed_rows", "connection"):
            metrics.count_retry(cause)
        for mode in ("audit", "enforce"):
            for outcome in ("allowed", "refused", "would_be_refused", "unknown"):
                metrics.count_decision(mode, outcome)
        for event in ("taken", "held", "confirmed", "expired", "released"):
            metrics.count_claim(event)
        for outcome in ("done", "failed", "given_up"):
            metrics.count_webhook_delivery(outcome)
        for table in metadata.tables:
            metrics.count_removed_rows(table, 1)
        metrics.set_process(
            in_flight=1, waiting=1, most_requests=16, threads=20, connections={
                (pool, state): 1 for pool in ("autocommit", "reader", "writer", "small")
                for state in ("used", "idle", "most")})
        metrics.set_audit(0)
        for index in ("capacity", "bookings", "usage"):
            metrics.observe_index_refresh(index, "load", 0.1)
            metrics.observe_index_refresh(index, "update", 0.1)
            metrics.count_failed_index_refresh(index)
        for outcome in ("claimed", "no_room", "over_limit", "failed"):
            metrics.observe_gang(outcome, 1)
        for event in ("start_lease", "before_end_lease", "end_lease"):
            metrics.count_lease_event(event, 1.0)
            for outcome in ("failed", "given_up"):
                metrics.count_failed_lease_event(event, outcome)

    def test_series(self) -> None:
        """Each operation was called, was refused and has failed, and nothing is left out."""
        series = [line for line in scraping.shown(_read_state)[1].splitlines()
                  if not line.startswith("#")]
        self.assertTrue(1500 < len(series) <= 2000, len(series))
        for name in scraping.list_metrics():
            self.assertTrue(
                any(line.startswith(f"placement_core_{name}") for line in series), name)

    def test_time(self) -> None:
        """The processor's, of a process without others."""
        seconds = []
        for _ in range(5):
            started = time.thread_time()
            scraping.shown()
            seconds.append(time.thread_time() - started)
        self.assertLess(min(seconds), 0.05)
