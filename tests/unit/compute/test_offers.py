"""What compute nodes offer, read from their records."""

from __future__ import annotations

import json
from typing import Any

import testtools

from placement_core import errors
from placement_core.compute import offers
from placement_core.placement.records import InventoryValues
from tests import base
from tests.http.base import configuration
from tests.unit.compute import samples


def rules(**options: Any) -> offers.OfferRules:
    conf = configuration("sqlite:///none", {("compute", name): value
                                            for name, value in options.items()})
    return offers.OfferRules.from_conf(conf)


def offer(node: Any = None, *, devices: Any = None, shared_storage: bool = False,
          options: dict[str, Any] | None = None, **values: Any) -> offers.Offer:
    return offers.parse_node(
        node or samples.row(**values), rules(**options or {}), devices=devices,
        shared_storage=shared_storage)


def values(total: int, **more: Any) -> InventoryValues:
    return InventoryValues(**{"total": total, "max_unit": total, **more})


class TestMainClasses(base.TestCase):
    def test_amounts_and_ratios(self) -> None:
        found = offer()
        self.assertEqual({
            "VCPU": values(16, allocation_ratio=16.0),
            "MEMORY_MB": values(65536, reserved=512, allocation_ratio=1.5),
            "DISK_GB": values(1000, allocation_ratio=1.0)}, found.inventories)
        self.assertEqual((), found.remarks)

    def test_ratios_that_are_not_set(self) -> None:
        unset: dict[str, Any] = {"cpu_allocation_ratio": None, "ram_allocation_ratio": 0.0,
                                 "disk_allocation_ratio": None}
        for options, expected in (
                ({}, (4.0, 1.0, 1.0)),
                ({"initial_cpu_allocation_ratio": 8.0}, (8.0, 1.0, 1.0)),
                ({"cpu_allocation_ratio": 2.0, "initial_cpu_allocation_ratio": 8.0,
                  "disk_allocation_ratio": 1.2}, (2.0, 1.0, 1.2))):
            found = offer(options=options, **unset).inventories
            self.assertEqual(expected, tuple(
                found[name].allocation_ratio for name in ("VCPU", "MEMORY_MB", "DISK_GB")))

    def test_options_are_no_change_of_the_node(self) -> None:
        node = samples.row(cpu_allocation_ratio=None)
        self.assertEqual(offer(node).facts, offer(node, options={
            "cpu_allocation_ratio": 9.0, "reserved_host_cpus": 3,
            "max_units": {"VCPU": "2"}}).facts)
        self.assertNotEqual(offer(node).facts, offer().facts)

    def test_what_the_host_keeps(self) -> None:
        found = offer(options={"reserved_host_cpus": 2, "reserved_host_memory_mb": 99999999,
                               "reserved_host_disk_mb": 1025}).inventories
        self.assertEqual((2, 65536, 2), tuple(
            found[name].reserved for name in ("VCPU", "MEMORY_MB", "DISK_GB")))

    def test_disk_available_least(self) -> None:
        for available, used, expected in (
                (None, 0, 1000), (None, 990, 1000), (400, 0, 400), (5000, 0, 1000), (0, 0, 1),
                (-7, 0, 1), (5, 990, 995), (10, 1000, 1000), (-600, 1500, 900), (-9, 2, 1)):
            found = offer(disk_available_least=available, local_gb_used=used)
            self.assertEqual((1000, expected), (
                found.inventories["DISK_GB"].total, found.inventories["DISK_GB"].max_unit))
            # They change with every instance: that is no change of the node.
            self.assertEqual(offer().facts, found.facts)

    def test_shared_storage(self) -> None:
        self.assertNotIn("DISK_GB", offer(shared_storage=True).inventories)
        for patterns, there in ((["other"], True), (["host-?.example"], False), (["*"], False),
                                (["host-1.example"], False), (["HOST-1.example"], True)):
            found = offer(options={"shared_storage_hosts": patterns})
            self.assertEqual(there, "DISK_GB" in found.inventories, patterns)
            self.assertEqual(there, "DISK_GB" in found.facts)

    def test_nothing_is_no_inventory(self) -> None:
        found = offer(vcpus=0, local_gb=0)
        self.assertEqual(["MEMORY_MB"], list(found.inventories))
        self.assertEqual((), found.remarks)

    def test_amounts_that_cannot_be(self) -> None:
        for field, value in (("vcpus", -1), ("vcpus", 2**31), ("vcpus", None), ("vcpus", "4"),
                             ("vcpus", True), ("cpu_allocation_ratio", -1.0),
                             ("cpu_allocation_ratio", float("nan")),
                             ("cpu_allocation_ratio", 1e39)):
            found = offer(**{field: value})
            self.assertEqual({"MEMORY_MB", "DISK_GB"}, set(found.inventories), (field, value))
            self.assertIn("not counted", found.remarks[0])
            self.assertEqual({"VCPU"}, found.unclear)


