"""Conditional reads: entity tags, and the bodies that they stand for.

A tag is a digest of everything that an answer is made from, so a tag that is
known is an answer that is known: the caller's copy (304), or one that this
process kept.
"""

from __future__ import annotations

import collections
import hashlib
import re
import threading

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context

#: How much a process keeps; an answer that is larger than a quarter of it is not kept.
_MOST_BYTES = 32 * 1024 * 1024

_TAG = re.compile(r'"([^"]*)"')


def of_limits(ctx: Context, *parts: str) -> str:
    """Return the tag of an answer that is made from the limits and the local catalog.

    Ask for it before the contents are read: they may then be newer than the tag,
    which costs the caller one more answer, but never older.

    :param parts: what else the answer depends on: address, scope, model.
    """
    return of(_revision(ctx), *parts)


def of(*parts: str) -> str:
    """Return the tag of an answer that is made from these parts and nothing else."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@db.retry_writes
def _revision(ctx: Context) -> str:
    with db.read_once(ctx) as session:
        return revisions.read(session, revisions.LIMITS)


def names(header: str, tag: str) -> bool:
    """Say whether an ``If-None-Match`` names a tag; weak and strong are the same."""
    return tag in header and tag in _TAG.findall(header)


def names_any(header: str) -> bool:
    """Say whether an ``If-None-Match`` names whatever there is."""
    return header.strip() == "*"


class Bodies:
    """The bodies a process answered last, by tag; bounded."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._bodies: collections.OrderedDict[str, bytes] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, tag: str) -> bytes | None:
        """Return the body of a tag, if it is kept."""
        with self._lock:
            body = self._bodies.get(tag)
            if body is not None:
                self._bodies.move_to_end(tag)
            return body

    def keep(self, tag: str, body: bytes) -> None:
        """Keep a body; what was not asked for longest makes room."""
        if len(body) > self._most_bytes // 4:
            return
        with self._lock:
            self._bytes += len(body) - len(self._bodies.get(tag, b""))
            self._bodies[tag] = body
            self._bodies.move_to_end(tag)
            while self._bytes > self._most_bytes:
                _, dropped = self._bodies.popitem(last=False)
                self._bytes -= len(dropped)
