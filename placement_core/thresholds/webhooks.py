"""Delivers reports to webhooks: at least once, in order, signed.

The rules are those of the outbox (``reservations/provisioning/outbox``), which is bound to the
compute service: a row is inserted in the transaction that it reports; a manager dequeues it by
incrementing its ``attempt`` and commits, sends it outside of any transaction, and deletes the row
if its attempt is still the same. If the manager dies, another one sends it after the deadline. So
a report may come twice; its id tells.

Each URL gets its reports in their order, and one that does not answer delays its own only. The
database has digests of the URLs, because URLs may hold secrets. Source of the headers and the
signature: the Standard Webhooks specification, 1.0.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any
from urllib.parse import urlsplit

import requests
import sqlalchemy as sa
from oslo_config import cfg

from placement_core import db, errors, metrics
from placement_core.context import Context
from placement_core.db import Session, clock
from placement_core.thresholds import tables

LOG = logging.getLogger(__name__)

#: For so long a manager owns a row that it dequeued: longer than a request may take.
_DEADLINE_SECONDS = 120
_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 20
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 600
#: A report that nobody took by then is discarded.
_GIVE_UP_SECONDS = 3 * 86_400
#: How a secret begins that is bytes in base64.
_ENCODED = "whsec_"

_rows = tables.webhook_deliveries
_earlier = _rows.alias("before")
_is_free = sa.or_(_rows.c.deadline_at.is_(None), _rows.c.deadline_at <= clock.now())
_is_owned = (_rows.c.id == sa.bindparam("of_id"), _rows.c.attempt == sa.bindparam("of_attempt"))


def _in_seconds(seconds: int) -> sa.ColumnElement[Any]:
    return clock.in_seconds(sa.literal_column(str(seconds), sa.Integer))


_INSERT = sa.insert(_rows).inline().values(
    attempt=0, next_at=clock.now(), give_up_at=_in_seconds(_GIVE_UP_SECONDS))
#: The first row of each URL, if it is due.
_DUE = (
    sa.select(_rows.c.id, _rows.c.attempt, _rows.c.target, _rows.c.event_id, _rows.c.body,
              (_rows.c.give_up_at <= clock.now()).label("is_late"))
    .where(_rows.c.next_at <= clock.now(), _is_free, ~sa.exists().where(
        _earlier.c.target == _rows.c.target, _earlier.c.id < _rows.c.id))
    .order_by(_rows.c.id))
_DUE_OF = _DUE.where(_rows.c.target == sa.bindparam("digest"))
_DEQUEUE = (
    sa.update(_rows).where(*_is_owned, _is_free)
    .values(attempt=_rows.c.attempt + 1, deadline_at=_in_seconds(_DEADLINE_SECONDS)))
_DELETE = sa.delete(_rows).where(*_is_owned)
_COUNT = sa.select(
    sa.func.count().label("waiting"),
    sa.func.count(sa.case((_rows.c.attempt > 0, _rows.c.id))).label("attempted"))
_RESCHEDULE = sa.update(_rows).where(*_is_owned).values(
    deadline_at=None, next_at=clock.in_seconds(sa.bindparam("pause", type_=sa.Integer)))


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A URL that gets reports.

    :ivar secret: signs them.
    """

    url: str = dataclasses.field(repr=False)
    secret: bytes = dataclasses.field(repr=False)

    @property
    def host(self) -> str | None:
        """Return what may be logged of the URL."""
        return urlsplit(self.url).hostname

    @property
    def digest(self) -> str:
        """Return what stands for the URL in the database."""
        return hashlib.sha256(self.url.encode()).hexdigest()

    def sign(self, event_id: str, second: int, body: bytes) -> str:
        """Return the signature of a report: the value of the header ``webhook-signature``."""
        content = b".".join((event_id.encode(), str(second).encode(), body))
        signature = hmac.digest(self.secret, content, "sha256")
        return f"v1,{base64.b64encode(signature).decode()}"


@dataclasses.dataclass(frozen=True, slots=True)
class UndeliveredReports:
    """How many reports no receiver has taken yet.

    :ivar attempted: how many of them were sent already, at least once.
    """

    waiting: int
    attempted: int


def read_targets(conf: cfg.ConfigOpts) -> list[Target]:
    """Return the configured webhooks, maybe none.

    :raises errors.ConfigurationError: a URL is none, or there is no secret.
    """
    options = conf.thresholds
    if not options.webhook:
        return []
    if not options.webhook_secret:
        raise errors.ConfigurationError(
            "[thresholds] webhook_secret: expected a secret, by which receivers of webhook "
            "check where a report comes from")
    secret = _decode_secret(options.webhook_secret)
    for number, url in enumerate(options.webhook, 1):
        if not _is_http(url):
            raise errors.ConfigurationError(
                f"[thresholds] webhook, number {number}: expected a URL with http or https "
                "and a host")
    return [Target(url, secret) for url in dict.fromkeys(options.webhook)]


