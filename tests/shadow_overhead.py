"""``python -m tests.shadow_overhead``: how much longer answers take through the shadow.

The same requests are sent to a real, second placement directly and through the proxy, by turns, so
that both meet the same machine; every write is applied to ours and a tenth of the reads compared,
as by default. The last line has what the proxy adds, in milliseconds.
"""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Callable

from tests import shadows

_ROUNDS = 500
_PERCENTILES = (50, 95, 99)


def _make_asker(url: str) -> Callable[..., float]:
    """Return what sends a request over a connection of its own; it returns the milliseconds."""
    def ask(method: str, path: str, body: object = None) -> float:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        started = time.perf_counter()
        connection.request(
            method, path, None if body is None else json.dumps(body),
            {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.38",
             "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        milliseconds = (time.perf_counter() - started) * 1000
        connection.close()
        assert answer.status < 300, (method, path, answer.status)
        return milliseconds
    return ask


def main() -> None:
    """Measure, and print a line for each kind of request."""
    with shadows.Sides() as sides, shadows.Proxy(
            sides.upstream, sides.ours, sides.folder, "--compare-reads", "10") as proxy:
        askers = [_make_asker(url) for url in (sides.upstream, proxy.url)]
        for what in ("reads", "writes"):
            durations: list[list[float]] = [[], []]
            for _ in range(_ROUNDS):
                for ask, measured in zip(askers, durations, strict=True):
                    if what == "reads":
                        measured.append(ask("GET", f"/resource_providers/{sides.host}"))
                    else:
                        measured.append(ask("PUT", f"/allocations/{uuid.uuid4()}", {
                            "allocations": {sides.host: {"resources": {"VCPU": 1}}},
                            "project_id": "p", "user_id": "u", "consumer_generation": None,
                            "consumer_type": "INSTANCE"}))
                    # What follows a write is not part of the next answer.
                    time.sleep(0.01)
            direct, through = (sorted(measured) for measured in durations)
            print(what, "; ".join(
                f"p{percentile}: {direct[at]:.2f} ms directly, {through[at]:.2f} ms through it, "
                f"{through[at] - direct[at]:+.2f}"
                for percentile in _PERCENTILES
                for at in [min(_ROUNDS - 1, _ROUNDS * percentile // 100)]), flush=True)


if __name__ == "__main__":
    main()
