"""The vocabulary of an API's routes: one ``Operation`` row for each.

An API is a tuple of operations. ``http/routing.py`` turns those of a path into a
Pyramid view that checks a request in the order the API promises, calls ``view`` with a
``Call`` and renders the ``Reply``. Views therefore see no header and no raw
body; the domain behind them sees no version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from placement_core.context import Context
from placement_core.http import pages
from placement_core.http.conditional import ETag
from placement_core.services import Services

if TYPE_CHECKING:
    from placement_core.http.openapi import OpenApi

T = TypeVar("T")

#: A microversion, ordered as numbers are: (1, 9) < (1, 10).
Version = tuple[int, int]

JSON, CSV = "application/json", "text/csv"

#: What every request to an API without microversions has.
ONLY: Version = (1, 0)

#: In the environment of a request: ``Call.idle``.
IDLE_KEY = "placement_core.idle"

#: The largest body of one record, in bytes: its names, descriptions and numbers.
RECORD_BODY = 256 * 1024
#: The largest body of what belongs to one thing: a provider's traits, a consumer's
#: allocations.
COLLECTION_BODY = 2 * 1024 * 1024
#: Many things at once: only ``[api] max_request_body_size`` bounds them.
BULK_BODY: int | None = None


class Ladder(Generic[T]):
    """A value that changes with the microversion.

    ``Ladder({BASE: 201, PROVIDER_IN_BODY: 200}).at(version)`` is the highest
    rung not above ``version``.
    """

    def __init__(self, rungs: Mapping[Version, T]) -> None:
        self.rungs = dict(sorted(rungs.items(), reverse=True))

    def at(self, version: Version) -> T:
        """Return the value at ``version``; KeyError below the lowest rung."""
        for since, value in self.rungs.items():
            if version >= since:
                return value
        raise KeyError(version)


class Allows(Protocol):
    """Says whether the caller passes a policy rule."""

    def __call__(
        self, rule: str, *, target: Mapping[str, str | None] | None = None
    ) -> bool:
        """Answer.

        :param target: of the action; the caller's own project and user when None.
        """


@dataclasses.dataclass(slots=True)
class Call:
    """A request that passed every check its operation names.

    :ivar path: the variables of the path, decoded.
    :ivar query: the query string, {name: [values in order]}; each value decoded.
    :ivar body: the JSON body, validated; None where the operation takes none.
    :ivar allows: says whether the caller passes another rule than the operation's, of those
        that ``Operation.also`` names.
    :ivar prefix: where the app is mounted, for ``href``s; ``""`` at the root. A URL
        where the API's links are absolute.
    :ivar address: the URL of the request, where the API's links are absolute.
    :ivar openapi: describes what the service speaks; None in a call of a test.
    :ivar idle: opens a context in which the view does nothing but wait, so that the request does
        not count among those that are processed.
    :ivar digest_policy: returns another text once the policy is another one; None: the same rules
        may answer otherwise the next time, so nothing that depends on ``allows`` is to be cached.
    :ivar last_event_id: what a reader of events has seen last; None: it begins.
    """

    services: Services
    ctx: Context
    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: Any
    microversion: Version
    allows: Allows
    prefix: str = ""
    address: str = ""
    openapi: OpenApi | None = None
    idle: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    last_event_id: str | None = None
    digest_policy: Callable[[], str | None] = lambda: None

    def parse_page(self) -> pages.Page:
        """Return the page of a list that the query string asks for.

        :raises InvalidQuery: it is larger than ``[api] max_page_size``.
        """
        return pages.parse_page(self.query, self.services.conf.api.max_page_size)

    def parse_cut_page(self) -> pages.Page:
        """Return the same for lists of Keystone's and Blazar's APIs, which cut a larger page."""
        return pages.parse_cut_page(self.query, self.services.conf.api.max_page_size)


#: As ``Reply.last_modified``: the moment of the answer.
NOW = datetime.datetime.max


@dataclasses.dataclass(slots=True)
class Reply:
    """The answer of a view.

    :ivar body: something JSON can hold, bytes that already are what ``media_type`` says, or None.
    :ivar location: a path below the mount point; it becomes an absolute URL.
    :ivar last_modified: naive UTC, ``NOW``, or None for no caching headers.
    :ivar cacheable: send ``Cache-Control: no-cache`` (and ``Last-Modified``
        where there is one) from microversion 1.15 on.
    :ivar headers: further headers of this reply.
    :ivar events: in place of a body, events as ``text/event-stream`` has them, which are sent as
        they come.
    :ivar media_type: of a body that is bytes.
    :ivar partial: something could not be read now, so the reply gets no entity tag.
    """

    status: int = 200
    body: Any = None
    location: str | None = None
    last_modified: datetime.datetime | None = None
    cacheable: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    events: Iterator[bytes] | None = None
    media_type: str = JSON
    partial: bool = False


View = Callable[[Call], Reply]

#: {status of a success: JSON schema of its body; None: it has no body}.
Answers = Mapping[int, dict[str, Any] | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    :ivar method: GET, POST, PUT, PATCH or DELETE.
    :ivar path: with ``{variables}``, each matching one path segment.
    :ivar policy: the name of the rule a caller must pass; None for public.
    :ivar also: rules that the view checks itself: a caller who passes one sees or may do more.
    :ivar since: the first microversion that has it.
    :ivar gate_status: the status of a request below ``since``, 404 or 405.
    :ivar body: JSON schema by microversion; a rung of None takes no body and
        checks no content type.
    :ivar largest_body: in bytes; ``BULK_BODY`` is as much as the operator allows.
    :ivar query: JSON schema of the query string by microversion ({name: last
        value}); None accepts anything.
    :ivar repeated: the parameters of the query string that may be given several times, each with
        a meaning; of the others the last value counts. By microversion.
    :ivar json_only: refuse an ``Accept`` that excludes JSON with 406.
    :ivar check_exists: called with (ctx, path) before a *bad body* is refused, so that
        a missing resource is 404 rather than 400.
    :ivar check_served: raises if this deployment does not have the operation, before query
        string and body are read.
    :ivar target: makes the policy target of a call; the caller's own by default.
    :ivar media_before_gate: 415 and 406 come before the 404 of ``since``.
    :ivar etag: makes the entity tag of a read: if two calls have the same one,
        ``view`` answers both of them 200 with the same body, unless its reply is ``partial``.
        It returns None if there is none now.
    :ivar answers: what ``view`` answers, by microversion. Production does not look at it: it is
        for the OpenAPI document, and tests hold every answer to it.
    :ivar event_view: answers those who accept ``text/event-stream``, with ``Reply.events``.
    :ivar offers_csv: whether it answers CSV, too, to those who ask for it in the query string.
    :ivar refusals: statuses of errors that do not follow from the other fields
        (``openapi.list_refusals``).
    """

    method: str
    path: str
    view: View
    policy: str | None
    since: Version = ONLY
    gate_status: int = 404
    body: Ladder[dict[str, Any] | None] | None = None
    largest_body: int | None = RECORD_BODY
    query: Ladder[dict[str, Any]] | None = None
    json_only: bool = False
    check_exists: Callable[[Context, Mapping[str, str]], object] | None = None
    check_served: Callable[[Services], None] | None = None
    target: Callable[[Mapping[str, list[str]]], Mapping[str, Any]] | None = None
    media_before_gate: bool = False
    etag: Callable[[Call], ETag | None] | None = None
    also: tuple[str, ...] = ()
    answers: Ladder[Answers] | None = None
    refusals: tuple[int, ...] = ()
    repeated: Ladder[Collection[str]] | None = None
    event_view: View | None = None
    offers_csv: bool = False
