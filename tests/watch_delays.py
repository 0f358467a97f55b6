"""``python -m tests.watch_delays``: how late waiters for changes are, and others beside them.

One worker of four threads on SQLite, with as many waiters as it takes. Prints, in milliseconds:
how soon a waiter has a commit; how soon a GET is answered beside waiters who stay; how soon
SIGTERM has ended streams and waiters. The documents (``doc/changes.rst``) say what was seen.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests import serving

_THREADS = 4
#: Two fewer than the threads (``doc/changes.rst``).
_WAITERS = 2
_COMMITS, _QUESTIONS, _ENDS = 300, 500, 5
_PATH = "/capacity/v1/changes"
_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39",
            "Content-Type": "application/json"}


def _ask(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> Any:
    connection.request(method, path, headers=_HEADERS)
    response = connection.getresponse()
    body = response.read()
    assert response.status < 300, (method, path, response.status, body)
    return json.loads(body) if body else None


def _find_end(connection: http.client.HTTPConnection) -> str:
    return str(_ask(connection, f"{_PATH}?after=now&kinds=trait")["next"])


def _print(what: str, milliseconds: Sequence[float]) -> None:
    ordered = sorted(milliseconds)
    print(what, ", ".join(
        f"{name} {ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]:.1f}"
        for name, percent in (("p50", 50), ("p95", 95), ("p99", 99), ("all", 100))), flush=True)


@contextlib.contextmanager
def _serving() -> Iterator[tuple[serving.Service, http.client.HTTPConnection]]:
    with tempfile.TemporaryDirectory(prefix="placement-delays-") as folder:
        database = f"sqlite:///{pathlib.Path(folder, 'placement.sqlite')}"
        # Where the dashboard is enabled, workers report, too, until their end.
        with serving.Service(database, arguments=("--threads", str(_THREADS)),
                             options={"OS_WORKERS__REPORT": "true"}) as service:
            with contextlib.closing(_connect(service)) as connection:
                yield service, connection


def _connect(service: serving.Service) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(service.address, timeout=60)


def _wait(service: serving.Service, token: str) -> tuple[float, list[Any]]:
    """Wait for a change; return when it came, and what came."""
    with contextlib.closing(_connect(service)) as connection:
        answer = _ask(connection, f"{_PATH}?after={token}&kinds=trait&wait=30")
        return time.monotonic(), answer["changes"]


def _measure_commits(service: serving.Service, connection: http.client.HTTPConnection) -> None:
    delays = []
    with concurrent.futures.ThreadPoolExecutor(_WAITERS) as pool:
        for number in range(_COMMITS):
            token = _find_end(connection)
            waiting = [pool.submit(_wait, service, token) for _ in range(_WAITERS)]
            # Not always at the same moment after the waiters came.
            time.sleep(0.1 + number % 7 / 100)
            _ask(connection, f"/traits/CUSTOM_{number}", "PUT")
            committed_at = time.monotonic()
            for each in waiting:
                came_at, changes = each.result()
                assert changes, number
                delays.append((came_at - committed_at) * 1000)
    _print("a waiter has a commit:", delays)


def _measure_questions(service: serving.Service, connection: http.client.HTTPConnection) -> None:
    delays = []
    token = _find_end(connection)
    with concurrent.futures.ThreadPoolExecutor(_WAITERS) as pool:
        waiting = [pool.submit(_wait, service, token) for _ in range(_WAITERS)]
        time.sleep(0.5)
        for number in range(_QUESTIONS):
            assert not any(each.done() for each in waiting)
            began = time.monotonic()
            _ask(connection, f"/resource_providers?name={number}")
            delays.append((time.monotonic() - began) * 1000)
        _ask(connection, "/traits/CUSTOM_LAST", "PUT")
        for each in waiting:
            each.result()
    _print("a GET beside waiters is answered:", delays)


def _measure_end() -> float:
    with _serving() as (service, connection):
        stream = _connect(service)
        stream.request("GET", f"{_PATH}?after=now", headers={
            "X-Auth-Token": "admin", "Accept": "text/event-stream"})
        events = stream.getresponse()
        token = _find_end(connection)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_wait, service, token)
            time.sleep(0.5)
            began = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            waiting.result()
            with contextlib.suppress(http.client.IncompleteRead):
                events.read()
            ended = time.monotonic()
        stream.close()
    return (ended - began) * 1000


def main() -> None:
    """Measure, and print a line for each."""
    with _serving() as (service, connection):
        _measure_commits(service, connection)
        _measure_questions(service, connection)
    _print("SIGTERM has ended streams and waiters:", [_measure_end() for _ in range(_ENDS)])


if __name__ == "__main__":
    main()
