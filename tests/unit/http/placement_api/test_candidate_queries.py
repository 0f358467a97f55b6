"""Query strings of GET /allocation_candidates."""

from __future__ import annotations

import urllib.parse

from placement_core import errors
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import candidates
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
BAD_VALUE = "placement.query.bad_value"
UNCODED = "placement.undefined_code"


def parse(text, version=mv.NEWEST):
    return candidates.parse(urllib.parse.parse_qs(text, keep_blank_values=True), version)


def traits(*required, forbidden=()):
    return TraitFilter(tuple(frozenset((name,)) for name in required), frozenset(forbidden))


class TestRequest(base.TestCase):
    def test_unsuffixed_group(self):
        self.assertEqual(
            CandidatesRequest(groups=(RequestGroup(
                "", {"VCPU": 1}, traits("T", forbidden=["U"]),
                AggregateFilter((frozenset((A,)),)), in_tree=A),), limit=5),
            parse(f"resources=VCPU:1&required=T,!U&member_of={A}&in_tree={A}&limit=5"))

    def test_granular_groups(self):
        request = parse("resources=VCPU:1&resources1=DISK_GB:5&required1=T&resources2=IPV4:1"
                        "&group_policy=isolate")
        self.assertEqual(
            (RequestGroup("", {"VCPU": 1}), RequestGroup("1", {"DISK_GB": 5}, traits("T")),
             RequestGroup("2", {"IPV4": 1})),
            request.groups)
        self.assertTrue(request.isolate)

    def test_named_groups(self):
        request = parse("resources_NET-1=VCPU:1&required_NET-1=T")
        self.assertEqual((RequestGroup("_NET-1", {"VCPU": 1}, traits("T")),), request.groups)

    def test_subtrees(self):
        request = parse("resources_A=VCPU:1&required_B=T&same_subtree=_A, _B&group_policy=none"
                        "&root_required=R,!S")
        self.assertEqual((frozenset(("_A", "_B")),), request.same_subtree)
        self.assertEqual(traits("R", forbidden=["S"]), request.root_traits)
        self.assertFalse(request.isolate)

    def test_nested_only_since_1_29(self):
        self.assertTrue(parse("resources=VCPU:1", mv.NESTED_CANDIDATES).nested)
        self.assertFalse(parse("resources=VCPU:1", mv.CONSUMER_GENERATION).nested)

    def test_repeated_values(self):
        request = parse("resources=VCPU:1&resources=VCPU:3&limit=7&limit=1&group_policy=isolate"
                        "&group_policy=none")
        self.assertEqual({"VCPU": 3}, request.groups[0].resources)
        self.assertEqual(7, request.limit)
        self.assertTrue(request.isolate)

    def test_endless_limit(self):
        self.assertIsNone(parse("resources=VCPU:1&limit=" + "9" * 5000).limit)

    def test_refusals(self):
        for text, version, code, message in (
            ("", mv.SAME_SUBTREE, "placement.query.missing_value",
             "There must be at least one resources or resources[$S] parameter."),
            ("required=T", mv.SAME_SUBTREE, "placement.query.missing_value",
             "There must be at least one"),
            ("resources1=VCPU:1&required2=T&group_policy=none", mv.SAME_SUBTREE, BAD_VALUE,
             "Resourceless suffixed group request should be specified in `same_subtree` query "
             "param"),
            ("resources1=VCPU:1&same_subtree=1,2", mv.SAME_SUBTREE, BAD_VALUE,
             "Real suffixes should be specified in `same_subtree`: ['2'] not found in ['1']."),
            ("resources1=VCPU:1&same_subtree=1,", mv.SAME_SUBTREE, BAD_VALUE,
             "Empty string (unsuffixed group) can not be specified in `same_subtree`"),
            ("", mv.ROOT_REQUIRED, UNCODED, "At least one request group"),
            ("required=T&required1=T&resources2=VCPU:1", mv.ROOT_REQUIRED, UNCODED,
             "All traits parameters must be associated with resources.  Found the following "
             "orphaned traits keys: required, required1"),
            (f"member_of=!{A}&resources2=VCPU:1", mv.ROOT_REQUIRED, UNCODED,
             "Found the following orphaned member_of keys: member_of"),
            (f"in_tree={A}&resources1=VCPU:1", mv.ROOT_REQUIRED, UNCODED,
             "All request groups must specify resources."),
            ("resources=VCPU:1&required=T,!T", mv.FORBIDDEN_TRAITS, UNCODED,
             "Conflicting required and forbidden traits found in the following traits keys: "
             "required: (T)"),
            ("resources=VCPU:1&required=in:T,U&required=!T,!U", mv.ANY_TRAITS, UNCODED,
             "required: (T, U)"),
            ("resources1=VCPU:1&resources2=VCPU:1", mv.GRANULAR, UNCODED,
             'The "group_policy" parameter is required when specifying more than one '
             '"resources{N}" parameter.'),
            ("resources=VCPU:1&root_required=A&root_required=B", mv.ROOT_REQUIRED,
             "placement.query.duplicate_key", "may be specified only once"),
            ("resources=VCPU:1&root_required=A,!A", mv.ROOT_REQUIRED, BAD_VALUE,
             "Conflicting required and forbidden traits found in root_required: A"),
            ("resources=VCPU:1&root_required=in:A,B", mv.ANY_TRAITS, UNCODED,
             "does not support the 'in:' format"),
            ("resources=VCPU:1&limit=abc&limit=1", mv.NEWEST, UNCODED,
             "'abc' does not match '^[1-9][0-9]*$'"),
            ("resources=VCPU:1&group_policy=bogus&group_policy=none", mv.NEWEST, UNCODED,
             "'bogus' is not one of ['none', 'isolate']"),
            ("resources1%0a=VCPU:1&resources=VCPU:1", mv.NEWEST, UNCODED, "is not a parameter"),
            ("resources=VCPU:1&resources=VCPU", mv.NEWEST, UNCODED, "Badly formed resources"),
        ):
            error = self.assertRaises(errors.Invalid, parse, text, version)
            self.assertIn(message, str(error))
            self.assertEqual(code, error.code, text)
