"""Rules of topology among the requirements of a reservation."""

from __future__ import annotations

import json

from placement_core.plugin_api.reservations import Hosts, InvalidReservation
from placement_core.reservations.scheduling import topology
from placement_core.reservations.scheduling.requirements import Combination, Comparison
from placement_core.reservations.scheduling.topology import TopologyRules
from tests import base

_RACK = "aggregate:trait=CUSTOM_RACK"


def _parse(*conditions):
    conditions, rules = topology.parse({
        f"field{number}": json.dumps(each) for number, each in enumerate(conditions)})
    return list(conditions.values()), rules


class TestParse(base.TestCase):
    def test_rules(self):
        for text, conditions, rules in (
            (["==", "$vcpus", "8"], Comparison("vcpus", "==", "8"), TopologyRules()),
            (["==", "$within", _RACK], None, TopologyRules(within=_RACK)),
            (["=", "$pack_by", "host"], None, TopologyRules(pack_by="host")),
            (["and", ["==", "$spread_by", "property:rack"], [">", "$vcpus", "8"]],
             Combination("and", (Comparison("vcpus", ">", "8"),)),
             TopologyRules(spread_by="property:rack")),
            (["and", ["and", ["==", "$within", _RACK], ["==", "$pack_by", "host"]]],
             None, TopologyRules(within=_RACK, pack_by="host")),
        ):
            self.assertEqual(([conditions], rules), _parse(text), text)

    def test_of_several_fields(self):
        self.assertEqual(
            ([None, None], TopologyRules(within=_RACK, pack_by="host")),
            _parse(["==", "$within", _RACK], ["==", "$pack_by", "host"]))

    def test_what_is_refused(self):
        for conditions, reason in (
            ([["or", ["==", "$within", "host"], ["==", "$vcpus", "8"]]], "stands alone"),
            ([["and", ["or", ["==", "$pack_by", "host"]]]], "stands alone"),
            ([["!=", "$within", "host"]], "is the name of a level"),
            ([["==", "$within", 4]], "is the name of a level"),
            ([["==", "$within", "rack"]], "There is no level 'rack'"),
            ([["==", "$within", "property:"]], "There is no level"),
            ([["==", "$within", "tree:1"]], "parts are no level"),
            ([["==", "$within", "host"], ["==", "$within", _RACK]], "given twice"),
            ([["and", ["==", "$pack_by", "host"], ["==", "$spread_by", _RACK]]],
             "exclude each other"),
        ):
            error = self.assertRaises(InvalidReservation, _parse, *conditions)
            self.assertIn(reason, str(error), conditions)

    def test_properties(self):
        self.assertEqual(
            {"vcpus", "rack", "hypervisor_hostname", _RACK}, topology.find_properties({
                "one": json.dumps(["and", [">", "$vcpus", "8"], ["==", "$within", _RACK]]),
                "two": json.dumps(["==", "$pack_by", "property:rack"])})
            | topology.find_properties({"one": json.dumps(["==", "$spread_by", "host"])}))

    def test_levels(self):
        """What only looks like a level, and what no database can keep, is none."""
        self.assertEqual([_RACK, "aggregate:name=rack"], [level.text for level in (
            topology.find_levels([
                _RACK, "rack", "aggregate:name=rack", "aggregate:rack", "aggregate:name=a\0",
                "aggregate:name="]))][::-1])


class TestDomains(base.TestCase):
    def find(self, level, **properties):
        hosts = Hosts.of([(number, 1, 1, 1, True, False) for number in (1, 2, 3)], properties)
        return topology.find_topology(TopologyRules(within=level), hosts, field="f").within

    def test_numbers(self):
        found = self.find("property:rack", rack=["b", None, "a"])
        self.assertEqual(([1, -1, 0], ["a", "b"]), (found.numbers.tolist(), found.names))
        found = self.find("property:rack", rack=[2, 2, 1])
        self.assertEqual(([1, 1, 0], ["1", "2"]), (found.numbers.tolist(), found.names))

    def test_a_level_without_hosts(self):
        for properties in ({}, {"rack": [None] * 3}):
            error = self.assertRaises(
                InvalidReservation, self.find, "property:rack", **properties)
            self.assertIn("no host is in a domain of it", str(error))

    def test_an_empty_pool(self):
        found = topology.find_topology(
            TopologyRules(pack_by="host"), Hosts.of([]), field="f").pack_by
        self.assertEqual(([], []), (found.numbers.tolist(), found.names))
