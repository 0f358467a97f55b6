"""Exactly as many copies can be claimed as are counted."""

from __future__ import annotations

import json

from placement_core.placement import allocations, errors
from placement_core.placement.candidates import answers, search
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.index import CapacityIndex
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.placement.room import fits
from placement_core.testing import factories
from tests import base, databases


@databases.on_each_database
class TestClaims(base.DatabaseTestCase):
    """Candidates are claimed one after the other, until there are none."""

    def setUp(self):
        super().setUp()
        self.index = CapacityIndex(self.database)

    def count(self, request):
        found = fits.find(self.index.snapshot(self.ctx), request, most_hosts=100)
        self.assertTrue(found.exact)
        return found.fits

    def claim(self, held):
        allocations.replace(self.ctx, [AllocationWrite(
            factories.new_uuid(), held, "web", "jane", "INSTANCE", None)])

    def find(self, request):
        """Return the allocations of a random candidate; None: there are none."""
        snapshot = self.index.snapshot(self.ctx)
        found = search.find(snapshot, request, max_candidates=1, randomize=True)
        document = json.loads(answers.render(snapshot, request, found))
        for candidate in document["allocation_requests"]:
            return {uuid: each["resources"] for uuid, each in candidate["allocations"].items()}
        return None

    def check(self, request, expected):
        self.assertEqual(expected, self.count(request))
        placed, last = 0, None
        while (held := self.find(request)) is not None:
            self.claim(held)
            placed, last = placed + 1, held
            if placed % 4 == 0:
                self.assertEqual(expected - placed, self.count(request))
        self.assertEqual((expected, 0), (placed, self.count(request)))
        self.assertRaises(errors.CannotAllocate, self.claim, last)

    def test_hosts(self):
        """With everything that inventories can have."""
        for name, vcpus, memory_mb in (
            ("plain", 7, 8192), ("lean", 64, 2048), ("full", 1, 8192),
            ("ratio", InventoryValues(total=3, allocation_ratio=1.9), 8192),
            ("reserved", 8, InventoryValues(total=9000, reserved=4096)),
            ("pieces", InventoryValues(total=9, max_unit=2, step_size=2), 8192),
            ("too small", InventoryValues(total=9, max_unit=1), 8192),
        ):
            factories.provider(
                self.ctx, name, inventory={"VCPU": vcpus, "MEMORY_MB": memory_mb})
        # 3 + 2 + 0 + floor(5.7) // 2 + 4 + 4 + 0
        self.check(CandidatesRequest((RequestGroup("", {"VCPU": 2, "MEMORY_MB": 1024}),)), 15)

    def test_trees(self):
        """The classes of the group without suffix may come from several providers."""
        for disk_gb in (100, 30):
            root = factories.provider(self.ctx, inventory={"DISK_GB": disk_gb})
            for vcpus in (5, 3):
                factories.provider(self.ctx, parent=root, inventory={
                    "VCPU": vcpus, "MEMORY_MB": 2048})
        self.check(CandidatesRequest((RequestGroup(
            "", {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 15}),)), 5)

    def test_a_shared_disk(self):
        aggregate = factories.new_uuid()
        for vcpus in (4, 4):
            factories.provider(self.ctx, inventory={"VCPU": vcpus}, aggregates=[aggregate])
        factories.sharing_provider(
            self.ctx, inventory={"DISK_GB": 55}, aggregates=[aggregate])
        self.check(CandidatesRequest((RequestGroup("", {"VCPU": 1, "DISK_GB": 10}),)), 5)

    def test_groups_apart(self):
        """Both cells of each copy: the smaller one decides."""
        root = factories.provider(self.ctx, inventory={"DISK_GB": 100})
        for vcpus in (9, 4):
            factories.provider(self.ctx, parent=root, inventory={"VCPU": vcpus})
        self.check(CandidatesRequest((
            RequestGroup("_A", {"VCPU": 2}), RequestGroup("_B", {"VCPU": 2}),
            RequestGroup("", {"DISK_GB": 1})), isolate=True), 2)