class TestDevices(base.TestCase):
    def test_one_inventory_for_each_class(self) -> None:
        expected = {"PCI_DEVICE": values(4), "CUSTOM_PCI_SRIOV_PF": values(2),
                    "SRIOV_NET_VF": values(255)}
        for found in (
                offer(pci_stats=samples.pools(VF=255, PF=2, PCI=4)),
                offer(pci_stats="malformed",
                      devices={"type-VF": 255, "type-PF": 2, "type-PCI": 4})):
            self.assertEqual((), found.remarks)
            for name, inventory in expected.items():
                self.assertEqual(inventory, found.inventories[name])

    def test_what_one_instance_may_have(self) -> None:
        """The seed's example: 255 functions, 8 for one instance."""
        found = offer(pci_stats=samples.pools(VF=255), options={
            "max_units": {"SRIOV_NET_VF": "8", "PCI_DEVICE": "3"}})
        self.assertEqual(values(255, max_unit=8), found.inventories["SRIOV_NET_VF"])

    def test_older_forms(self) -> None:
        pool = {"vendor_id": "8086", "product_id": "1234", "count": 3}
        for text, expected in (
                (json.dumps(pool), {"PCI_DEVICE": 3}),
                (json.dumps([pool, {**pool, "dev_type": "type-VF"}, pool]),
                 {"PCI_DEVICE": 6, "SRIOV_NET_VF": 3}),
                ("[]", {}), ("", {}), ("null", {})):
            found = offer(pci_stats=text)
            self.assertEqual((), found.remarks)
            self.assertEqual(expected, {
                name: inventory.total for name, inventory in found.inventories.items()
                if name in ("PCI_DEVICE", "SRIOV_NET_VF")}, text)

    def test_types_without_a_class(self) -> None:
        found = offer(devices={"vdpa": 3, "type-PCI": 1})
        self.assertIn("PCI_DEVICE", found.inventories)
        self.assertIn("vdpa", found.remarks[0])
        # The record is clear: no class is for them.
        self.assertEqual(frozenset(), found.unclear)
        found = offer(devices={"vdpa": 3, "type-PCI": 1}, options={
            "pci_classes": {"vdpa": "CUSTOM_VDPA", "type-PCI": "CUSTOM_VDPA"}})
        self.assertEqual(values(4), found.inventories["CUSTOM_VDPA"])
        self.assertEqual((), found.remarks)

    def test_malformed(self) -> None:
        for text in ("{", "7", '"text"', "[[]]", '[{"count": "many"}]', '[{"count": -1}]',
                     '[{"count": true}]', "[{}]", '{"nova_object.data": 3}', "[null]",
                     '{"count": 1e400}', "[" * 100000):
            found = offer(pci_stats=text)
            self.assertEqual({"VCPU", "MEMORY_MB", "DISK_GB"}, set(found.inventories), text[:30])
            self.assertEqual(
                ("pci_stats cannot be understood; nothing of it is counted",), found.remarks)
            self.assertEqual(
                {"PCI_DEVICE", "CUSTOM_PCI_SRIOV_PF", "SRIOV_NET_VF"}, found.unclear)

    def test_options_that_make_no_sense(self) -> None:
        for option, value in (("pci_classes", {"type-VF": "VCPUS"}),
                              ("max_units", {"pci": "1"}), ("max_units", {"VCPU": "0"}),
                              ("max_units", {"VCPU": "x"}), ("max_units", {"VCPU": str(2**31)})):
            with testtools.ExpectedException(errors.ConfigurationError, f".*{option}.*"):
                rules(**{option: value})


