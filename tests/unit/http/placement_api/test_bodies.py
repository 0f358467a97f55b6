"""Bodies: what is accepted when, and in which words the rest is refused."""

from __future__ import annotations

from placement_core.http import validation
from placement_core.http.placement_api import bodies, microversions as mv
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
B = "8592a199-7d73-4465-8df6-ab00a6243c82"

LISTED = {"allocations": [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1}}]}
OWNER = {"project_id": "p", "user_id": "u"}
KEYED = {"allocations": {A: {"resources": {"VCPU": 1}, "generation": 3}}, **OWNER}
NOTHING = {"allocations": {}, **OWNER}
GUARDED = {**KEYED, "consumer_generation": None}
MAPPED = {**GUARDED, "mappings": {"": [A], "_NET": [A, B]}}
TYPED = {**GUARDED, "consumer_type": "INSTANCE"}
RECORD = {"total": 1}
INVENTORIES = {A: {"resource_provider_generation": 0, "inventories": {"VCPU": RECORD}}}


def fault(ladder, version, body):
    return validation.Schema(ladder.at(version), validation.is_uuid_like).validate(body) or ""


class TestAcceptance(base.TestCase):
    def test_accepted_from_to(self):
        end = None
        for ladder, since, until, body in (
            (bodies.PROVIDER_CREATE, mv.BASE, end, {"name": "n", "uuid": A.replace("-", "")}),
            (bodies.PROVIDER_CREATE, mv.NESTED_PROVIDERS, end,
             {"name": "n", "parent_provider_uuid": None}),
            (bodies.PROVIDER_UPDATE, mv.NESTED_PROVIDERS, end,
             {"name": "n", "parent_provider_uuid": A}),
            (bodies.AGGREGATES_REPLACE, mv.AGGREGATES, mv.PROVIDERS_REQUIRED, [A, B]),
            (bodies.AGGREGATES_REPLACE, mv.AGGREGATES_GENERATION, end,
             {"aggregates": [A], "resource_provider_generation": 1}),
            (bodies.ALLOCATIONS_REPLACE, mv.BASE, mv.ENSURE_CLASS, LISTED),
            (bodies.ALLOCATIONS_REPLACE, mv.OWNERS, mv.ALLOCATIONS_LINK, {**LISTED, **OWNER}),
            (bodies.ALLOCATIONS_REPLACE, mv.ALLOCATIONS_DICT, mv.ALL_CLASSES, KEYED),
            (bodies.ALLOCATIONS_REPLACE, mv.CONSUMER_GENERATION, mv.REPARENTING, GUARDED),
            (bodies.ALLOCATIONS_REPLACE, mv.CONSUMER_GENERATION, mv.REPARENTING,
             {**NOTHING, "consumer_generation": 4}),
            (bodies.ALLOCATIONS_REPLACE, mv.MAPPINGS, mv.REPARENTING, MAPPED),
            (bodies.ALLOCATIONS_REPLACE, mv.CONSUMER_TYPES, end, TYPED),
            (bodies.ALLOCATIONS_MANAGE, mv.POST_ALLOCATIONS, mv.ALL_CLASSES,
             {A: KEYED, B: NOTHING}),
            (bodies.ALLOCATIONS_MANAGE, mv.CONSUMER_GENERATION, mv.REPARENTING, {A: GUARDED}),
            (bodies.ALLOCATIONS_MANAGE, mv.MAPPINGS, mv.REPARENTING, {A: MAPPED}),
            (bodies.ALLOCATIONS_MANAGE, mv.CONSUMER_TYPES, end, {A: TYPED}),
            (bodies.RESHAPE, mv.RESHAPER, mv.REPARENTING,
             {"inventories": INVENTORIES, "allocations": {B: GUARDED}}),
            (bodies.RESHAPE, mv.MAPPINGS, mv.REPARENTING,
             {"inventories": INVENTORIES, "allocations": {B: MAPPED}}),
            (bodies.RESHAPE, mv.CONSUMER_TYPES, end,
             {"inventories": INVENTORIES, "allocations": {B: TYPED}}),
            (bodies.RESHAPE, mv.RESHAPER, end, {"inventories": INVENTORIES, "allocations": {}}),
        ):
            first = min(ladder.rungs)
            for step in mv.ALL:
                if step.version < first:
                    continue
                accepted = since <= step.version and (until is end or step.version <= until)
                self.assertEqual(
                    accepted, fault(ladder, step.version, body) == "", (step.version, body))

    def test_renaming_a_class_has_a_body(self):
        self.assertEqual("", fault(bodies.CLASS_UPDATE, mv.TRAITS, {"name": "CUSTOM_A"}))
        self.assertIsNone(bodies.CLASS_UPDATE.at(mv.ENSURE_CLASS))


