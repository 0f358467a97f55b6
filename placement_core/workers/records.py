"""What is known of workers and of refusals."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

#: A worker that has not reported for longer is gone.
SILENT_SECONDS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """What makes two refusals equal.

    :ivar operation: method and path of the operation; of requests that meet none, the method.
    :ivar status: of the answer, from 400 on.
    :ivar code: the stable code of the error.
    :ivar project_id, user_id: of the caller; None: not known.
    """

    operation: str
    status: int
    code: str
    project_id: str | None
    user_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Equal refusals of requests.

    :ivar at, first_at: the last and the first of them; aware.
    :ivar times: how many there were.
    :ivar request_id: of the last request; ``detail``: what it was told. None: not known.
    """

    cause: Cause
    at: datetime.datetime
    first_at: datetime.datetime
    times: int
    request_id: str | None
    detail: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class RefusalReport:
    """A refusal as a worker reports it.

    :ivar seconds_ago, first_seconds_ago: when it was, before the moment of the report: clocks of
        machines differ.
    """

    cause: Cause
    seconds_ago: int
    first_seconds_ago: int
    times: int
    request_id: str | None
    detail: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker reports about itself.

    :ivar version: of the service.
    :ivar seconds_since_start: before the moment of the report.
    :ivar seconds_since_index: before it, when the index read what had changed; None: it is not
        loaded.
    :ivar index_providers: how many providers the index has.
    :ivar in_flight: how many requests it processes, or lets wait.
    :ivar requests: how many it had since it started; ``refusals``: how many of them it refused,
        ``refusals_last_minute`` in the last minute, ``codes`` by the code of the error.
    """

    uuid: str
    host: str
    process_id: int
    version: str
    seconds_since_start: int
    seconds_since_index: int | None
    index_providers: int | None
    in_flight: int
    requests: int
    refusals: int
    refusals_last_minute: int
    codes: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Worker:
    """A worker as it reported last; see ``WorkerReport``.

    :ivar seen_at: when that was; aware, like ``started_at`` and ``index_read_at``.
    :ivar silent_seconds: how long ago that was, by the database's clock.
    """

    uuid: str
    host: str
    process_id: int
    version: str
    started_at: datetime.datetime
    seen_at: datetime.datetime
    silent_seconds: float
    index_read_at: datetime.datetime | None
    index_providers: int | None
    in_flight: int
    requests: int
    refusals: int
    refusals_last_minute: int
    codes: Mapping[str, int]

    @property
    def is_alive(self) -> bool:
        """Say whether it counts as alive."""
        return self.silent_seconds < SILENT_SECONDS
