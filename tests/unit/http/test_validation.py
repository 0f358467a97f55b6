"""JSON, query strings and schemas, value by value."""

from __future__ import annotations

import fastjsonschema
import hypothesis
import jsonschema
from hypothesis import strategies as st

from placement_core.http import validation
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
                self.assertEqual(like, validation.uuid_like(value))
                self.assertEqual(strict, validation.strict_uuid(value))


class TestSchema(base.TestCase):
    """The compiled validator never refuses what ``jsonschema`` accepts."""

    def fault(self, schema: dict[str, object], value: object) -> str | None:
        return validation.Schema(schema, validation.uuid_like).fault(value)

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
