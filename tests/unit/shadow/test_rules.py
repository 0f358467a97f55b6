"""How two answers are compared."""

from __future__ import annotations

import json
from typing import Any

import testtools

from placement_core.shadow import rules
from placement_core.shadow.messages import Answer, Request


def answer(document: object, status: int = 200, **headers: str) -> Answer:
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(status, "", sent, json.dumps(document).encode())


def compare(target: str, first: Answer, second: Answer) -> rules.Comparison:
    return rules.compare(Request("GET", target, ()), first, second)


def candidates(*amounts: int, capacity: int = 8, used: int = 0) -> dict[str, Any]:
    """Return candidates of one host each, that ask for so much."""
    return {
        "allocation_requests": [
            {"allocations": {f"p{number}": {"resources": {"VCPU": amount}}}, "mappings": {}}
            for number, amount in enumerate(amounts)],
        "provider_summaries": {
            f"p{number}": {"resources": {"VCPU": {"capacity": capacity, "used": used}}}
            for number in range(len(amounts))}}


class TestCompare(testtools.TestCase):
    def test_the_same(self) -> None:
        self.assertEqual(
            rules.Comparison(), compare("/traits", answer({"traits": []}), answer({"traits": []})))

    def test_status(self) -> None:
        self.assertEqual("traits: status 404, not 200", compare(
            "/traits/A", answer({}), answer({}, 404)).cause)

    def test_value(self) -> None:
        self.assertEqual("usages: body", compare(
            "/usages?project_id=p", answer({"usages": {"VCPU": 1}}),
            answer({"usages": {"VCPU": 2}})).cause)

    def test_header(self) -> None:
        self.assertEqual("traits: header content-type", compare(
            "/traits", answer({}, Content_Type="a/b"), answer({}, Content_Type="a/c")).cause)

    def test_a_missing_header(self) -> None:
        self.assertEqual("traits: header openstack-api-version", compare(
            "/traits", answer({}, OpenStack_API_Version="placement 1.0"), answer({})).cause)

    def test_known_noise_has_a_name(self) -> None:
        for first, second, name in (
            (answer({}, Date="1"), answer({}, date="2"), "time of the answer"),
            (answer({}, x_openstack_request_id="1"), answer({}), "request id"),
            (answer({}, Last_Modified="1"), answer({}, Last_Modified="2"),
             "time of the last change"),
            (answer({"t": ["a", "b"]}), answer({"t": ["b", "a"]}), "order of a list"),
            (answer({"links": [1], "a": 1}), answer({"links": [2], "a": 1}), "links"),
            (answer({"errors": [{"status": 409, "code": "c", "detail": "d", "request_id": "1"}]},
                    409),
             answer({"errors": [{"status": 409, "code": "c", "detail": "e"}]}, 409),
             "text of an error"),
            (answer({"model": {"name": "flat", "description": "d"}}),
             answer({"model": {"name": "flat", "description": "e"}}),
             "text of the model of limits"),
            (answer({}, Location="http://a/placement/resource_providers/u"),
             answer({}, Location="http://b/resource_providers/u"), "address of the service"),
        ):
            self.assertEqual(rules.Comparison(None, (name,)), compare("/x", first, second))
            self.assertIn(name, rules.list_noise())

    def test_another_model_of_limits(self) -> None:
        for document in ({"model": {"name": "strict_two_level"}}, {"model": None}, [1]):
            self.assertEqual("limits: body", compare(
                "/v3/limits/model", answer({"model": {"name": "flat"}}), answer(document)).cause)

    def test_another_location(self) -> None:
        self.assertEqual("other: header location", compare(
            "/x", answer({}, Location="http://a/u"), answer({}, Location="http://a/v")).cause)

    def test_the_code_of_an_error_is_no_noise(self) -> None:
        first, second = (
            answer({"errors": [{"status": 409, "code": code}]}, 409) for code in "ab")
        self.assertEqual("other: body", compare("/x", first, second).cause)

    def test_a_list_with_something_twice(self) -> None:
        self.assertEqual("traits: body", compare(
            "/traits", answer({"t": ["a", "b", "b"]}), answer({"t": ["a", "a", "b"]})).cause)

    def test_text_that_is_no_json(self) -> None:
        first, second = (Answer(200, "", (), text) for text in (b"a", b"b"))
        self.assertEqual("other: body", compare("/x", first, second).cause)
        first, second = (Answer(404, "", (), text) for text in (b"a", b"b"))
        self.assertIsNone(compare("/x", first, second).cause)


class TestCandidates(testtools.TestCase):
    everything = "/allocation_candidates?resources=VCPU:1"
    limited = f"{everything}&limit=2"

    def test_without_a_limit_they_are_a_set(self) -> None:
        first, second = candidates(1, 2), candidates(1, 2)
        second["allocation_requests"].reverse()
        self.assertEqual(("order of a list",), compare(
            self.everything, answer(first), answer(second)).noise)
        second["allocation_requests"].pop()
        self.assertEqual("candidates: body", compare(
            self.everything, answer(first), answer(second)).cause)

    def test_a_limit_may_choose_others(self) -> None:
        first, second = candidates(1, 1, 1), candidates(1, 1, 1)
        first["allocation_requests"].pop()
        second["allocation_requests"].pop(0)
        self.assertEqual(rules.Comparison(None, ("choice of a limit",)), compare(
            self.limited, answer(first), answer(second)))
        self.assertEqual("candidates: body", compare(
            self.everything, answer(first), answer(second)).cause)

    def test_what_a_limit_may_not_do(self) -> None:
        first = candidates(1, 1)
        twice = candidates(1, 1)
        twice["allocation_requests"][1] = twice["allocation_requests"][0]
        for second, cause in (
            (candidates(1), "number of candidates"),
            (twice, "a candidate twice"),
            (candidates(1, 9), "a candidate that does not fit"),
            (candidates(1, 1, used=8), "a candidate that does not fit"),
            (candidates(1, 1, used=1), "summary of a provider"),
        ):
            self.assertEqual(f"candidates: {cause}", compare(
                self.limited, answer(first), answer(second)).cause)

    def test_the_form_before_1_12(self) -> None:
        old = candidates(1)
        old["allocation_requests"] = [{"allocations": [
            {"resource_provider": {"uuid": "p0"}, "resources": {"VCPU": amount}}]}
            for amount in (1, 2)]
        new = json.loads(json.dumps(old))
        new["allocation_requests"].reverse()
        self.assertIsNone(compare(self.limited, answer(old), answer(new)).cause)
        new["allocation_requests"][0]["allocations"][0]["resources"]["VCPU"] = 99
        self.assertEqual("candidates: a candidate that does not fit", compare(
            self.limited, answer(old), answer(new)).cause)
