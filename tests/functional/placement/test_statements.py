"""How many statements the reads of providers and their belongings take."""

import functools

import sqlalchemy as sa

from placement_core.placement import aggregates, inventories, providers, resource_classes, traits
from placement_core.testing import factories
from tests import base


class TestReads(base.DatabaseTestCase):

    def test_one_statement_each(self):
        provider = factories.provider(
            self.ctx, parent=factories.provider(self.ctx),
            inventory={"VCPU": 4, "DISK_GB": 9}, traits=["HW_CPU_X86_MMX", "CUSTOM_A"],
            aggregates=[factories.new_uuid(), factories.new_uuid()])
        for read in (
            functools.partial(providers.get, uuid=provider.uuid),
            functools.partial(inventories.list_, provider_uuid=provider.uuid),
            functools.partial(inventories.get, provider_uuid=provider.uuid,
                              resource_class="VCPU"),
            functools.partial(traits.list_for_provider, uuid=provider.uuid),
            functools.partial(aggregates.list_for_provider, uuid=provider.uuid),
            traits.list_,
            functools.partial(traits.list_, names=["CUSTOM_A"], prefix="CUSTOM", associated=True),
            functools.partial(traits.get, name="CUSTOM_A"),
            resource_classes.list_,
            functools.partial(resource_classes.get, name="VCPU"),
        ):
            seen = []

            def note(_connection, _cursor, statement, *_, seen=seen):
                if not statement.startswith("BEGIN"):
                    seen.append(statement)

            sa.event.listen(self.database.snapshot, "before_cursor_execute", note)
            read(self.ctx)
            sa.event.remove(self.database.snapshot, "before_cursor_execute", note)
            self.assertEqual(1, len(seen), seen)
