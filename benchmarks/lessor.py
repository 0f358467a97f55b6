"""Leases asked for in this process, to count what they ask of the database."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import sqlalchemy as sa

from benchmarks import leases
from placement_core import services
from placement_core.conf import loading
from placement_core.context import Context, Identity
from placement_core.db import PreparedRead
from placement_core.http.leases_api import requests as bodies
from placement_core.plugin_api.reservations import DoesNotFit

#: What there are datasets of, by the number of leases.
DATASETS = {"100k": leases.Dataset(1000, years=10), "10k": leases.Dataset(1000),
            "1k": leases.Dataset(100)}
PROJECT = "bench"
DAY = datetime.timedelta(days=1)
#: What begins and ends a transaction asks nothing.
_CONTROL = ("BEGIN", "START", "SET", "COMMIT", "ROLLBACK")


def make_lease(name: str, start: datetime.datetime) -> dict[str, Any]:
    """Return the body of an instance lease of four slots for a day, each on another host."""
    return {
        "name": name, "start_date": leases.text(start), "end_date": leases.text(start + DAY),
        "reservations": [{
            "resource_type": "virtual:instance", **leases.SLOT, "amount": 4, "affinity": False,
            "resource_properties": ""}],
    }


class Lessor:
    """Asks for leases in this process, and counts what that asks of the database."""

    def __init__(self, placement_conf: pathlib.Path) -> None:
        """Build the service.

        :param placement_conf: names a database with a dataset of leases in it.
        """
        self._parts = services.build(loading.load(
            config_files=[str(placement_conf)], config_dirs=[]))
        self._count = 0
        database = self._parts.database
        for engine in (database.writer, database.snapshot, database.autocommit):
            sa.event.listen(engine, "before_cursor_execute", self._note)
        self.statements(leases.YEAR)  # connects

    def close(self) -> None:
        """Close what is connected."""
        self._parts.database.dispose()

    def statements(self, start: datetime.datetime) -> int:
        """Ask for a lease; return how many statements were sent, without BEGIN and COMMIT."""
        caller = Identity(user_id=PROJECT, project_id=PROJECT, roles=("admin",))
        new = bodies.parse_new_lease(make_lease("bench", start), caller, "")
        self._count = 0
        with mock.patch.object(PreparedRead, "fetch", self._asking()):
            with contextlib.suppress(DoesNotFit):
                self._parts.leases.create(self._parts.context(caller), new)
        return self._count

    def _asking(self) -> Callable[..., Sequence[Any]]:
        """Return a ``PreparedRead.fetch`` that counts: it goes to the driver past the engine."""
        fetch = PreparedRead.fetch

        def counted(
            read: PreparedRead, ctx: Context, parameters: Mapping[str, Any] | None = None
        ) -> Sequence[Any]:
            self._count += ctx.session is None
            return fetch(read, ctx, parameters)

        return counted

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        self._count += not statement.startswith(_CONTROL)
