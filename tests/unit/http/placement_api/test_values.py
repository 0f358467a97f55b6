"""The grammar of single query values."""

from __future__ import annotations

from placement_core import errors
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import values
from placement_core.placement.candidates.requests import AggregateFilter, TraitFilter
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
B = "8592a199-7d73-4465-8df6-ab00a6243c82"


def one_of(*names):
    return frozenset(names)


class TestResources(base.TestCase):
    def test_amounts(self):
        for text, amounts in (
            ("VCPU:1", {"VCPU": 1}),
            ("VCPU:1,MEMORY_MB:1024", {"VCPU": 1, "MEMORY_MB": 1024}),
            ("VCPU:1,VCPU:2", {"VCPU": 2}),
            ("VCPU: 1 ", {"VCPU": 1}),
            ("VCPU:" + "9" * 5000, {"VCPU": 2 ** 62}),
        ):
            self.assertEqual(amounts, values.parse_resources(text), text[:40])

    def test_refusals(self):
        form = ("Badly formed resources parameter. Expected resources query string parameter "
                "in form: ?resources=VCPU:2,MEMORY_MB:1024. Got: ")
        for text, message in (
            ("", f"{form}empty string."),
            ("  ", f"{form}empty string."),
            ("VCPU", f"{form}VCPU."),
            ("VCPU:1,", f"{form}."),
            ("VCPU:1:2", f"{form}VCPU:1:2."),
            ("VCPU:", "expected positive integer amount. Got: ."),
            ("VCPU:fish", "Requested resource VCPU expected positive integer amount. Got: fish."),
            ("VCPU:1.0", "expected positive integer amount"),
            ("VCPU:1_0", "expected positive integer amount"),
            ("VCPU:٣", "expected positive integer amount"),
            ("VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0."),
            ("VCPU:-1", "requires amount >= 1. Got: -1."),
            ("VCPU:-" + "9" * 5000, "requires amount >= 1"),
        ):
            error = self.assertRaises(errors.Invalid, values.parse_resources, text)
            self.assertIn(message, str(error))


class TestTraits(base.TestCase):
    def test_filters(self):
        for texts, version, wanted in (
            ([], mv.NEWEST, TraitFilter()),
            (["A"], mv.CANDIDATES_TRAITS, TraitFilter((one_of("A"),))),
            (["A, B "], mv.CANDIDATES_TRAITS, TraitFilter((one_of("A"), one_of("B")))),
            (["A", "B"], mv.CONSUMER_TYPES, TraitFilter((one_of("B"),))),
            (["!A"], mv.FORBIDDEN_TRAITS, TraitFilter((), one_of("A"))),
            (["!!!A,B"], mv.FORBIDDEN_TRAITS, TraitFilter((one_of("B"),), one_of("A"))),
            (["in:A,B"], mv.ANY_TRAITS, TraitFilter((one_of("A", "B"),))),
            (["in:A, B", "C,!D", "in:E"], mv.ANY_TRAITS,
             TraitFilter((one_of("A", "B"), one_of("C"), one_of("E")), one_of("D"))),
        ):
            self.assertEqual(wanted, values.parse_traits(texts, version), texts)

    def test_refusals(self):
        begin = "Invalid query string parameters: "
        plain = f"{begin}Expected 'required' parameter value of the form: HW_CPU_X86_VMX," \
                "CUSTOM_MAGIC. Got"
        forbidding = f"{begin}Expected 'required' parameter value of the form: HW_CPU_X86_VMX," \
                     "!CUSTOM_MAGIC. Got an empty trait in: "
        for text, version, message in (
            ("", mv.CANDIDATES_TRAITS, f"{plain} an empty trait in: "),
            ("A,,B", mv.CANDIDATES_TRAITS, f"{plain} an empty trait in: A,,B"),
            ("!A", mv.CANDIDATES_TRAITS, f"{plain}: !A"),
            ("", mv.FORBIDDEN_TRAITS, forbidding),
            ("!", mv.FORBIDDEN_TRAITS, f"{forbidding}!"),
            ("in:A,B", mv.CONSUMER_TYPES,
             f"{begin}The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since "
             "microversion 1.39. Got: in:A,B"),
            ("in:", mv.ANY_TRAITS, "Got an empty trait in: in:"),
            ("in:A,!B", mv.ANY_TRAITS, "does not support forbidden traits. Got: in:A,!B"),
        ):
            error = self.assertRaises(errors.Invalid, values.parse_traits, [text], version)
            self.assertIn(message, str(error))


class TestAggregates(base.TestCase):
    def test_filters(self):
        for texts, version, wanted in (
            ([], mv.NEWEST, AggregateFilter()),
            ([A], mv.MEMBER_OF, AggregateFilter((one_of(A),))),
            ([f"in:{A},{B}"], mv.MEMBER_OF, AggregateFilter((one_of(A, B),))),
            ([A, B], mv.MEMBER_OF_REPEATED, AggregateFilter((one_of(A), one_of(B)))),
            ([f"!{A}"], mv.FORBIDDEN_AGGREGATES, AggregateFilter((), one_of(A))),
            ([f"!in:{A},{B}", A], mv.FORBIDDEN_AGGREGATES,
             AggregateFilter((one_of(A),), one_of(A, B))),
        ):
            self.assertEqual(wanted, values.parse_aggregates(texts, version), texts)

    def test_refusals(self):
        for texts, version, message in (
            (["x"], mv.NEWEST, "Invalid query string parameters: Expected 'member_of' parameter "
                               "to contain valid UUID(s). Got: x"),
            ([""], mv.NEWEST, "contain valid UUID(s)"),
            (["in:"], mv.NEWEST, "contain valid UUID(s)"),
            ([f"in:{A},x"], mv.NEWEST, "Got: x"),
            ([f"!!{A}"], mv.NEWEST, f"Got: !{A}"),
            ([f"{A},{B}"], mv.NEWEST, "Multiple values for 'member_of' must be prefixed with "
                                      "the 'in:' or '!in:' keyword"),
            ([f"!{A}"], mv.CANDIDATES_IN_TREE,
             "Forbidden member_of7 parameters are not supported in the specified microversion"),
            ([A, B], mv.ERROR_CODES, "Multiple member_of7 parameters are not supported"),
        ):
            error = self.assertRaises(
                errors.Invalid, values.parse_aggregates, texts, version, suffix="7")
            self.assertIn(message, str(error))


class TestTree(base.TestCase):
    def test_uuid(self):
        self.assertEqual(A, values.parse_tree(f" {A} "))
        error = self.assertRaises(errors.Invalid, values.parse_tree, "oak")
        self.assertIn("Expected 'in_tree' parameter to be a format of uuid. Got: oak", str(error))