class TestRefusal(base.TestCase):
    def refused(self, ladder, body, *wordings, version=mv.NEWEST):
        text = fault(ladder, version, body)
        for wording in wordings:
            self.assertIn(wording, text)

    def test_providers(self):
        for body, wording in (
            ({}, "'name' is a required property"),
            ({"name": ""}, "should be non-empty"),
            ({"name": "x" * 201}, "Failed validating 'maxLength'"),
            ({"name": 7}, "7 is not of type 'string'"),
            ({"name": "n", "uuid": "x"}, "'x' is not a 'uuid'"),
            ({"name": "n", "x": 1}, "Additional properties are not allowed ('x' was unexpected)"),
            ({"name": "n", "parent_provider_uuid": "x"}, "not a 'uuid'"),
            ([], "[] is not of type 'object'"),
            (None, "None is not of type 'object'"),
        ):
            self.refused(bodies.PROVIDER_CREATE, body, wording)
        self.refused(bodies.PROVIDER_UPDATE, {"name": "n", "uuid": A}, "'uuid' was unexpected")

    def test_inventories(self):
        new = {"resource_class": "VCPU"}
        for body, wordings in (
            (new, ["'total' is a required property"]),
            ({**new, "total": 0},
             ["0 is less than the minimum of 1",
              "Failed validating 'minimum' in schema['properties']['total']"]),
            ({**new, "total": True}, ["True is not of type 'integer'"]),
            ({**new, "total": 1.5}, ["1.5 is not of type 'integer'"]),
            ({**new, "total": bodies.MAX_INT + 1}, ["Failed validating 'maximum'"]),
            ({**new, "total": 1, "reserved": -1}, ["-1 is less than the minimum of 0"]),
            ({**new, "total": 1, "max_unit": 0},
             ["Failed validating 'minimum' in schema['properties']['max_unit']"]),
            ({**new, "total": 1, "allocation_ratio": 1e39}, ["Failed validating 'maximum'"]),
            ({**new, "total": 1, "allocation_ratio": "1"}, ["'1' is not of type 'number'"]),
            ({"resource_class": "vcpu", "total": 1}, ["does not match '^[A-Z0-9_]+$'"]),
        ):
            self.refused(bodies.INVENTORY_CREATE, body, *wordings)
        self.refused(bodies.INVENTORY_UPDATE, RECORD,
                     "'resource_provider_generation' is a required property")

    def test_records_under_any_key_are_judged(self):
        for name in ("VCPU", "bad class", ""):
            self.refused(
                bodies.INVENTORIES_REPLACE,
                {"resource_provider_generation": 1, "inventories": {name: {"total": "x"}}},
                "'x' is not of type 'integer'")
        self.assertEqual("", fault(bodies.INVENTORIES_REPLACE, mv.BASE, {
            "resource_provider_generation": 1,
            "inventories": {"bad class": {"total": 1, "resource_provider_generation": 1}}}))

    def test_aggregates_and_traits(self):
        newest = {"resource_provider_generation": 1}
        self.refused(bodies.AGGREGATES_REPLACE, [A, A], "has non-unique elements",
                     version=mv.AGGREGATES)
        self.refused(bodies.AGGREGATES_REPLACE, {**newest, "aggregates": ["x"]},
                     "'x' is not a 'uuid'")
        self.refused(bodies.AGGREGATES_REPLACE, {**newest, "aggregates": [f"urn:uuid:{A}"]},
                     "Failed validating 'maxLength'")
        self.refused(bodies.PROVIDER_TRAITS_REPLACE, {**newest, "traits": "x"},
                     "'x' is not of type 'array'")
        self.refused(bodies.PROVIDER_TRAITS_REPLACE, {**newest, "traits": ["x" * 256]},
                     "Failed validating 'maxLength'")

    def test_allocations(self):
        for body, wordings in (
            ({**TYPED, "consumer_generation": "x"}, ["'x' is not of type 'integer', 'null'"]),
            ({**TYPED, "consumer_type": "instance"},
             ["'instance' does not match '^[A-Z0-9_]+$'"]),
            ({**TYPED, "consumer_type": ""}, []),
            ({**TYPED, "project_id": ""}, ["should be non-empty"]),
            ({**TYPED, "mappings": {}}, ["should be non-empty"]),
            ({**TYPED, "mappings": {"a": "b"}}, ["'b' is not of type 'array'"]),
            ({**TYPED, "allocations": []}, ["[] is not of type 'object'"]),
            ({**TYPED, "allocations": {"x": {"resources": {"VCPU": 1}}}},
             ["'x' does not match any of the regexes: '^[0-9a-fA-F-]{36}$'"]),
            ({**TYPED, "allocations": {A: {"resources": {}}}}, ["should be non-empty"]),
            ({**TYPED, "allocations": {A: {"resources": {"VCPU": 0}}}},
             ["0 is less than the minimum of 1"]),
            ({**TYPED, "allocations": {A: {"resources": {"vcpu": 1}}}},
             ["does not match any of the regexes"]),
        ):
            self.refused(bodies.ALLOCATIONS_REPLACE, body, "Failed validating", *wordings)
        self.refused(bodies.ALLOCATIONS_MANAGE, {}, "should be non-empty")
        # "$" lets a line feed follow: 37 characters, which fit no column.
        self.refused(bodies.ALLOCATIONS_MANAGE, {f"{A}\n": TYPED}, "Failed validating")
        self.refused(bodies.ALLOCATIONS_REPLACE, {"allocations": []}, "Failed validating",
                     version=mv.BASE)
