"""The page that Prometheus scrapes: what this process counted, or all that serve together.

It loads prometheus-client: only for a process that counts.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from prometheus_client import CollectorRegistry, make_wsgi_app, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from placement_core import metrics
from placement_core.histograms import fill_sums
from placement_core.metric_series import OPERATION_SECONDS, REQUEST_SECONDS
from placement_core.monitoring.state import STATE, State


def make_page(read_state: Callable[[], State] = dict) -> WSGIApplication:
    """Return the application that Prometheus scrapes.

    :param read_state: returns the service's state within some seconds.
    """
    registry = CollectorRegistry()
    registry.register(_StateCollector(read_state))
    folder = os.environ.get(metrics.FOLDER_VARIABLE)
    if folder is not None:
        registry.register(_RequestSums(_ProcessCollector(folder)))
        return make_wsgi_app(registry)
    registry.register(_RequestSums(metrics.get_registry()))
    return _require_one_process(make_wsgi_app(registry))


def _require_one_process(app: WSGIApplication) -> WSGIApplication:
    """Answer 503 if several processes serve, because the numbers would be those of one only."""
    refusal = (
        f"Several processes serve here, and {metrics.FOLDER_VARIABLE} does not name a folder that "
        "they count into together.\n").encode()

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not environ.get("wsgi.multiprocess"):
            return app(environ, start_response)
        start_response("503 Service Unavailable", [
            ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(refusal)))])
        return [refusal]

    return answer


class _StateCollector:
    """Hands prometheus-client the service's state."""

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the state that are known."""
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
        return fill_sums(self._collector.collect(), REQUEST_SECONDS, OPERATION_SECONDS)


class _ProcessCollector:
    """Hands prometheus-client what all processes have counted into a folder."""

    def __init__(self, folder: str) -> None:
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
