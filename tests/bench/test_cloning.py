"""Hosts that are cloned by SQL are those that would have been loaded over HTTP."""

from __future__ import annotations

import contextlib
import dataclasses

import fixtures
import sqlalchemy as sa

from benchmarks import cloning, datasets
from placement_core.placement import aggregates, inventories, providers, traits
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base, databases

_PERIOD = 2


@dataclasses.dataclass
class _Server:
    """As much of a ``benchmarks.databases.Server`` as cloning uses."""

    kind: str
    engine: sa.Engine

    def connect(self, name: str) -> contextlib.AbstractContextManager[sa.Connection]:
        return self.engine.connect()


class TestPeriod(base.TestCase):
    def test_a_host_has_what_the_one_a_period_before_has(self):
        for shape in ("flat", "tree", "devices", "pool"):
            dataset = datasets.Dataset(shape, 2 * datasets.PERIOD)
            for number in range(datasets.PERIOD):
                units = (dataset.unit(number), dataset.unit(number + datasets.PERIOD))
                for one, other in zip(*units, strict=True):
                    self.assertEqual(
                        (one.inventories, sorted(one.traits), one.aggregates),
                        (other.inventories, sorted(other.traits), other.aggregates))
                    self.assertNotEqual((one.uuid, one.name), (other.uuid, other.name))


@databases.on_each_database
class TestCloning(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch("benchmarks.datasets.PERIOD", _PERIOD))

    def test_trees(self):
        dataset = datasets.Dataset("tree", 5)
        for number in range(_PERIOD):
            for provider in dataset.unit(number):
                factories.provider(
                    self.ctx, provider.name, uuid=provider.uuid, parent=provider.parent,
                    inventory={name: InventoryValues(**values)
                               for name, values in provider.inventories.items()},
                    traits=provider.traits, aggregates=provider.aggregates)

        cloning.clone_hosts(_Server(self.kind, self.database.autocommit), "", dataset)

        for number in range(dataset.hosts):
            root, *_ = unit = dataset.unit(number)
            for provider, source in zip(unit, dataset.unit(number % _PERIOD), strict=True):
                row = providers.get(self.ctx, provider.uuid)
                self.assertEqual(
                    (provider.name, provider.parent, root.uuid,
                     providers.get(self.ctx, source.uuid).generation),
                    (row.name, row.parent_uuid, row.root_uuid, row.generation))
                self.assertEqual(self.read(source), self.read(provider))
                self.assertEqual(set(provider.inventories), {
                    inventory.resource_class for inventory in self.read(provider)[0]})
        # Later providers get ids of their own.
        factories.provider(self.ctx, "later")

    def read(self, provider):
        uuid = provider.uuid
        return (inventories.list_(self.ctx, uuid).inventories,
                {trait.name for trait in traits.list_for_provider(self.ctx, uuid).traits},
                set(aggregates.list_for_provider(self.ctx, uuid).uuids))
