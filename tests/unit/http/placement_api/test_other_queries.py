"""Query strings of GET /resource_providers, /traits; and what any query may hold."""

from __future__ import annotations

import urllib.parse

from placement_core import errors
from placement_core.http import validation
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import providers, schemas, traits
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    ProviderFilter,
    TraitFilter,
)
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"


def query(text):
    return urllib.parse.parse_qs(text, keep_blank_values=True)


class TestProviders(base.TestCase):
    def test_filters(self):
        for text, wanted in (
            ("", ProviderFilter()),
            ("name=&uuid=", ProviderFilter()),
            (f"name=n&uuid={A}&in_tree={A}", ProviderFilter("n", A, A)),
            ("name=a&name=b", ProviderFilter("b")),
            ("resources=VCPU:2", ProviderFilter(resources={"VCPU": 2})),
            (f"required=!T&member_of={A}", ProviderFilter(
                traits=TraitFilter((), frozenset("T")),
                aggregates=AggregateFilter((frozenset((A,)),)))),
        ):
            self.assertEqual(wanted, providers.parse(query(text), mv.NEWEST), text)


class TestTraits(base.TestCase):
    def test_filters(self):
        for text, wanted in (
            ("", {}),
            ("name=in:A,B", {"names": ["A", "B"]}),
            ("name=startswith:CUSTOM_", {"prefix": "CUSTOM_"}),
            ("name=startswith:", {"prefix": ""}),
            ("associated=TRUE", {"associated": True}),
            ("name=in:A&associated=false", {"names": ["A"], "associated": False}),
        ):
            self.assertEqual(wanted, traits.parse(query(text)), text)

    def test_refusals(self):
        for text, message in (
            ("name=in_abc", '?name=[in|startswith]:[name1,name2|prefix]. Got: "in_abc"'),
            ("name=in", "Badly formatted name parameter"),
            ("name=like:A", "Badly formatted name parameter"),
            ("associated=", 'The query parameter "associated" only accepts "true" or "false"'),
        ):
            error = self.assertRaises(errors.Invalid, traits.parse, query(text))
            self.assertIn(message, str(error))


class TestSchemas(base.TestCase):
    def fault(self, ladder, version, text):
        schema = validation.Schema(ladder.at(version), validation.is_strict_uuid)
        return schema.validate(dict(urllib.parse.parse_qsl(text, keep_blank_values=True))) or ""

    def test_parameters_appear(self):
        steps = (
            (schemas.PROVIDERS, mv.BASE, (), "name=n"),
            (schemas.PROVIDERS, mv.MEMBER_OF, mv.RESOURCE_CLASSES, "member_of=x"),
            (schemas.PROVIDERS, mv.RESOURCES_QUERY, mv.MEMBER_OF, "resources=x"),
            (schemas.PROVIDERS, mv.NESTED_PROVIDERS, mv.POST_ALLOCATIONS, f"in_tree={A}"),
            (schemas.PROVIDERS, mv.PROVIDERS_REQUIRED, mv.CANDIDATES_TRAITS, "required=x"),
            (schemas.USAGES, mv.CONSUMER_TYPES, mv.REPARENTING, "project_id=p&consumer_type=all"),
            (schemas.CANDIDATES, mv.CANDIDATES_LIMIT, mv.CACHE_HEADERS, "resources=x&limit=1"),
            (schemas.CANDIDATES, mv.CANDIDATES_TRAITS, mv.CANDIDATES_LIMIT,
             "resources=x&required=y"),
            (schemas.CANDIDATES, mv.CANDIDATES_MEMBER_OF, mv.PROVIDER_IN_BODY,
             "resources=x&member_of=y"),
            (schemas.CANDIDATES, mv.GRANULAR, mv.MEMBER_OF_REPEATED, "resources=x&resources1=x"),
            (schemas.CANDIDATES, mv.GRANULAR, mv.MEMBER_OF_REPEATED,
             "resources=x&group_policy=none"),
            (schemas.CANDIDATES, mv.CANDIDATES_IN_TREE, mv.RESHAPER, "resources=x&in_tree1=x"),
            (schemas.CANDIDATES, mv.NAMED_SUFFIXES, mv.FORBIDDEN_AGGREGATES, "resources_A=x"),
            (schemas.CANDIDATES, mv.ROOT_REQUIRED, mv.MAPPINGS, "root_required=x"),
            (schemas.CANDIDATES, mv.SAME_SUBTREE, mv.ROOT_REQUIRED, "same_subtree=x"),
        )
        for ladder, since, before, text in steps:
            self.assertEqual("", self.fault(ladder, since, text), text)
            if before:
                self.assertNotEqual("", self.fault(ladder, before, text), text)

    def test_wording(self):
        for ladder, version, text, wording in (
            (schemas.PROVIDERS, mv.NEWEST, "uuid=spam", "'spam' is not a 'uuid'"),
            (schemas.PROVIDERS, mv.NEWEST, f"in_tree={A.replace('-', '')}", "is not a 'uuid'"),
            (schemas.PROVIDERS, mv.NEWEST, "spam=eggs", "('spam' was unexpected)"),
            (schemas.CANDIDATES, mv.CANDIDATES, "", "'resources' is a required property"),
            (schemas.CANDIDATES, mv.NEWEST, "resources1@=VCPU:1",
             "'resources1@' does not match any of the regexes"),
            (schemas.CANDIDATES, mv.NEWEST, "resources1@=VCPU:1",
             "^member_of([a-zA-Z0-9_-]{1,64})?$"),
            (schemas.CANDIDATES, mv.GRANULAR, "resources01=x",
             "'resources01' does not match any of the regexes"),
            (schemas.CANDIDATES, mv.NEWEST, "limit=cow", "Failed validating 'pattern'"),
            (schemas.CANDIDATES, mv.NEWEST, "group_policy=bogus",
             "'bogus' is not one of ['none', 'isolate']"),
            (schemas.USAGES, mv.NEWEST, "project_id=", "Failed validating 'minLength'"),
            (schemas.USAGES, mv.NEWEST, "project_id=p&consumer_type=x",
             "Failed validating 'pattern'"),
        ):
            self.assertIn(wording, self.fault(ladder, version, text))
