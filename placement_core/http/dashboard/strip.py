"""The strip at the top of each page: which service this is, and how it does."""

from __future__ import annotations

import dataclasses

from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import sections
from placement_core.http.dashboard.sections import Section
from placement_core.http.operations import Call
from placement_core.reservations.manager import backlog
from placement_core.reservations.manager.backlog import Backlog

#: The engines as people call them, by SQLAlchemy's dialect.
_ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MySQL or MariaDB"}


@dataclasses.dataclass(frozen=True, slots=True)
class Strip:
    """What the strip shows.

    :ivar region: whose limits count; None: the only one.
    :ivar engine: of the database.
    :ivar backlog: of the managers.
    """

    region: str | None
    engine: str
    backlog: Section[Backlog]


def read(call: Call) -> Strip:
    """Read the strip of a page. Who may see how much room there is sees the managers, too."""
    dialect = call.services.database.dialect
    return Strip(
        call.services.conf.quota.region or None, _ENGINES.get(dialect, dialect),
        sections.read(call, policies.ROOM_SHOW, lambda: backlog.measure(call.ctx)))
