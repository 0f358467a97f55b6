"""Requests to one service: timed ones by plload, single ones from Python.

plload (``plload.c``) is a one-thread epoll client that costs some microseconds
for a request, so that what is measured is the service. It is compiled on first use.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import processes

_SOURCE = pathlib.Path(__file__).with_name("plload.c")

#: plload's flags of a request.
CHAIN = 1  # the next request follows on the same connection after this one's answer
CAPTURE = 2  # remember the provider of one of the candidates in the answer
PLACE = 4  # put the remembered provider where ``MARK`` stands
SOFT = 8  # the chain goes on even when this one fails
MARK = "@" * 36

#: What plload notes instead of a status: an earlier step of the chain failed.
NOT_SENT = 0


@dataclasses.dataclass(frozen=True)
class Request:
    """One request as bytes, and plload's flags."""

    raw: bytes
    flags: int = 0


@dataclasses.dataclass(frozen=True)
class Answer:
    """What plload noted of one request.

    :ivar index: of the request in the sequence that was sent.
    """

    index: int
    status: int
    microseconds: int
    size: int

    @property
    def good(self) -> bool:
        """Whether the status is 2xx, or 304: what was asked for is known."""
        return 200 <= self.status < 300 or self.status == 304


@dataclasses.dataclass(frozen=True)
class Drive:
    """What came of driving a service for a while.

    :ivar cpu: {"server" | "database": seconds of processor time}.
    :ivar client_cpu: seconds of processor time of plload itself.
    :ivar errors: samples of answers that are not good: "status body".
    """

    answers: list[Answer]
    elapsed: float
    cpu: dict[str, float]
    client_cpu: float
    errors: list[str]


class Target:
    """One served service.

    :ivar charged: {"server" | "database": process id} whose trees' processor time is
        charged to the requests.
    :ivar version: of the Placement API; None: another API is asked, which has none.
    :ivar token: what tells who asks; None: nobody does.
    """

    def __init__(
        self, port: int, charged: Mapping[str, int], version: str | None = "1.39",
        token: str | None = "admin",
    ) -> None:
        self.port = port
        self.charged = dict(charged)
        self.version = version
        self.token = token

    def at(self, version: str | None) -> Target:
        """Return the same service, asked at another microversion."""
        return Target(self.port, self.charged, version, self.token)

    def bearing(self, token: str) -> Target:
        """Return the same service, asked with a token."""
        return Target(self.port, self.charged, self.version, token)

    def request(
        self, method: str, path: str, body: object = None, *, flags: int = 0,
        etag: str | None = None,
    ) -> Request:
        """Return a request for ``drive``.

        :param etag: of the answer that is known already.
        """
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name}: {value}" for name, value in self.headers().items()]
        if etag:
            lines.append(f"If-None-Match: {etag}")
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        return Request("\r\n".join([*lines, "", ""]).encode() + content, flags)

    def call(
        self, method: str, path: str, body: object = None, *, timeout: float = 600
    ) -> tuple[int, Any]:
        """Send one request from Python: to prepare or to check, never timed.

        :returns: the status, and the JSON document or None.
        """
        answer, received = self._sent(method, path, body, timeout)
        return answer.status, json.loads(received) if received else None

    def must(self, method: str, path: str, body: object = None) -> Any:
        """Send one request that must succeed; return its JSON document."""
        status, document = self.call(method, path, body)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {str(document)[:500]}")
        return document

    def header(self, name: str, method: str, path: str, body: object = None) -> str | None:
        """Send one request that must succeed; return a header of its answer."""
        answer, received = self._sent(method, path, body, timeout=600)
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {received[:500]!r}")
        return answer.getheader(name)

    def drive(
        self, requests: Sequence[Request], clients: int, *, seconds: float = 0, at_most: int = 0
    ) -> Drive:
        """Send requests as fast as the answers come.

        :param clients: connections, each with one request under way at any time.
        :param seconds: send the sequence again and again for so long; 0 sends all once.
        :param at_most: stop after so many requests; 0 does not.
        """
        with tempfile.TemporaryDirectory(prefix="placement-bench-") as folder:
            sent, noted, failed = (pathlib.Path(folder, name) for name in ("req", "out", "err"))
            with sent.open("wb") as file:
                for request in requests:
                    file.write(struct.pack("<II", request.flags, len(request.raw)))
                    file.write(request.raw)
            before = self._cpu()
            done = subprocess.run(
                [plload(), "127.0.0.1", str(self.port), str(clients), str(seconds),
                 str(at_most), str(sent), str(noted), str(failed)],
                stdout=subprocess.PIPE, check=True,
            )
            after = self._cpu()
            numbers = json.loads(done.stdout)
            answers = [
                Answer(index, status, microseconds, size)
                for index, status, microseconds, size, _, _, _ in struct.iter_unpack(
                    "<IIIIQII", noted.read_bytes())
            ]
            errors = re.split(r"^#\d+ ", failed.read_text(errors="replace"), flags=re.MULTILINE)
        return Drive(
            answers=answers,
            elapsed=numbers["elapsed"],
            cpu={name: after[name] - before[name] for name in before},
            client_cpu=numbers["client_cpu"],
            errors=[" ".join(error.split()) for error in errors[1:]],
        )

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        found = {"Accept": "application/json"}
        if self.token:
            found["X-Auth-Token"] = self.token
        if self.version:
            found["OpenStack-API-Version"] = f"placement {self.version}"
        return found

    def _sent(
        self, method: str, path: str, body: object, timeout: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        headers = self.headers()
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def _cpu(self) -> dict[str, float]:
        return {name: processes.cpu_seconds(pid) for name, pid in self.charged.items()}


def plload() -> str:
    """Return the path of plload; compile it unless it is there."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    program = pathlib.Path(tempfile.gettempdir(), f"plload-{os.getuid()}-{digest}")
    if not program.exists():
        made = program.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [os.environ.get("CC", "cc"), "-O2", "-o", str(made), str(_SOURCE)], check=True)
        made.rename(program)
    return str(program)
