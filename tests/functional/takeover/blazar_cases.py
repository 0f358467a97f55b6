"""The base of tests of copies of Blazar: its database, and two hosts of ours in no freepool."""

from __future__ import annotations

import datetime
import unittest
from collections import Counter
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import inventories, providers, tables as placement_tables
from placement_core.placement.records import Provider
from placement_core.reservations import tables
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import Lease
from placement_core.takeover import blazar, blazar_tables, blazar_targets, copying, sources
from placement_core.takeover.records import Contents, Item, Outcome, Surroundings
from placement_core.takeover.sources import Source
from placement_core.testing import factories
from tests import blazar_databases, blazar_rows
from tests.blazar_rows import LeaseRows
from tests.functional.reservations import pool_cases
from tests.functional.reservations.test_lives import LifeTestCase
from tests.functional.takeover import comparing

_SOURCE = Source(blazar_tables.SOURCE, blazar.KINDS, blazar_tables.SCHEMA, blazar.read)
_MINUTE = datetime.timedelta(minutes=1)


@unittest.skipUnless(blazar_databases.INSTALLED, "Blazar is not installed")
class BlazarTestCase(LifeTestCase):
    """Hosts one and two are in Blazar, as 1 and 2, and only providers here."""

    def setUp(self) -> None:
        super().setUp()
        self.url = blazar_databases.empty(self.kind)
        self.source = blazar_databases.Tables(self.url)
        self.addCleanup(self.source.dispose)
        self.fill()

    def fill(self) -> None:
        """Write what is in Blazar at first."""
        self.source.insert([blazar_rows.host("1", "one"), blazar_rows.host("2", "two")])

    def host(self, name: str, *_: Any, **__: Any) -> Provider:
        """Make the provider of a host, as nova does."""
        return factories.provider(self.ctx, name, inventory=pool_cases.SIZES)

    def add(self, *leases: LeaseRows) -> None:
        for rows in leases:
            self.source.insert(rows)

    def now(self, hours: float = 0) -> datetime.datetime:
        """Return a time near the present, as Blazar writes it."""
        at = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, second=0, microsecond=0)
        return at + datetime.timedelta(hours=hours)

    def running(self, *, hours: float = 2) -> LeaseRows:
        """Return a lease that runs since two hours, and for so many yet."""
        return LeaseRows("ACTIVE", start=self.now(-2), days=(2 + hours) / 24, project_id="project")

    # The copy ----------------------------------------------------------------------

    def read(self) -> Contents:
        return sources.read(_SOURCE, self.url, Surroundings(
            None, None, (), providers=blazar_targets.read_providers(self.context()),
            reservation_plugins=self.parts.reservation_plugins))

    def check(self) -> list[Item]:
        return copying.check(
            self.context(), _SOURCE, self.read(), blazar_targets.list_targets())

    def copy(self, *, prune: bool = False, report: Any = lambda *_: None) -> list[Item]:
        return copying.copy(
            self.context(), _SOURCE, self.read(), blazar_targets.list_targets(),
            prune=prune, report=report)

    def diff(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [(item.id, str(item.outcome), dict(item.differences)) for item in comparing.diff(
            self.context(), [(_SOURCE, self.read())], blazar_targets.list_targets())]

    def left_out(self) -> dict[str, int]:
        """Return how many records of which kinds a comparison finds that cannot be copied."""
        return dict(comparing.compare(
            self.context(), [(_SOURCE, self.read())], blazar_targets.list_targets()).left_out)

    def count(self, items: list[Item]) -> dict[str, int]:
        return dict(Counter(str(item.outcome) for item in items))

    def reasons(self, items: list[Item], outcome: Outcome) -> dict[str, str]:
        return {item.id: item.reason for item in items if item.outcome is outcome}

    # What is here ------------------------------------------------------------------

    def get(self, rows: LeaseRows) -> Lease:
        return lease_queries.get(self.context(), rows.id)

    def host_rows(self) -> dict[str, Any]:
        with db.read_once(self.context()) as session:
            return {row.name: row for row in session.execute(sa.select(tables.computehosts))}

    def child(self, name: str) -> Provider:
        """Return the provider for the slots on a host."""
        resource_providers = placement_tables.resource_providers
        with db.read_once(self.context()) as session:
            uuid = session.execute(
                sa.select(resource_providers.c.uuid)
                .join(tables.computehosts, tables.computehosts.c.reservation_provider_id
                      == resource_providers.c.id)
                .where(tables.computehosts.c.name == name)).scalar_one()
        return providers.get(self.context(), uuid)

    def slots(self, name: str) -> dict[str, int]:
        """Return the inventories of the slots on a host."""
        held = inventories.list_(self.context(), self.child(name).uuid).inventories
        return {inventory.resource_class: inventory.values.total for inventory in held}

    def versions(self) -> dict[str, int]:
        with db.read_once(self.context()) as session:
            return {row.id: row.version for row in session.execute(sa.select(
                tables.leases.c.id, tables.leases.c.version))}
