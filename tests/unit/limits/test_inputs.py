import math

from placement_core.limits import errors, inputs
from tests import base


class TestItems(base.TestCase):

    def refused(self, field, function, *arguments):
        error = self.assertRaises(errors.InvalidLimit, function, *arguments)
        self.assertEqual(("limits.invalid", field), (error.code, error.field))
        self.assertIn(field, str(error))

    def test_values(self):
        for given in (-1, 0, 1, 2**31 - 1, 5.0, -1.0):
            found = inputs.parse_value({"value": given}, "value")
            self.assertEqual((int(given), int), (found, type(found)))
        for given in (-2, 2**31, 5.5, "5", True, None, [], math.nan, math.inf, -math.inf):
            self.refused("value", inputs.parse_value, {"value": given}, "value")
        self.refused("value", inputs.parse_value, {}, "value")

    def test_keys(self):
        given = {"service_id": "s", "resource_name": "class:CUSTOM_X"}
        self.assertEqual(inputs.Key("s", None, "class:CUSTOM_X"), inputs.parse_key(given))
        self.assertEqual(None, inputs.parse_key({**given, "region_id": None}).region_id)
        self.assertEqual("r" * 255, inputs.parse_key({**given, "region_id": "r" * 255}).region_id)
        for field, values in (
            ("service_id", ("", None, 5, "x" * 65, "\0", "\ud800")),
            ("region_id", ("", 5, "x" * 256, " \t", "\0", "\ud800")),
            ("resource_name", ("", None, 5, "x" * 256, " \t", "\0", "\ud800")),
        ):
            for value in values:
                self.refused(field, inputs.parse_key, {**given, field: value})

    def test_nodes(self):
        self.assertEqual(("project", "p"), inputs.parse_node({"project_id": "p"}))
        self.assertEqual(
            ("domain", "d"), inputs.parse_node({"domain_id": "d", "project_id": None}))
        for given in ({}, {"project_id": None}, {"project_id": "p", "domain_id": "d"},
                      {"project_id": ""}, {"project_id": 5}, {"project_id": "p" * 65}):
            self.refused("project_id", inputs.parse_node, given)

    def test_descriptions(self):
        for given, found in ((None, None), ("", ""), ("x" * 65535, "x" * 65535)):
            self.assertEqual(found, inputs.parse_description({"description": given}))
        self.assertEqual(None, inputs.parse_description({}))
        for given in ("x" * 65536, "é" * 32768, 5, "\0"):
            self.refused("description", inputs.parse_description, {"description": given})
