"""The base of tests that claim: short ways to write and to look."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.placement import allocations, providers, tables
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import (
    ANY_GENERATION,
    AllocationWrite,
    AnyGeneration,
    Provider,
)
from placement_core.placement.usage import audit, usages
from placement_core.testing import factories
from tests import base


class ClaimsTestCase(base.DatabaseTestCase):
    """A test with short ways to claim; in the end the audit must find nothing."""

    def setUp(self) -> None:
        super().setUp()
        self.consumer = factories.new_uuid()
        self.owners = Owners()
        self.addCleanup(self.assert_audit_clean)

    def provider(self, **inventory) -> Provider:
        return factories.provider(self.ctx, inventory=inventory)

    def write(
        self, held: Mapping[Provider | str, Mapping[str, int]], *, consumer: str | None = None,
        project: str = "project", user: str = "user", kind: str | None = "INSTANCE",
        seen: int | AnyGeneration | None = ANY_GENERATION,
    ) -> AllocationWrite:
        return AllocationWrite(
            consumer or self.consumer,
            {getattr(key, "uuid", key): resources for key, resources in held.items()},
            project, user, kind, seen)

    def claim(self, held, *, ctx: Context | None = None, **options) -> None:
        allocations.replace(ctx or self.ctx, [self.write(held, **options)], owners=self.owners)

    def used(self, provider: Provider) -> dict[str, int]:
        return dict(usages.for_provider(self.ctx, provider.uuid).usages)

    def held(self, consumer: str | None = None) -> dict[str, dict[str, int]]:
        """Return {provider uuid: {class: amount}}."""
        found = allocations.list_for_consumer(self.ctx, consumer or self.consumer)
        return {} if found is None else {
            uuid: dict(share.resources) for uuid, share in found.providers.items()}

    def generation(self, subject: Provider | str) -> int | None:
        """Return the present generation of a provider or a consumer."""
        if isinstance(subject, Provider):
            return providers.get(self.ctx, subject.uuid).generation
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(tables.consumers.c.generation)
                .where(tables.consumers.c.uuid == subject))

    def revision(self, provider: Provider) -> int:
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(tables.resource_providers.c.revision)
                .where(tables.resource_providers.c.id == provider.id))

    def count(self, table: sa.Table) -> int:
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(table))

    def assert_audit_clean(self) -> None:
        self.assertEqual([], audit.audit(self.context(), repair=False))
