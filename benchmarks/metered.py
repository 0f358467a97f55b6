"""What metrics add to a request, in microseconds of processor time.

``python -m benchmarks.metered`` measures it in a process of its own, because prometheus-client
counts per process, and prints the number.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication

from benchmarks import servers
from benchmarks.bench import Bench, Found
from placement_core import app, metrics
from placement_core.db.database import Database
from placement_core.http.apis import ApisByPath
from placement_core.http.request_metrics import RequestMetrics
from placement_core.http.requestlog import OPERATION_KEY
from placement_core.monitoring.process import ProcessNotes

_REQUESTS = 50_000
_OPERATION = "placement", "PUT /allocations/{consumer_uuid}"


class _NoConnections:
    """A database without connections."""

    def count_connections(self) -> Mapping[tuple[str, str], int]:
        return {}


def of_request(bench: Bench, rounds: int) -> Found:
    """A request that several processes count together, and one that its own process counts.

    :returns: the larger of the two.
    """
    with tempfile.TemporaryDirectory(prefix="placement-bench-") as shared:
        medians = {
            f"us_{name}": statistics.median(_run(folder) for _ in range(rounds))
            for name, folder in (("together", shared), ("alone", None))}
    return max(medians.values()), medians


def _run(folder: str | None) -> float:
    """Return what a process measures that counts into a folder, or in its memory."""
    environment = {name: value for name, value in os.environ.items()
                   if name != metrics.FOLDER_VARIABLE}
    if folder is not None:
        environment[metrics.FOLDER_VARIABLE] = folder
    return float(subprocess.run(
        [sys.executable, "-m", "benchmarks.metered"], check=True, text=True, cwd=servers.ROOT,
        stdout=subprocess.PIPE, env=environment).stdout)


def main() -> None:
    """Print by how many microseconds a request costs more that is counted."""
    metrics.start()
    counted = RequestMetrics(
        _answer, ApisByPath(app.APIS),
        ProcessNotes(cast("Database", _NoConnections()), 0, lambda: 0))
    _take_microseconds(counted)  # the first one makes its series
    print(_take_microseconds(counted) - _take_microseconds(_answer))


def _answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    environ[OPERATION_KEY] = _OPERATION
    start_response("204 No Content", [])
    return []


def _take_microseconds(served: WSGIApplication) -> float:
    started = time.thread_time()
    for _ in range(_REQUESTS):
        served({}, _start_response)
    return (time.thread_time() - started) / _REQUESTS * 1e6


def _start_response(*_: object) -> Any:
    return None


if __name__ == "__main__":
    main()
