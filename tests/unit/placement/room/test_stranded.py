"""Which room no usual request can use, and why."""

from __future__ import annotations

import random

import hypothesis
from hypothesis import strategies as st
from oslo_config import cfg

from placement_core import errors as core_errors
from placement_core.conf import least_stranded
from placement_core.placement.room import errors, shapes, stranded
from placement_core.placement.room.shapes import Shape
from tests import base, examples, snapshots
from tests.unit.placement.candidates import oracle, strategies
from tests.unit.placement.room.test_fits import Judge, TooLarge, ask

_PLAIN = [Shape({"VCPU": 4, "MEMORY_MB": 8}, 1.0)]


def find(site_shapes, *rows, most_hosts=100, **options):
    return stranded.find(snapshots.build(*rows), site_shapes, most_hosts=most_hosts, **options)


def host(number, vcpus=0, memory_mb=0, *more, **options):
    amounts = (("VCPU", vcpus), ("MEMORY_MB", memory_mb))
    return snapshots.provider(
        number, *(snapshots.inventory(name, amount) for name, amount in amounts if amount), *more,
        name=f"host-{number}", **options)


def make_shape(chance):
    names = chance.sample(snapshots.CLASSES, chance.choice((1, 2, 2, 3)))
    return Shape({name: chance.choice((1, 1, 2, 3)) for name in names}, chance.choice((1.0, 3.0)))


def measure_naively(rows, site_shapes):
    """Return {(class, uuid of a root): (free, stranded)}, by trying everything."""
    providers = oracle.Oracle(rows, ask({"VCPU": 1})).providers.values()
    judges = [Judge(rows, ask(dict(shape.amounts))) for shape in site_shapes]
    found = {}
    for root in (provider for provider in providers if provider.parent is None):
        copies = [judge.count(root.id) for judge in judges]
        for name in {name for shape in site_shapes for name in shape.amounts}:
            free = sum(
                max(provider.inventories[name].capacity - provider.inventories[name].used, 0)
                for provider in providers if provider.root == root.id
                and name in provider.inventories and not provider.shares)
            usable = max(count * shape.amounts.get(name, 0)
                         for count, shape in zip(copies, site_shapes, strict=True))
            found[name, root.uuid] = free, max(free - usable, 0)
    return found, [judge.count() for judge in judges]


class TestAgainstTheOracle(base.TestCase):
    @examples.draw(300)
    @hypothesis.given(strategies.provider_lists(most=6), st.integers(0, 2**32))
    def test_numbers(self, rows, seed):
        chance = random.Random(seed)
        site_shapes = [make_shape(chance) for _ in range(chance.randint(1, 3))]
        found = find(site_shapes, *rows)
        try:
            expected, fits = measure_naively(rows, site_shapes)
        except TooLarge:
            return
        for shape, count in zip(found.shapes, fits, strict=True):
            self.assertTrue(shape.fits == count or (shape.fits < count and not shape.exact))
        for name, amounts in found.resource_classes.items():
            pairs = [pair for (other, _), pair in expected.items() if other == name]
            self.assertEqual(tuple(map(sum, zip(*pairs, strict=True))),
                             (amounts.free, amounts.stranded), name)
            self.assertEqual(amounts.stranded, sum(amounts.by_cause.values()))
        self.assertEqual(
            {key: lost for key, (_, lost) in expected.items() if lost},
            {(name, each.uuid): lost.amount
             for each in found.hosts for name, lost in each.stranded.items()})


