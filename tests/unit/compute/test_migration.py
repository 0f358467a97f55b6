"""Whether a compute node has to be migrated, and what is remembered of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

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
        self.offer = self.make_offer(FACTS)
        self.migrated = MigratedNode("uuid", CELL.uuid, self.node.id, dict(FACTS))

    def make_offer(self, facts: Any, *remarks: str, unclear: Collection[str] = ()) -> Offer:
        return Offer({}, facts, remarks, frozenset(unclear))

    def is_due(self, migrated: MigratedNode | None, offer: Offer | None = None) -> bool:
        return migration.is_due(migrated, CELL, self.node, offer or self.offer)

    def test_not_migrated(self) -> None:
        self.assertTrue(self.is_due(None))

    def test_unchanged(self) -> None:
        self.assertFalse(self.is_due(self.migrated))

    def test_changed(self) -> None:
        self.assertTrue(self.is_due(
            self.migrated, self.make_offer({**FACTS, "VCPU": (8, None)})))
        self.assertTrue(self.is_due(self.migrated, self.make_offer({"VCPU": (4, None)})))

    def test_another_node_had_the_uuid(self) -> None:
        for other in ({"node_id": self.node.id + 1}, {"cell_uuid": "another"}):
            self.assertTrue(self.is_due(dataclasses.replace(self.migrated, **other)), other)

    def test_what_cannot_be_parsed_is_no_change(self) -> None:
        remark = "there are None of DISK_GB; they are not counted"
        for unclear, due in (("DISK_GB", False), ("PCI_DEVICE", True)):
            self.assertEqual(due, self.is_due(self.migrated, self.make_offer(
                {"VCPU": (4, None)}, remark, unclear={unclear})), unclear)

    def test_what_is_not_counted_hides_nothing(self) -> None:
        """A device of a type that no class is for, say."""
        self.assertTrue(self.is_due(self.migrated, self.make_offer(
            {"VCPU": (4, None)}, "3 PCI devices are of type 'vdpa'")))
