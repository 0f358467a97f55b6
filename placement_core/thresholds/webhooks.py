"""Delivers reports to webhooks: at least once, in order, signed.

The rules are those of the outbox (``reservations/provisioning/outbox``), which is bound to the
compute service: a row is inserted in the transaction that it reports; a manager dequeues it by
incrementing its ``attempt`` and commits, sends it outside of any transaction, and deletes the row
if its attempt is still the same. If the manager dies, another one sends it after the deadline. So
a report may come twice; its id tells.

Each URL is a task of the manager, in a daemon thread of its own, and gets its reports in their
order. A run of the task sends one report, and gives its request up after ``_REQUEST_SECONDS`` as a
whole, whatever the receiver does. So a receiver that is slow, or does not answer, or does not come
to the end of its answer, delays its own reports only; and a manager that is told to stop sends no
further report, and waits for the one that it sends for that long at most.

The database has digests of the URLs, because URLs may hold secrets. Source of the headers and the
signature: the Standard Webhooks specification, 1.0.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import logging
import queue
import random
import threading
import time
from collections.abc import Sequence
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
#: How long a request may take as a whole; less than a manager waits for its threads at the end.
_REQUEST_SECONDS = 25
#: How long a receiver may be silent before and after it has accepted the connection.
_CONNECT_SECONDS, _SILENT_SECONDS = 5, 20
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 600
#: A report that nobody took by then is discarded.
_GIVE_UP_SECONDS = 3 * 86_400
#: How many of these one run discards.
_DISCARD_BATCH = 100
#: How a secret begins that is bytes in base64.
_ENCODED = "whsec_"

_rows = tables.webhook_deliveries
_of_target = _rows.alias("of_target")
_is_free = sa.or_(_rows.c.deadline_at.is_(None), _rows.c.deadline_at <= clock.now())
#: With the report's id, because SQLite gives the id of the last row to the next one once that
#: is gone.
_is_owned = (_rows.c.id == sa.bindparam("of_id"), _rows.c.attempt == sa.bindparam("of_attempt"),
             _rows.c.event_id == sa.bindparam("of_event"))


def _in_seconds(seconds: int) -> sa.ColumnElement[Any]:
    return clock.in_seconds(sa.literal_column(str(seconds), sa.Integer))


_INSERT = sa.insert(_rows).inline().values(
    attempt=0, next_at=clock.now(), give_up_at=_in_seconds(_GIVE_UP_SECONDS))
#: The first row of a URL, if it is due. The index answers which row that is, however many wait.
_DUE = (
    sa.select(_rows.c.id, _rows.c.attempt, _rows.c.event_id, _rows.c.body)
    .where(_rows.c.id == sa.select(sa.func.min(_of_target.c.id)).where(
        _of_target.c.target == sa.bindparam("digest")).scalar_subquery(),
        _rows.c.next_at <= clock.now(), _rows.c.give_up_at > clock.now(), _is_free))
#: Rows that nobody took for days.
_LATE = (
    sa.select(_rows.c.id, _rows.c.attempt, _rows.c.event_id, _rows.c.target)
    .where(_rows.c.give_up_at <= clock.now(), _is_free)
    .order_by(_rows.c.id).limit(sa.bindparam("most")))
_DEQUEUE = (
    sa.update(_rows).where(*_is_owned, _is_free)
    .values(attempt=_rows.c.attempt + 1, deadline_at=_in_seconds(_DEADLINE_SECONDS)))
_DELETE = sa.delete(_rows).where(*_is_owned)
_DELETE_FREE = _DELETE.where(_is_free)
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


class Sender:
    """Sends the reports of one URL, one after the other; for one thread.

    Any number of threads and processes may have one for the same URL.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        #: The thread of the last request.
        self._request: threading.Thread | None = None

    def deliver(self, ctx: Context) -> bool:
        """Send the first report if it is due; return whether it was taken, so there may be more.

        A report is dequeued when it is its turn, so that the deadline is that of its request
        alone. While the last request has not ended, none is: another manager may send it.

        :raises errors.Unavailable: the database does not answer.
        """
        if self._request is not None and self._request.is_alive():
            return False
        row = _read_due(ctx, self._target.digest)
        if row is None or not _dequeue(ctx, row):
            return False
        attempt = {**_identify(row), "of_attempt": row.attempt + 1}
        problem = self._send(row.event_id, row.body.encode())
        if problem is None:
            metrics.count_webhook_delivery("done")
            _delete(ctx, attempt)
            return True
        metrics.count_webhook_delivery("failed")
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(row.attempt, 10), _LONGEST_PAUSE_SECONDS)
        LOG.warning("report %s could not be sent to %s, and is sent again: %s", row.event_id,
                    self._target.host, problem)
        _reschedule(ctx, attempt, round(pause * random.uniform(0.5, 1)))  # noqa: S311
        return False

    def _send(self, event_id: str, body: bytes) -> str | None:
        """Send a report; return None if it was taken, or else why it was not, without secrets.

        In a thread, because a receiver that sends something now and then may keep it for ever.
        """
        answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._request = threading.Thread(
            target=lambda: answers.put(_post(self._target, event_id, body)),
            name="webhook request", daemon=True)
        self._request.start()
        try:
            problem = answers.get(timeout=_REQUEST_SECONDS)
        except queue.Empty:
            return f"no answer in {_REQUEST_SECONDS} s"
        # It ends now; the next report may be sent.
        self._request.join()
        return problem


