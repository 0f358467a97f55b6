"""The names of properties that hosts are chosen by."""

from __future__ import annotations

from placement_core.reservations import errors
from placement_core.reservations.hosts import host_properties
from tests import databases
from tests.functional.reservations.pool_cases import PoolTestCase


@databases.on_each_database
class TestProperties(PoolTestCase):
    def setUp(self) -> None:
        super().setUp()
        for name, gpu in (("one", "a100"), ("two", "h100"), ("three", "a100")):
            host = self.host(name, {"gpu": gpu, "rack": 1})
        self.pool.change(self.context(), str(host.id), {"old": "x"})
        self.pool.change(self.context(), str(host.id), {"old": None})

    def test_names(self) -> None:
        found = host_properties.list_(self.ctx)
        self.assertEqual(["gpu", "old", "rack"], [each.name for each in found])
        self.assertEqual({("physical:host", False, None)}, {
            (each.resource_type, each.private, each.values) for each in found})

    def test_values(self) -> None:
        self.assertEqual(
            [("gpu", ["a100", "h100"]), ("old", []), ("rack", ["1"])],
            [(each.name, each.values) for each in host_properties.list_(self.ctx, detail=True)])

    def test_private_ones(self) -> None:
        changed = host_properties.change(self.context(), "gpu", private=True)
        self.assertEqual(("gpu", True), (changed.name, changed.private))
        self.assertEqual(["old", "rack"], [each.name for each in host_properties.list_(self.ctx)])
        [first, *_] = host_properties.list_(self.ctx, private=True)
        self.assertEqual(changed, first)
        again = host_properties.change(self.context(), "gpu", private=False)
        self.assertEqual((changed.id, False), (again.id, again.private))
        for unknown in ("nobody", "\0", "GPU"):
            self.assertRaises(errors.PropertyNotFound, host_properties.change, self.context(),
                              unknown, private=True)
