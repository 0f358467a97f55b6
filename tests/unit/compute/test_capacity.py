"""What may be saved of a compute node's capacity."""

from __future__ import annotations

import math

from placement_core.compute import capacity, errors
from placement_core.placement.records import InventoryValues
from tests import base


class TestValidate(base.TestCase):
    def test_valid(self) -> None:
        for changes in (
            {}, {"vcpus": 0}, {"memory_mb": 2**31 - 1}, {"cpu_allocation_ratio": 16},
            {"local_gb": 5, "disk_allocation_ratio": 0.5},
        ):
            capacity.validate(changes)

    def test_invalid(self) -> None:
        for field, value in (
            ("vcpus", -1), ("vcpus", 1.5), ("vcpus", True), ("vcpus", "4"), ("vcpus", 2**31),
            ("ram_allocation_ratio", 0), ("ram_allocation_ratio", math.inf),
            ("ram_allocation_ratio", math.nan), ("host", "other"),
        ):
            error = self.assertRaises(
                errors.InvalidComputeNode, capacity.validate, {field: value})
            self.assertEqual(field, error.field, value)


class TestChange(base.TestCase):
    """One inventory with another amount or ratio."""

    def change(
        self, before: InventoryValues | None, amount: int | None = None,
        ratio: float | None = None, default: InventoryValues | None = None,
    ) -> InventoryValues | None:
        return capacity._change_inventory(before, default, amount, ratio)

    def test_max_unit_follows_the_amount(self) -> None:
        self.assertEqual(
            InventoryValues(total=20, max_unit=20),
            self.change(InventoryValues(total=10, max_unit=10), 20))

    def test_a_smaller_max_unit_stays(self) -> None:
        before = InventoryValues(total=10, max_unit=4)
        self.assertEqual(InventoryValues(total=20, max_unit=4), self.change(before, 20))
        self.assertEqual(InventoryValues(total=2, max_unit=2), self.change(before, 2))

    def test_no_more_is_reserved_than_there_is(self) -> None:
        before = InventoryValues(total=10, max_unit=10, reserved=5)
        self.assertEqual(InventoryValues(total=3, max_unit=3, reserved=3), self.change(before, 3))

    def test_the_ratio_alone(self) -> None:
        self.assertEqual(
            InventoryValues(total=10, max_unit=10, allocation_ratio=2.0),
            self.change(InventoryValues(total=10, max_unit=10), ratio=2))

    def test_none_of_it(self) -> None:
        self.assertIsNone(self.change(InventoryValues(total=10, max_unit=10), 0))
        self.assertIsNone(self.change(None, ratio=2.0))

    def test_a_new_one_is_like_the_default(self) -> None:
        default = InventoryValues(total=8, max_unit=8, allocation_ratio=16.0)
        self.assertEqual(
            InventoryValues(total=4, max_unit=4, allocation_ratio=16.0),
            self.change(None, 4, default=default))
