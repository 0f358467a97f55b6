"""One enforcement decision, made in this process: its time, and what it asks the database."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from typing import Any

import sqlalchemy as sa

from benchmarks import limits
from placement_core import services
from placement_core.conf import loading

#: A decision is about one more of each.
_DELTAS = dict.fromkeys(limits.HELD, 1)


@dataclasses.dataclass(frozen=True)
class Cold:
    """A decision by parts that had cached nothing.

    :ivar statements: that it sent, without BEGIN and COMMIT.
    """

    milliseconds: float
    statements: int


class Decider:
    """Decides on claims of one project, by the rules of the model ``tree``."""

    def __init__(self, placement_conf: pathlib.Path, project: str) -> None:
        """Look up what the claims are about.

        :param placement_conf: names a database with a tree in it.
        :param project: the name of a project.
        """
        # Here, so that only who measures decisions needs the quota room.
        from placement_core.quota import decisions

        self._decide = decisions.decide
        self._conf = loading.load(config_files=[str(placement_conf)], config_dirs=[])
        self._conf.set_override("enforcement_model", "tree", "limits")
        self._kept = services.build(self._conf)
        ctx = self._kept.context()
        catalog = self._kept.catalog
        [service] = catalog.services(ctx, service_type=limits.SERVICE)
        [found] = catalog.projects(ctx, name=project)
        self._about = {"service_id": service.id, "region_id": limits.REGION,
                       "project_id": found.id}

    def close(self) -> None:
        """Close what is connected."""
        self._kept.database.dispose()

    def warm(self) -> float:
        """Decide with what earlier decisions left behind; return the milliseconds."""
        return self._timed(self._kept)

    def cold(self) -> Cold:
        """Decide with connections, and nothing else left behind."""
        parts = services.build(self._conf)
        database = parts.database
        sent: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
            sent.append(statement)

        try:
            for engine in (database.writer, database.snapshot, database.autocommit):
                with engine.connect() as connection:
                    connection.exec_driver_sql("SELECT 1")
                    connection.rollback()
                sa.event.listen(engine, "before_cursor_execute", note)
            milliseconds = self._timed(parts)
        finally:
            database.dispose()
        return Cold(milliseconds, sum(not statement.startswith("BEGIN") for statement in sent))

    def _timed(self, parts: services.Services) -> float:
        ctx = parts.context()
        started = time.perf_counter()
        self._decide(ctx, catalog=parts.catalog, limits=parts.limits, model=parts.model,
                     deltas=_DELTAS, **self._about)
        return (time.perf_counter() - started) * 1000
