"""Enforcement decisions, made in this process: their time, and what they ask the database."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from benchmarks import limits
from placement_core import services
from placement_core.conf import loading
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota.decisions import Decision, Decisions

#: A decision is about one more of each.
_DELTAS = dict.fromkeys(limits.HELD, 1)
#: What begins and ends a transaction asks nothing.
_CONTROL = ("BEGIN", "START", "SET", "COMMIT", "ROLLBACK")


@dataclasses.dataclass(frozen=True)
class Cold:
    """The first decision of a process.

    :ivar statements: that it sent, without BEGIN and COMMIT.
    """

    milliseconds: float
    statements: int


class Decider:
    """Decides on claims of a project at the bottom of a tree, by the rules of the model ``tree``.

    :ivar projects: the ids of all projects of the tree.
    """

    def __init__(self, placement_conf: pathlib.Path, dataset: limits.Dataset) -> None:
        """Look up what the claims are about.

        :param placement_conf: names a database with the dataset in it.
        :raises RuntimeError: decisions are wrong.
        """
        self._conf = loading.load(config_files=[str(placement_conf)], config_dirs=[])
        self._conf.set_override("enforcement_model", "tree", "limits")
        self._parts = services.build(self._conf)
        ctx, catalog = self._parts.context(), self._parts.catalog
        [service] = catalog.services(ctx, service_type=limits.SERVICE)
        [domain] = catalog.domains(ctx, name=limits.DOMAIN)
        found = catalog.projects(ctx, domain_id=domain.id)
        self.projects = [project.id for project in found]
        self._lowest = next(project.id for project in found if project.name == dataset.lowest)
        self._service = service.id
        self._decisions = _decisions(self._parts)
        self._check()

    def close(self) -> None:
        """Close what is connected."""
        self._parts.database.dispose()

    def warm(self) -> float:
        """Decide with what earlier decisions left behind; return the milliseconds."""
        return self._timed(self._decisions, self._parts)

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
            milliseconds = self._timed(_decisions(parts), parts)
        finally:
            database.dispose()
        return Cold(milliseconds, sum(not one.startswith(_CONTROL) for one in sent))

    def _timed(self, decisions: Decisions, parts: services.Services) -> float:
        started = time.perf_counter()
        decision = self._decide(decisions, parts, _DELTAS)
        taken = (time.perf_counter() - started) * 1000
        if not decision.fits:
            raise RuntimeError(f"refused: {decision.excesses[0]}")
        return taken

    def _decide(
        self, decisions: Decisions, parts: services.Services, deltas: Mapping[str, int]
    ) -> Decision:
        """Ask: here and nowhere else."""
        return decisions.decide(
            parts.context(), project_id=self._lowest, deltas=deltas, service_id=self._service,
            region_id=limits.REGION)

    def _check(self) -> None:
        """See that every level binds, and that all that is held counts at the top."""
        excesses = self._decide(
            self._decisions, self._parts, dict.fromkeys(limits.HELD, limits.ENOUGH)).excesses
        for resource, amount in limits.HELD.items():
            usages = [each.usage for each in excesses if each.resource_name == resource]
            if len(usages) != limits.LEVELS or max(usages) != amount * len(self.projects):
                raise RuntimeError(f"{resource} of {len(self.projects)} projects: {usages}")


def _decisions(parts: services.Services) -> Decisions:
    return Decisions(UsageIndex(parts.database), parts.catalog, parts.limits, parts.model)
