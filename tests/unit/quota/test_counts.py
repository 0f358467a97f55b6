"""Sums of what was counted, and two counts as one."""

from placement_core.plugin_api.counting import Count, MissingCell
from placement_core.quota import counts
from tests import base


class TestCounts(base.TestCase):

    def test_used(self):
        count = Count({"a": {"VCPU": 2, "PCPU": 1}, "b": {"VCPU": 4}}, "placement")
        for project_ids, units, expected in (
            (["a"], {"VCPU"}, 2), (["a"], {"VCPU", "PCPU"}, 3), (["a", "b"], {"VCPU"}, 6),
            (["b"], {"PCPU"}, 0), (["gone"], {"VCPU"}, 0), ([], {"VCPU"}, 0),
        ):
            self.assertEqual(expected, counts.sum_used(count, project_ids, units))

    def test_nothing_was_counted(self):
        self.assertEqual(0, counts.sum_used(None, ["a"], {"VCPU"}))

    def test_merged(self):
        one, other = (MissingCell(uuid, uuid, "down") for uuid in ("1", "2"))
        count = counts.merge(
            Count({"a": {"VCPU": 1}}, "placement", {"VCPU": 1}, [one], {"placement": 1.0}),
            Count({"b": {"VCPU": 2}}, "cells", None, [one, other],
                  {"placement": 2.0, "cell": 3.0}))
        self.assertEqual({"a": {"VCPU": 1}, "b": {"VCPU": 2}}, count.projects)
        self.assertEqual(("cells+placement", {"VCPU": 1}), (count.source, count.user))
        self.assertEqual([one, other], count.missing_cells)
        self.assertEqual({"placement": 3.0, "cell": 3.0}, count.seconds)
