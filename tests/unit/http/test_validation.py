"""JSON, query strings and schemas, value by value."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import fastjsonschema
import hypothesis
import jsonschema
from hypothesis import strategies as st

from placement_core.http import validation
from placement_core.http.capacity_api import bodies as capacity_bodies
from placement_core.http.placement_api import bodies, microversions as mv
from tests import base


class TestParseBody(base.TestCase):
    def test_numbers(self) -> None:
        for body, value in (
            (b"1.0", 1), (b"-1.0", -1), (b"1.5", 1.5), (b"1e3", 1000), (b"[1,2.0]", [1, 2]),
            (b'{"a":-3.40282e+38}', {"a": -3.40282e+38}),
            (b"9223372036854775807", 2**63 - 1), (b"-9223372036854775807", -(2**63 - 1)),
            (b'"1.0"', "1.0"), (b'{"a": "x: 99999999999999999999"}',
                                {"a": "x: 99999999999999999999"}),
        ):
            with self.subTest(body):
                parsed = validation.parse_body(body)
                self.assertEqual(value, parsed)
                self.assertIs(type(value), type(parsed))

    @hypothesis.given(st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner),
    ))
    def test_what_json_can_hold_comes_back(self, value: object) -> None:
        import json

        self.assertEqual(value, validation.parse_body(json.dumps(value).encode()))

    @hypothesis.given(st.binary())
    def test_anything_else_is_malformed(self, body: bytes) -> None:
        try:
            validation.parse_body(body)
        except validation.MalformedBody as error:
            self.assertIn("Malformed JSON: ", str(error))


class TestParseQuery(base.TestCase):
    @hypothesis.given(st.text(st.characters(max_codepoint=255)))
    def test_anything_is_read_or_refused(self, raw: str) -> None:
        try:
            query = validation.parse_query(raw)
        except validation.InvalidQuery:
            return
        for name, values in query.items():
            self.assertIsInstance(name, str)
            self.assertTrue(values)


    def test_bounds(self) -> None:
        long_query = f"a={'b' * 65_534}"
        self.assertEqual(1, len(validation.parse_query(long_query)))
        many = "&".join(f"a{number}=" for number in range(500))
        self.assertEqual(500, len(validation.parse_query(many)))
        for raw in (f"{long_query}c", f"{many}&b=1", f"{many}&a1=1"):
            self.assertRaises(validation.InvalidQuery, validation.parse_query, raw)


class TestUuids(base.TestCase):
    def test_like(self) -> None:
        for value, like, strict in (
            ("12345678-1234-5678-1234-567812345678", True, True),
            ("12345678-1234-5678-1234-56781234567A", True, True),
            ("12345678123456781234567812345678", True, False),
            ("{12345678-1234-5678-1234-567812345678}", True, False),
            ("urn:uuid:12345678-1234-5678-1234-567812345678", True, False),
            ("12345678-1234-5678-1234-56781234567", False, False),
            ("12345678-1234-5678-1234-56781234567g", False, False),
            ("12345678-1234-5678-1234-567812345678\n", False, False),
            ("", False, False), ("a" * 5000, False, False),
            (7, True, True),
        ):
            with self.subTest(value):
                self.assertEqual(like, validation.is_uuid_like(value))
                self.assertEqual(strict, validation.is_strict_uuid(value))


class TestSchema(base.TestCase):
    """The compiled validator never refuses what ``jsonschema`` accepts."""

    def fault(self, schema: dict[str, object], value: object) -> str | None:
        return validation.Schema(schema, validation.is_uuid_like).validate(value)

    def test_where_they_differ_the_wording_decides(self) -> None:
        schema = {"type": "string", "pattern": "^[A-Z]+$"}
        compiled = fastjsonschema.compile(schema)
        self.assertRaises(fastjsonschema.JsonSchemaValueException, compiled, "A\n")
        jsonschema.validate("A\n", schema)
        self.assertIsNone(self.fault(schema, "A\n"))

    def test_defaults_are_not_filled_in(self) -> None:
        value: dict[str, object] = {}
        schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
        self.assertIsNone(self.fault(schema, value))
        self.assertEqual({}, value)

    def test_wording(self) -> None:
        schema = {
            "type": "object", "additionalProperties": False,
            "patternProperties": {"^member_of([a-zA-Z0-9_-]{1,64})?$": {"type": "string"}},
        }
        fault = self.fault(schema, {"x y": "1"})
        self.assertIn("'x y' does not match any of the regexes: '^member_of", fault)
        fault = self.fault({"type": "array", "uniqueItems": True}, ["a", "a"])
        self.assertIn("has non-unique elements", fault)
        fault = self.fault({"type": "string", "enum": ["none", "isolate"]}, "bogus")
        self.assertIn("'bogus' is not one of ['none', 'isolate']", fault)

    def test_the_same_fault_in_a_small_and_in_a_large_value(self) -> None:
        schema = {"type": "object", "properties": {"ids": {
            "type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
        self.assertIn("5 is not of type 'string'", self.fault(schema, {"ids": ["a", 5]}))
        many = [str(number) for number in range(5000)]
        for value, fault in (
            ([*many, 5], "instance.ids[5000] must be string"),
            ([*many, "0"], "instance.ids must contain unique items"),
        ):
            self.assertEqual(fault, self.fault(schema, {"ids": value}))
        self.assertIsNone(self.fault(schema, {"ids": many}))

    def test_unique_items(self) -> None:
        schema: dict[str, object] = {"type": "array", "uniqueItems": True}
        for value, unique in (
            ([], True), ([1, True, "1", None, [1], {"1": 1}, 0, False, ""], True),
            ([1, 1], False), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
            ([[1, []], [1, []]], False), ([None, None], False), ([1.5, 1.5], False),
        ):
            with self.subTest(value):
                self.assertEqual(unique, self.fault(schema, value) is None)


class TestCost(base.TestCase):
    """What a refusal costs does not grow faster than what is refused."""

    SMALL, LARGE = 4000, 16_000

    def test_calls_are_linear(self) -> None:
        for name, (schema, make) in _hostile().items():
            with self.subTest(name):
                refuser = validation.Schema(schema, validation.is_uuid_like)
                self.assertIsNotNone(refuser.validate(None))
                small, large = (
                    _calls(refuser, make(size)) for size in (self.SMALL, self.LARGE))
                self.assertLess(large, 5 * small + 1000)
                # A few for each value, not the hundreds that gathering errors takes.
                self.assertLess(large, 20 * self.LARGE)

    def test_memory_is_bounded(self) -> None:
        for name, (schema, make) in _hostile().items():
            with self.subTest(name):
                refuser = validation.Schema(schema, validation.is_uuid_like)
                self.assertIsNotNone(refuser.validate(None))
                value = make(self.LARGE)
                tracemalloc.start()
                self.assertLess(len(refuser.validate(value) or ""), 9000)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                # Hashing or naming each item once; before, 30 times as much.
                self.assertLess(peak, 300 * self.LARGE)

    def test_the_second_look_is_bounded(self) -> None:
        """Just below the size that is looked at again."""
        for name, (schema, make) in _hostile().items():
            with self.subTest(name):
                refuser = validation.Schema(schema, validation.is_uuid_like)
                self.assertLess(_calls(refuser, make(900)), 500_000)


def _uuid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def _hostile() -> dict[str, tuple[dict[str, Any], Callable[[int], Any]]]:
    """Return schemas of operations, and what makes a large value that is refused."""
    aggregates = bodies.AGGREGATES_REPLACE.at(mv.AGGREGATES)
    manage = bodies.ALLOCATIONS_MANAGE.at(mv.NEWEST)
    reshape = bodies.RESHAPE.at(mv.NEWEST)
    check = capacity_bodies.QUOTA_CHECK.at((1, 0))
    assert aggregates and manage and reshape and check
    return {
        "numbers and texts": (aggregates, lambda size: [
            number if number % 2 else str(number) for number in range(size)]),
        "lists": (aggregates, lambda size: [[number] for number in range(size)]),
        "not unique": (aggregates, lambda size: [*map(_uuid, range(size)), _uuid(0)]),
        "the last is wrong": (aggregates, lambda size: [*map(_uuid, range(size)), "x"]),
        "unknown keys": (manage, lambda size: {str(number): {} for number in range(size)}),
        "wrong consumers": (manage, lambda size: {
            _uuid(number): {"allocations": []} for number in range(size)}),
        "wrong inventories": (reshape, lambda size: {"allocations": {}, "inventories": {
            _uuid(number): {"inventories": {}} for number in range(size)}}),
        "none of three": (check, lambda size: {
            "project_id": "p", "deltas": {str(number): -1 for number in range(size)}}),
        "consumers": (check, lambda size: {
            "project_id": "p", "deltas": {"a": 0}, "recheck": True,
            "consumers": [*map(_uuid, range(size)), _uuid(0)]}),
    }


def _calls(refuser: validation.Schema, value: object) -> int:
    """Return how many functions a refusal calls."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        fault = refuser.validate(value)
    finally:
        sys.setprofile(None)
    assert fault is not None
    return count
