"""Which trace a request belongs to, as the caller says and as other services are told.

Source: W3C Trace Context (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import contextvars
import dataclasses
import re
import secrets
from collections.abc import Mapping
from typing import Any

#: Version, trace, parent, flags, and what later versions may add.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
#: The flags that mean something to us or others: sampled, and that the id is random.
_KNOWN_FLAGS = 0x03


@dataclasses.dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace that a request belongs to.

    :ivar trace_id: 32 hexadecimal digits.
    :ivar state: what vendors note (``tracestate``); empty: nothing.
    """

    trace_id: str
    flags: int
    state: str


_current: contextvars.ContextVar[TraceContext | None] = contextvars.ContextVar(
    "trace_context", default=None)


def parse(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """Return what the headers of a request say; None: ``traceparent`` is not valid."""
    match = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if not (trace_id.strip("0") and parent_id.strip("0")):
        return None
    state = tracestate.strip(" \t")
    # Other services refuse a header with anything else.
    is_valid = state.isascii() and state.isprintable()
    return TraceContext(trace_id, int(flags, 16) & _KNOWN_FLAGS, state if is_valid else "")


def receive(environ: Mapping[str, Any]) -> str | None:
    """Note the trace of the request that this thread processes from now on.

    :returns: the trace's id; None: the request belongs to none.
    """
    traceparent = environ.get("HTTP_TRACEPARENT")
    context = None if traceparent is None else parse(
        traceparent, environ.get("HTTP_TRACESTATE", ""))
    _current.set(context)
    return None if context is None else context.trace_id


def make_headers() -> dict[str, str]:
    """Return the headers of a call for the request that this thread processes."""
    context = _current.get()
    if context is None:
        return {}
    parent_id = 1 + secrets.randbelow(2**64 - 1)
    headers = {"traceparent": f"00-{context.trace_id}-{parent_id:016x}-{context.flags:02x}"}
    if context.state:
        headers["tracestate"] = context.state
    return headers
