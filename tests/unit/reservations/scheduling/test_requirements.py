"""The language in which reservations ask for properties of hosts."""

from __future__ import annotations

import json

from placement_core.plugin_api.reservations import InvalidReservation
from placement_core.reservations.scheduling import requirements
from tests import base

#: Five hosts; the last has nothing but its number.
_PROPERTIES = {
    "id": [1, 2, 3, 4, 5],
    "vcpus": [8, 10, 9, 100, None],
    "rank": ["9", "10", "x", "1.5", None],
    "type": ["QEMU", "qemu", "KVM", "", None],
}

_FIELD = "resource_properties"


def _met(said):
    text = said if isinstance(said, str) else json.dumps(said)
    found = requirements.hosts_that_meet(
        requirements.parse(text, _FIELD), _PROPERTIES, 5, field=_FIELD)
    return [number for number, met in zip(_PROPERTIES["id"], found.tolist(), strict=True) if met]


class TestRequirements(base.TestCase):
    def test_no_condition(self):
        for said in ("", " ", "[]", "\n[ ]"):
            self.assertEqual([1, 2, 3, 4, 5], _met(said), said)

    def test_comparisons(self):
        for sign, expected in (
            ("=", [2]), ("==", [2]), ("!=", [1, 3, 4]), ("<", [1, 3]), ("<=", [1, 2, 3]),
            (">", [4]), (">=", [2, 4]),
        ):
            for value in (10, "10", "10.0", "+10", "010"):
                self.assertEqual(expected, _met([sign, "$vcpus", value]), (sign, value))

    def test_weakness_8_numbers_compare_as_numbers(self):
        """Where both are numbers, however they are written; else as text."""
        self.assertEqual([1, 2, 3], _met([">=", "$rank", "9"]))
        self.assertEqual([1, 2], _met(["and", [">=", "$rank", 9], ["<", "$rank", 99]]))
        self.assertEqual([4], _met(["<", "$rank", "9"]))
        self.assertEqual([4], _met(["=", "$rank", "1.50"]))
        self.assertEqual([3], _met(["=", "$rank", "x"]))
        self.assertEqual([], _met(["=", "$vcpus", "eight"]))

    def test_a_fraction(self):
        self.assertEqual([1, 2, 3], _met('[">", "$rank", 1.5]'))
        self.assertEqual([1, 2, 3], _met([">", "$rank", "1.5"]))

    def test_text_is_told_to_the_letter(self):
        self.assertEqual([1], _met(["=", "$type", "QEMU"]))
        self.assertEqual([4], _met(["=", "$type", ""]))

    def test_hosts_without_it_never_match(self):
        for sign in ("=", "!=", "<", ">="):
            self.assertNotIn(5, _met([sign, "$type", "KVM"]))

    def test_weakness_8_or(self):
        either = ["or", ["=", "$type", "KVM"], ["=", "$vcpus", "8"]]
        self.assertEqual([1, 3], _met(either))
        self.assertEqual([1], _met(["and", either, ["<", "$id", "2"]]))
        self.assertEqual([1], _met(["and", ["or", ["and", ["=", "$id", 1]]]]))

    def test_weakness_8_unknown_property(self):
        error = self.assertRaises(InvalidReservation, _met, ["=", "$no_such", "1"])
        self.assertEqual(
            'resource_properties names the property "no_such", which no host has.', str(error))
        self.assertEqual(_FIELD, error.field)
        self.assertRaises(
            InvalidReservation, _met, ["or", ["=", "$id", 1], ["=", "$no_such", "1"]])

    def test_malformed(self):
        for said in (
            "x", "{}", "1", "null", '"text"', '["="]', "[1]", "[[]]", '["and"]', '["or"]',
            '["=", "$id"]', '["=", "$id", "1", "2"]', '["=", "id", "1"]', '["=", "$", "1"]',
            '["=", 1, "1"]', '["~", "$id", "1"]', '[["="], "$id", "1"]', '["and", "x"]',
            '["and", ["=", "$id", 1], []]', '["=", "$id", true]', '["=", "$id", null]',
            '["=", "$id", [1]]', '["=", "$id", {}]', '["=", "$id", NaN]', '["=", "$id", 1e9]',
            '["=", "$id", Infinity]', '["not", ["=", "$id", "1"]]', "[" * 4000, "\0", "[] []",
            '["=", "$id", "1"', '["=", "\ud800$id", "1"]', '["🙂", "$id", "1"]',
            '["AND", ["=", "$id", "1"]]', '["=", "$id", ' + "9" * 5000 + "]",
        ):
            error = self.assertRaises(InvalidReservation, _met, said)
            self.assertEqual(_FIELD, error.field)
            self.assertIn(_FIELD, str(error))
            self.assertTrue(len(str(error)) < 200)
            str(error).encode()

    def test_bounds(self):
        inner = ["=", "$id", 1]
        for _ in range(requirements.DEEPEST - 1):
            inner = ["and", inner]
        self.assertEqual([1], _met(inner))
        self.assertRaises(InvalidReservation, _met, ["and", inner])
        many = [["=", "$id", 1]] * requirements.MOST
        self.assertEqual([1], _met(["and", *many]))
        self.assertRaises(InvalidReservation, _met, ["or", *many, ["=", "$id", 1]])
        self.assertRaises(InvalidReservation, _met, " " * requirements.LONGEST + "[]")

    def test_large_numbers(self):
        large = 10**39
        self.assertEqual([], _met(["=", "$id", large]))
        self.assertEqual([1, 2, 3, 4, 5], _met(["<", "$id", str(large)]))
        self.assertEqual([], _met(["=", "$id", json.loads("9" * 4000)]))

    def test_keys(self):
        said = '["and", ["=", "$id", 1], ["or", ["<", "$vcpus", 1], ["=", "$id", 2]]]'
        self.assertEqual({"id", "vcpus"}, requirements.keys(requirements.parse(said, _FIELD)))
        self.assertEqual(set(), requirements.keys(requirements.parse("", _FIELD)))

    def test_only_what_is_named_is_looked_up(self):
        class Watched(dict):
            looked = ()

            def __getitem__(self, key):
                self.looked = (*self.looked, key)
                return super().__getitem__(key)

        watched = Watched(_PROPERTIES)
        requirements.hosts_that_meet(
            requirements.parse('["=", "$id", "1"]', _FIELD), watched, 5, field=_FIELD)
        self.assertEqual(("id",), watched.looked)
