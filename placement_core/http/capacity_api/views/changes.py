"""GET /capacity/v1/changes: what changed, for those who keep up with it."""

from __future__ import annotations

from collections.abc import Iterator

from placement_core import errors
from placement_core.changes import audit as audit_log
from placement_core.feed import reading, waiting
from placement_core.feed.kinds import KINDS
from placement_core.feed.records import Answer, Filters
from placement_core.feed.tokens import Token, decode, encode
from placement_core.http import pages, replies
from placement_core.http.capacity_api import change_documents, policies
from placement_core.http.capacity_api.views import audit
from placement_core.http.errors import HTTPError, NotAllowed
from placement_core.http.limits_api.representations import get_root_url
from placement_core.http.operations import Call, Reply

#: How many objects an answer has by default.
_PAGE = 1000
#: In place of a token: what changes from now on.
NOW = "now"
#: A comment comes when nothing else was sent for so long.
PULSE_SECONDS = 15
#: Then a stream ends, so that whoever is not allowed to read any more reads no longer.
LONGEST_STREAM_SECONDS = 600
#: After how many seconds to come back for who could not wait, or was cut off.
RETRY_SECONDS = 2

_OWNED = [kind.name for kind in KINDS.values() if kind.owned]


def list_(call: Call) -> Reply:
    """Return what changed since a token or, without one, everything, page by page."""
    query = call.query
    filters, most = _parse_filters(call), _parse_size(call)
    after = pages.get_last(query, "after")
    seconds = float(pages.get_last(query, "wait") or 0)
    token, answer = _begin(call, after)
    if answer is None or seconds:
        waited = waiting.read(
            call.ctx, call.services.watch, token, filters, most=most, seconds=seconds,
            idle=call.idle)
        answer, busy = waited
        if busy:
            return Reply(body=_render(call, answer),
                         headers=(("Retry-After", str(RETRY_SECONDS)),))
    return Reply(body=_render(call, answer))


def follow(call: Call) -> Reply:
    """Return the same as events, as long as the reader listens."""
    filters, most = _parse_filters(call), _parse_size(call)
    token, answer = _begin(call, call.last_event_id or pages.get_last(call.query, "after"))
    if answer is None:
        answer = reading.read(call.ctx, token, filters, most=most)
    return Reply(events=_stream(call, answer, filters, most))


def _begin(call: Call, after: str | None) -> tuple[Token | None, Answer | None]:
    """Return a token, and the answer for who wants what changes from now on."""
    if after == NOW:
        answer = reading.read_now(call.ctx)
        return answer.token, answer
    return None if after is None else decode(after), None


def _stream(call: Call, answer: Answer, filters: Filters, most: int) -> Iterator[bytes]:
    watch = call.services.watch
    with watch.enter() as entered:
        if not entered:
            yield _make_event(call, answer)
            yield f"retry: {1000 * RETRY_SECONDS}\n\n".encode()
            return
        try:
            for each in waiting.follow(
                    call.ctx, watch, answer, filters, most=most,
                    seconds=LONGEST_STREAM_SECONDS, pulse_seconds=PULSE_SECONDS):
                yield _make_event(call, each)
        except errors.Error as error:
            # The status was sent long ago; the reader comes back, and gets that of its request.
            yield make_error_event(error.code, str(error))


def _make_event(call: Call, answer: Answer) -> bytes:
    return make_event(encode(answer.token), replies.dump_json(
        _render(call, answer)) if answer.changes else None)


def make_event(token: str, data: bytes | None) -> bytes:
    """Return an answer as an event.

    :param data: its JSON; None: without changes, it is a comment, and moves the token only.
    """
    if data is None:
        return f": nothing\nid: {token}\n\n".encode()
    return f"event: changes\nid: {token}\ndata: ".encode() + data + b"\n\n"


def make_error_event(code: str, detail: str) -> bytes:
    """Return the last event of a stream that cannot go on."""
    data = replies.dump_json({"code": code, "detail": detail})
    return b"event: error\ndata: " + data + f"\nretry: {1000 * RETRY_SECONDS}\n\n".encode()


def _render(call: Call, answer: Answer) -> change_documents.Document:
    includes = _get_includes(call)
    document = change_documents.render(
        answer, get_root_url(call), with_documents="document" in includes,
        with_hosts=call.allows(policies.CHANGES_OF_ALL))
    if "audit" in includes:
        entries = audit_log.read_transactions(call.ctx, answer.txns)
        document["audit"] = [
            audit.render_entry(entry) for txn in sorted(entries) for entry in entries[txn]]
    return document


def _get_includes(call: Call) -> list[str]:
    return (pages.get_last(call.query, "include") or "").split(",")


def _parse_size(call: Call) -> int:
    return call.parse_page().size or _PAGE


def _parse_filters(call: Call) -> Filters:
    """Return the filters of the query string.

    :raises NotAllowed: the caller may not read the audit, and asks for it.
    :raises HTTPError: a kind is not there, or has no projects.
    """
    if "audit" in _get_includes(call) and not call.allows(policies.AUDIT_LIST):
        raise NotAllowed(policies.AUDIT_LIST)
    project_id = pages.get_last(call.query, "project_id")
    possible = list(KINDS) if project_id is None else _OWNED
    text = pages.get_last(call.query, "kinds")
    kinds = possible if text is None else text.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise HTTPError(
                400, f"There is no kind {kind[:64]!r}: expected some of {', '.join(KINDS)}.")
        if kind not in possible:
            raise HTTPError(
                400, f"Nothing of the kind {kind} belongs to a project: expected some of "
                f"{', '.join(_OWNED)} together with project_id.")
    return Filters(frozenset(kinds), project_id)
