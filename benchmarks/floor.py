"""``python -m benchmarks.floor``: what nobody who answers over HTTP from a database gets below.

Serves fixed bytes from the same HTTP server with the same workers and threads,
without authentication, versions or a database; and asks the index's question,
and commits one row, through the bare driver. Prints the processor time of each,
on the server's side, the database included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks import client, databases, processes, servers

_SECONDS = 3
#: Bytes of an answer: none, one provider, 1,000 candidates, 10,000 candidates.
_SIZES = {"nothing": 0, "1 kB": 1000, "540 kB": 540_000, "5.4 MB": 5_400_000}
_APPLICATION = """
def application(environ, start_response):
    body = bytes(int(environ["PATH_INFO"][1:]))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.floor", description=__doc__)
    parser.add_argument("--database", choices=databases.VARIABLES, default="postgresql")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    server = databases.server(options.database, pathlib.Path())
    if server is None:
        sys.exit(f"set {databases.VARIABLES[options.database]} to the URL of a database")
    with _served() as target:
        found = {f"an answer of {name}": _answers(target, size)
                 for name, size in _SIZES.items()}
    found |= _statements(server)
    if options.format == "json":
        print(json.dumps(found, indent=1))
    else:
        for name, milliseconds in found.items():
            print(f"{name:34s} {milliseconds:7.3f} ms")
    return 0


@contextlib.contextmanager
def _served() -> Iterator[client.Target]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="placement-bench-") as folder:
        pathlib.Path(folder, "fixed.py").write_text(_APPLICATION)
        process = subprocess.Popen(
            [str(pathlib.Path(sys.executable).with_name("granian")), "--interface", "wsgi",
             "--no-ws", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning",
             "--workers", str(servers.WORKERS), "--blocking-threads", str(servers.THREADS),
             "fixed:application"],
            cwd=folder, env={**os.environ, "PYTHONPATH": folder})
        target = client.Target(port, {"server": process.pid})
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    if target.call("GET", "/0", timeout=5)[0] == 200:
                        break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            yield target
        finally:
            process.terminate()
            process.wait()


def _answers(target: client.Target, size: int) -> float:
    drive = target.drive([target.request("GET", f"/{size}")], 8, seconds=_SECONDS)
    return drive.cpu["server"] * 1000 / len(drive.answers)


def _statements(server: databases.Server) -> dict[str, float]:
    """Measure the index's question and the smallest commit, on one connection."""
    name = "bench_floor"
    server.make(name)
    try:
        with server.connect(name) as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            cursor = raw.cursor()
            cursor.execute("CREATE TABLE heads (slot int PRIMARY KEY, serial bigint, txn bigint)")
            cursor.executemany("INSERT INTO heads VALUES (%s, %s, %s)",
                               [(slot, slot, slot) for slot in range(256)])

            def ask() -> None:
                cursor.execute("SELECT SUM(serial), SUM(txn) FROM heads")
                cursor.fetchone()

            def commit() -> None:
                cursor.execute("UPDATE heads SET serial = serial + 1 WHERE slot = %s", (7,))

            backends = server.pid()
            return {"the question, bare driver": _each(ask, backends),
                    "one row changed and committed": _each(commit, backends)}
    finally:
        server.drop(name)


def _each(do: Callable[[], None], backends: int | None) -> float:
    def spent() -> float:
        return time.process_time() + (processes.cpu_seconds(backends) if backends else 0)

    for _ in range(20):
        do()
    count, before, until = 0, spent(), time.monotonic() + _SECONDS
    while time.monotonic() < until:
        do()
        count += 1
    return (spent() - before) * 1000 / count


if __name__ == "__main__":
    sys.exit(main())
