"""Requests and answers, as they pass."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any, Protocol

#: In the order and the spelling of the wire.
Headers = tuple[tuple[str, str], ...]

#: What is about one connection, not about the message (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset({
    "connection", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"})

#: Methods that change nothing.
READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request.

    :ivar target: the path and the query, as they were sent.
    """

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query."""
        return self.target.partition("?")[2]

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method in READS

    def replace_body(self, body: bytes) -> Request:
        """Return the same request with another body."""
        return dataclasses.replace(self, body=body, headers=omit(self.headers, ["content-length"]))


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    :ivar seconds: how long it took.
    """

    status: int
    reason: str
    headers: Headers
    body: bytes
    seconds: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    def get(self, name: str) -> str | None:
        """Return the first header of a name."""
        return find_header(self.headers, name)

    def document(self) -> Any:
        """Return the JSON document of the body; None if it is none."""
        return parse(self.body)


class NoAnswer(Exception):
    """A service cannot be reached, or did not answer in time."""


class Service(Protocol):
    """One of the two services."""

    async def ask(self, request: Request) -> Answer:
        """Return its answer.

        :raises NoAnswer: there is none.
        """


def find_header(headers: Headers, name: str) -> str | None:
    """Return the first header of a name."""
    name = name.lower()
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


def omit(headers: Headers, names: Collection[str]) -> Headers:
    """Return headers without those of some names (lower case)."""
    return tuple([header for header in headers if header[0].lower() not in names])


def omit_hop_by_hop(headers: Headers, *names: str) -> Headers:
    """Return the headers that travel with a message, without those of some names (lower case)."""
    named = find_header(headers, "connection") or ""
    return omit(headers, HOP_BY_HOP.union(
        names, [name.strip().lower() for name in named.split(",")]))


def parse(body: bytes) -> Any:
    """Return the JSON document of a body; None if it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def parse_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a body; an empty one if it is none."""
    document = parse(body)
    return document if isinstance(document, dict) else {}