class TestTopology(base.TestCase):
    def numa(self, text: str) -> dict[str, tuple[int, int]]:
        found = offer(numa_topology=text)
        self.assertEqual((), found.remarks)
        return {name: (inventory.total, inventory.max_unit)
                for name, inventory in found.inventories.items()
                if name.startswith("NUMA") or name == "PCPU"}

    def test_the_example_of_the_seed(self) -> None:
        self.assertEqual({
            "NUMA_SOCKET": (2, 1), "NUMA_CORE": (8, 4), "NUMA_THREAD": (16, 8),
            "NUMA_MEMORY_MB": (65536, 32768)}, self.numa(samples.SEED_TOPOLOGY))

    def test_the_largest_cell_is_the_bound(self) -> None:
        found = self.numa(samples.numa(
            samples.numa_cell(0, [0, 1], memory=10), samples.numa_cell(1, [2, 3, 4], memory=4)))
        self.assertEqual({
            "NUMA_SOCKET": (2, 1), "NUMA_CORE": (5, 3), "NUMA_THREAD": (5, 3),
            "NUMA_MEMORY_MB": (14, 10)}, found)

    def test_cells_of_one_socket(self) -> None:
        found = self.numa(samples.numa(
            samples.numa_cell(0, [0], socket=0), samples.numa_cell(1, [1], socket=0)))
        self.assertEqual((1, 1), found["NUMA_SOCKET"])

    def test_dedicated_processors(self) -> None:
        found = self.numa(samples.numa(
            samples.numa_cell(0, [0, 1], dedicated=[2, 3], siblings=[[0, 1], [2, 3]]),
            samples.numa_cell(1, [4], dedicated=[5, 6, 7])))
        self.assertEqual((5, 5), found["PCPU"])
        self.assertEqual((8, 4), found["NUMA_THREAD"])
        self.assertEqual((6, 4), found["NUMA_CORE"])

    def test_processors_that_are_called_both(self) -> None:
        """What nova writes on a host that dedicates none."""
        self.assertNotIn("PCPU", self.numa(samples.numa(
            samples.numa_cell(0, [0, 1, 2], dedicated=[0, 1, 2]))))

    def test_older_forms(self) -> None:
        self.assertEqual({
            "NUMA_SOCKET": (2, 1), "NUMA_CORE": (5, 3), "NUMA_THREAD": (5, 3),
            "NUMA_MEMORY_MB": (768, 512)}, self.numa(samples.OLD_TOPOLOGY))
        cell = samples.numa_cell(0, [0, 1])
        for field in ("pcpuset", "siblings", "socket"):
            del cell["nova_object.data"][field]
        self.assertEqual((2, 2), self.numa(samples.numa(cell))["NUMA_CORE"])

    def test_none(self) -> None:
        for text in (None, "", "null", "{}", '{"cells": []}', samples.numa()):
            self.assertEqual({}, self.numa(text))  # type: ignore[arg-type]

    def test_malformed(self) -> None:
        for text in ("{", "[1]", '{"cells": 4}', '{"cells": [{"cpus": "a-b"}]}',
                     '{"cells": [{"cpus": "0-99999999999"}]}', '{"nova_object.data": {}}',
                     samples.numa({"nova_object.data": {"cpuset": [0]}}),
                     samples.numa({"nova_object.data": {"cpuset": "x", "memory": 1}}),
                     samples.numa(samples.numa_cell(0, [-1])),
                     samples.numa(samples.numa_cell(0, [1], memory=-5))):
            found = offer(numa_topology=text)
            self.assertEqual({"VCPU", "MEMORY_MB", "DISK_GB"}, set(found.inventories), text[:60])
            self.assertEqual(
                ("numa_topology cannot be understood; nothing of it is counted",), found.remarks)
            self.assertEqual(
                {"PCPU", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB"},
                found.unclear)