def discard_late(ctx: Context, targets: Sequence[Target]) -> bool:
    """Discard reports that nobody took for days; return whether there may be more.

    To whichever URL: managers that were not restarted since these changed do not have all of them.

    :param targets: the URLs of this manager; the log says whose report is discarded.
    :raises errors.Unavailable: the database does not answer.
    """
    hosts = {target.digest: target.host for target in targets}
    rows = _read_late(ctx)
    for row in rows:
        if _delete_free(ctx, row):
            metrics.count_webhook_delivery("given_up")
            LOG.error("report %s is discarded: %s", row.event_id,
                      f"{hosts[row.target]} did not take it for days" if row.target in hosts
                      else "nobody took it for days, and this manager has no such webhook")
    return len(rows) == _DISCARD_BATCH


def _post(target: Target, event_id: str, body: bytes) -> str | None:
    second = int(time.time())
    try:
        # Redirects are not followed: the URL is the operator's, what it answers is not.
        response = requests.post(
            target.url, data=body, timeout=(_CONNECT_SECONDS, _SILENT_SECONDS),
            allow_redirects=False, stream=True, headers={
                "Content-Type": "application/json", "User-Agent": "placement-core",
                "webhook-id": event_id, "webhook-timestamp": str(second),
                "webhook-signature": target.sign(event_id, second, body)})
    except Exception as error:  # noqa: BLE001  whatever it is, nobody took the report
        return type(error).__name__  # its text has the URL
    with response:
        return None if 200 <= response.status_code < 300 else f"HTTP {response.status_code}"


@db.retry_writes
def _read_due(ctx: Context, digest: str) -> sa.Row[Any] | None:
    with db.read_once(ctx) as session:
        return session.execute(_DUE, {"digest": digest}).one_or_none()


@db.retry_writes
def _read_late(ctx: Context) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(_LATE, {"most": _DISCARD_BATCH}).all()


@db.retry_writes
def _dequeue(ctx: Context, row: sa.Row[Any]) -> bool:
    with db.write(ctx) as session:
        return session.execute(_DEQUEUE, _identify(row)).rowcount == 1


@db.retry_writes
def _delete(ctx: Context, attempt: dict[str, Any]) -> None:
    with db.write(ctx) as session:
        session.execute(_DELETE, attempt)


@db.retry_writes
def _delete_free(ctx: Context, row: sa.Row[Any]) -> bool:
    with db.write(ctx) as session:
        return session.execute(_DELETE_FREE, _identify(row)).rowcount == 1


@db.retry_writes
def _reschedule(ctx: Context, attempt: dict[str, Any], pause: int) -> None:
    with db.write(ctx) as session:
        session.execute(_RESCHEDULE, {**attempt, "pause": pause})


def _identify(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the parameters of ``_is_owned`` for a row as it was read."""
    return {"of_id": row.id, "of_attempt": row.attempt, "of_event": row.event_id}


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
