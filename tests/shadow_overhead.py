"""``python -m tests.shadow_overhead``: how much longer answers take through the shadow.

The same requests are sent to an upstream directly and through the proxy, by turns, so that both
meet the same machine; every write is applied to ours and a tenth of the reads compared, as by
default. Reads go to a real, second placement; writes to a stand-in that answers after the same
time always, because the times that Placement itself needs for a write differ by more than what is
measured. The difference is what the proxy adds, in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import json
import multiprocessing
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from tests import shadows

_ROUNDS = 500
_PERCENTILES = (50, 95, 99)
#: What follows a write in ours is not to be part of the next answer.
_PAUSE_SECONDS = 0.05
#: How long the stand-in needs for a write.
_STEADY_SECONDS = 0.01
#: The priority that it has by ``etc/systemd/placement-core-shadow.service``.
_AS_IN_ITS_UNIT = ("chrt", "--rr", "10")
_VERSIONS = {"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0"}]}


class _Steady(http.server.BaseHTTPRequestHandler):
    """Takes every write."""

    def do_GET(self) -> None:
        """Answer with the microversions."""
        body = json.dumps(_VERSIONS).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        """Do nothing for a while."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(_STEADY_SECONDS)
        self.send_response(204)
        self.send_header("OpenStack-API-Version", self.headers["OpenStack-API-Version"])
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def _run_steady() -> Iterator[str]:
    """Run the stand-in in a process of its own; yield its URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Steady)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        process.kill()
        process.join()
        server.server_close()


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


def _measure(
    what: str, upstream: str, proxy: str, send: Callable[[Callable[..., float]], float]
) -> None:
    """Print how long requests take directly, and through the proxy."""
    durations: list[list[float]] = [[], []]
    askers = [_make_asker(url) for url in (upstream, proxy)]
    for _ in range(_ROUNDS):
        for ask, measured in zip(askers, durations, strict=True):
            measured.append(send(ask))
            time.sleep(_PAUSE_SECONDS)
    direct, through = (sorted(measured) for measured in durations)
    print(what, "; ".join(
        f"p{percentile}: {direct[at]:.2f} ms directly, {through[at]:.2f} ms through it, "
        f"{through[at] - direct[at]:+.2f}"
        for percentile in _PERCENTILES
        for at in [min(_ROUNDS - 1, _ROUNDS * percentile // 100)]), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each kind of request."""
    parser = argparse.ArgumentParser(prog="python -m tests.shadow_overhead")
    parser.add_argument(
        "--normal-priority", action="store_true", help="of the proxy; default: that of its unit")
    before = () if parser.parse_args(arguments).normal_priority else _AS_IN_ITS_UNIT
    with shadows.Sides() as sides:
        with shadows.Proxy(
                sides.upstream, sides.ours, sides.folder, "--compare-reads", "10",
                before=before) as proxy:
            _measure("reads ", sides.upstream, proxy.url, lambda ask: ask(
                "GET", f"/resource_providers/{sides.host}"))
        sides.renew()
        with _run_steady() as upstream, shadows.Proxy(
                upstream, sides.ours, sides.folder, "--compare-reads", "10",
                before=before) as proxy:
            _measure("writes", upstream, proxy.url, lambda ask: ask(
                "PUT", f"/allocations/{uuid.uuid4()}", {
                    "allocations": {sides.host: {"resources": {"VCPU": 1}}},
                    "project_id": "p", "user_id": "u", "consumer_generation": None,
                    "consumer_type": "INSTANCE"}))
            proxy.stop()
            report = proxy.report()
            assert report.applied == report.writes == _ROUNDS, report


if __name__ == "__main__":
    main()
