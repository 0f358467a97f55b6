"""Whether a compute node has to be migrated, and what is remembered of it."""

from __future__ import annotations

import dataclasses

from placement_core.cells.records import Cell
from placement_core.compute import migration
from placement_core.compute.migration import MigratedNode
from placement_core.compute.offers import Offer
from tests import base
from tests.unit.compute import samples

CELL = Cell(1, "cell-uuid", "cell1", "", "", disabled=False)
FACTS = {"VCPU": (4, None), "DISK_GB": (10, None)}


class TestIsDue(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.node = samples.row()
        self.offer = Offer({}, FACTS, ())
        self.migrated = MigratedNode("uuid", CELL.uuid, self.node.id, dict(FACTS))

    def is_due(self, migrated: MigratedNode | None, offer: Offer | None = None) -> bool:
        return migration.is_due(migrated, CELL, self.node, offer or self.offer)

    def test_not_migrated(self) -> None:
        self.assertTrue(self.is_due(None))

    def test_unchanged(self) -> None:
        self.assertFalse(self.is_due(self.migrated))

    def test_changed(self) -> None:
        self.assertTrue(self.is_due(self.migrated, Offer({}, {**FACTS, "VCPU": (8, None)}, ())))
        self.assertTrue(self.is_due(self.migrated, Offer({}, {"VCPU": (4, None)}, ())))

    def test_another_node_had_the_uuid(self) -> None:
        for other in ({"node_id": self.node.id + 1}, {"cell_uuid": "another"}):
            self.assertTrue(self.is_due(dataclasses.replace(self.migrated, **other)), other)

    def test_what_cannot_be_parsed_is_no_change(self) -> None:
        unclear = Offer({}, {"VCPU": (4, None)}, ("pci_stats cannot be understood",))
        self.assertFalse(self.is_due(self.migrated, unclear))