def put(session: Session, targets: Sequence[Target], event_id: str, body: str) -> None:
    """Insert a report for each URL; it is sent after the commit."""
    if targets:
        session.execute(_INSERT, [
            {"target": target.digest, "event_id": event_id, "body": body} for target in targets])


@db.retry_writes
def count_undelivered(ctx: Context) -> UndeliveredReports:
    """Count the reports that no receiver has taken yet."""
    with db.read_once(ctx) as session:
        row = session.execute(_COUNT).one()
    return UndeliveredReports(row.waiting, row.attempted)


def deliver(ctx: Context, targets: Sequence[Target]) -> int:
    """Send due reports until none is due; return how many were taken.

    Each URL has a thread of its own. Any number of threads and processes may do so at the same
    time.

    :raises errors.Unavailable: the database does not answer.
    """
    by_digest = {target.digest: target for target in targets}
    digests = [row.target for row in _read_due(ctx)]
    if not digests:
        return 0
    with futures.ThreadPoolExecutor(len(digests), "webhook") as threads:
        return sum(threads.map(lambda digest: _deliver_to(
            dataclasses.replace(ctx), digest, by_digest.get(digest)), digests))


def _deliver_to(ctx: Context, digest: str, target: Target | None) -> int:
    """Do the same for one URL.

    A report is dequeued when it is its turn, so that the deadline is that of its request alone.
    """
    taken = 0
    while (row := _read_due_of(ctx, digest)) is not None and _dequeue(ctx, row):
        taken += _deliver(ctx, row, target)
    return taken


def _deliver(ctx: Context, row: sa.Row[Any], target: Target | None) -> bool:
    """Send a report that this manager owns; return whether it was taken."""
    attempt = {"of_id": row.id, "of_attempt": row.attempt + 1}
    if target is None or row.is_late:
        LOG.error("report %s is discarded: %s", row.event_id,
                  "its webhook is not configured any more" if target is None
                  else f"{target.host} did not take it for days")
        metrics.count_webhook_delivery("given_up")
        _delete(ctx, attempt)
        return False
    problem = _send(target, row.event_id, row.body.encode())
    if problem is None:
        metrics.count_webhook_delivery("done")
        _delete(ctx, attempt)
        return True
    metrics.count_webhook_delivery("failed")
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(row.attempt, 10), _LONGEST_PAUSE_SECONDS)
    LOG.warning("report %s could not be sent to %s, and is sent again: %s", row.event_id,
                target.host, problem)
    _reschedule(ctx, attempt, round(pause * random.uniform(0.5, 1)))  # noqa: S311
    return False


def _send(target: Target, event_id: str, body: bytes) -> str | None:
    """Send a report; return None if it was taken, or else why it was not, without secrets."""
    second = int(time.time())
    try:
        # Redirects are not followed: the URL is the operator's, what it answers is not.
        response = requests.post(
            target.url, data=body, timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
            allow_redirects=False, stream=True, headers={
                "Content-Type": "application/json", "User-Agent": "placement-core",
                "webhook-id": event_id, "webhook-timestamp": str(second),
                "webhook-signature": target.sign(event_id, second, body)})
    except (requests.RequestException, OSError, ValueError) as error:
        return type(error).__name__  # its text has the URL
    with response:
        return None if 200 <= response.status_code < 300 else f"HTTP {response.status_code}"


@db.retry_writes
def _read_due(ctx: Context) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(_DUE).all()


@db.retry_writes
def _read_due_of(ctx: Context, digest: str) -> sa.Row[Any] | None:
    with db.read_once(ctx) as session:
        return session.execute(_DUE_OF, {"digest": digest}).one_or_none()


@db.retry_writes
def _dequeue(ctx: Context, row: sa.Row[Any]) -> bool:
    with db.write(ctx) as session:
        return session.execute(
            _DEQUEUE, {"of_id": row.id, "of_attempt": row.attempt}).rowcount == 1


@db.retry_writes
def _delete(ctx: Context, attempt: dict[str, int]) -> None:
    with db.write(ctx) as session:
        session.execute(_DELETE, attempt)


@db.retry_writes
def _reschedule(ctx: Context, attempt: dict[str, int], pause: int) -> None:
    with db.write(ctx) as session:
        session.execute(_RESCHEDULE, {**attempt, "pause": pause})


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _decode_secret(text: str) -> bytes:
    if not text.startswith(_ENCODED):
        return text.encode()
    try:
        secret = base64.b64decode(text.removeprefix(_ENCODED), validate=True)
    except binascii.Error:
        secret = b""
    if not secret:
        raise errors.ConfigurationError(
            f"[thresholds] webhook_secret: expected base64 behind {_ENCODED}")
    return secret