class TestCauses(base.TestCase):
    def causes(self, *rows, site_shapes=_PLAIN):
        found = find(site_shapes, *rows)
        return {name: amounts.by_cause for name, amounts in found.resource_classes.items()}

    def test_another_class(self):
        self.assertEqual({"VCPU": {"MEMORY_MB": 12}, "MEMORY_MB": {}},
                         self.causes(host(1, 16, 8)))

    def test_a_remainder(self):
        """More of another class would not help."""
        self.assertEqual({"VCPU": {"VCPU": 3}, "MEMORY_MB": {"MEMORY_MB": 7}},
                         self.causes(host(1, 7, 15)))

    def test_nothing_of_a_class(self):
        self.assertEqual({"VCPU": {"MEMORY_MB": 16}, "MEMORY_MB": {}}, self.causes(host(1, 16)))

    def test_units(self):
        whole = snapshots.inventory("MEMORY_MB", 64, max_unit=4)
        self.assertEqual({"VCPU": {"MEMORY_MB:units": 16}, "MEMORY_MB": {"MEMORY_MB:units": 64}},
                         self.causes(host(1, 16, 0, whole)))

    def test_pieces(self):
        """What lies on several providers of a tree can be too small on each of them."""
        self.assertEqual({"VCPU": {"VCPU": 6}, "MEMORY_MB": {"VCPU": 64}}, self.causes(
            host(1, 0, 64), host(2, 3, parent=1), host(3, 3, parent=1)))

    def test_the_nearest_shape_says_it(self):
        """Neither fits; the smaller one lacks memory, the larger one everything."""
        small, large = Shape({"VCPU": 4, "MEMORY_MB": 8}, 1.0), Shape(
            {"VCPU": 64, "MEMORY_MB": 8, "DISK_GB": 99}, 1.0)
        for site_shapes in ([small, large], [large, small]):
            self.assertEqual({"MEMORY_MB": 4}, self.causes(
                host(1, 4, 7), site_shapes=site_shapes)["VCPU"])

    def test_what_is_shared(self):
        """It is no host's, so nothing of it is stranded; requests use it."""
        pool = snapshots.provider(2, snapshots.inventory("DISK_GB", 25), aggregates=[101],
                                  traits=[snapshots.SHARES])
        found = find([Shape({"VCPU": 4, "DISK_GB": 10}, 1.0)],
                     host(1, 16, aggregates=[101]), pool)
        self.assertEqual((0, {"DISK_GB": 8}), (
            found.resource_classes["DISK_GB"].free, found.resource_classes["VCPU"].by_cause))
        self.assertEqual(2, found.shapes[0].fits)

    def test_what_is_overused(self):
        """It has nothing free, not less than nothing."""
        over = snapshots.inventory("MEMORY_MB", 8, used=9)
        found = find(_PLAIN, host(1, 4, 0, over), host(2, 0, 4))
        self.assertEqual(4, found.resource_classes["MEMORY_MB"].free)


class TestAnswer(base.TestCase):
    def test_the_worst_host_comes_first(self):
        """In average requests, so that megabytes do not outweigh cores."""
        found = find(_PLAIN, host(1, 4, 24), host(2, 20, 8), host(3, 4, 8), host(4, 4, 9))
        self.assertEqual(["host-2", "host-1", "host-4"], [each.name for each in found.hosts])
        found = find(_PLAIN, host(1, 4, 24), host(2, 20, 8), host(3, 4, 8), most_hosts=1)
        self.assertEqual((2, ["host-2"]), (
            found.host_count, [each.name for each in found.hosts]))

    def test_pooled_trees(self):
        """They are kept for reservations, so nothing there is lost."""
        rows = (host(1, 16, 8, pooled=True), host(2, 4, 8))
        self.assertEqual(12, find(_PLAIN, *rows).resource_classes["VCPU"].stranded)
        found = find(_PLAIN, *rows, exclude_reserved=True)
        self.assertEqual((0, 1, []), (
            found.resource_classes["VCPU"].stranded, found.shapes[0].fits, found.hosts))

    def test_nothing_at_all(self):
        found = find(_PLAIN)
        self.assertEqual((0, [], 0), (found.host_count, found.hosts, found.shapes[0].fits))
        self.assertRaises(errors.NoShapes, find, [], host(1, 4, 8))


class TestShapes(base.TestCase):
    def read(self, *texts):
        conf = cfg.ConfigOpts()
        conf.register_opts(least_stranded.OPTIONS, group=least_stranded.GROUP.name)
        conf.set_override("shape", list(texts), least_stranded.GROUP.name)
        return shapes.read(conf)

    def test_values(self):
        self.assertEqual([], self.read())
        self.assertEqual(
            [Shape({"VCPU": 4, "MEMORY_MB": 8192}, 1.0), Shape({"PGPU": 1}, 0.5)],
            self.read("VCPU:4, MEMORY_MB:8192", "weight:0.5,PGPU:1"))

    def test_bad_values(self):
        for text in ("", "VCPU", "VCPU:0", "VCPU:x", "weight:2", "VCPU:1,weight:0", ":4"):
            self.assertRaises(core_errors.ConfigurationError, self.read, text)
