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


def summary(
    *traits: str, root: str | None = None, **capacity: int
) -> dict[str, Any]:
    """Return what an answer says of a provider that nobody uses yet."""
    return {
        "resources": {name: {"capacity": amount, "used": 0} for name, amount in capacity.items()},
        "traits": list(traits), "parent_provider_uuid": root, "root_provider_uuid": root}


def candidate(
    mappings: dict[str, list[str]] | None = None, **allocations: dict[str, int]
) -> dict[str, Any]:
    """Return a candidate of amounts by provider; without mappings as before 1.34."""
    shown = {} if mappings is None else {"mappings": mappings}
    return {**shown, "allocations": {
        provider: {"resources": amounts} for provider, amounts in allocations.items()}}


def document(
    summaries: dict[str, dict[str, Any]], *listed: dict[str, Any]
) -> dict[str, Any]:
    return {"allocation_requests": list(listed), "provider_summaries": summaries}


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
        old = candidates(1, 1)
        old["allocation_requests"] = [{"allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": {"VCPU": 1}}]}
            for uuid in ("p0", "p1")]
        new = json.loads(json.dumps(old))
        new["allocation_requests"].reverse()
        for target in (self.limited, self.everything):
            self.assertIsNone(compare(target, answer(old), answer(new)).cause)
        amounts = new["allocation_requests"][0]["allocations"][0]["resources"]
        for amount, cause in ((99, "a candidate that does not fit"),
                              (2, "amounts of a candidate")):
            amounts["VCPU"] = amount
            self.assertEqual(f"candidates: {cause}", compare(
                self.limited, answer(old), answer(new)).cause)

    def test_a_limit_that_is_not_reached(self) -> None:
        """It leaves nothing out, so all candidates are compared."""
        target = "/allocation_candidates?resources=VCPU:4&required=CUSTOM_A&limit=1000"
        summaries = {f"p{number}": summary("CUSTOM_A", VCPU=8) for number in range(3)}
        listed = [candidate(None, **{provider: {"VCPU": 4}}) for provider in summaries]
        first = document(summaries, *listed)
        self.assertEqual(rules.Comparison(None, ("order of a list",)), compare(
            target, answer(first), answer(document(summaries, *reversed(listed)))))
        others = {**summaries, "p3": summary(VCPU=8)}
        for second in (
            document(summaries, *listed[:2], candidate(p2={"VCPU": 1})),
            document(others, *listed[:2], candidate(p3={"VCPU": 4})),
            document(summaries, *listed[:2]),
        ):
            self.assertEqual("candidates: body", compare(
                target, answer(first), answer(second)).cause)

    def test_the_second_side_reaches_a_limit_that_the_first_does_not(self) -> None:
        for count in (2, 3):
            self.assertEqual("candidates: body", compare(
                self.limited, answer(candidates(1)), answer(candidates(*[1] * count))).cause)

    def test_more_candidates_than_the_limit(self) -> None:
        first, second = candidates(1, 1, 1), candidates(1, 1, 1)
        second["allocation_requests"].reverse()
        self.assertEqual("candidates: number of candidates", compare(
            self.limited, answer(first), answer(second)).cause)

    def test_of_several_limits_the_first_counts(self) -> None:
        """As in both services."""
        first, second = candidates(1, 1, 1), candidates(1, 1, 1)
        first["allocation_requests"].pop()
        second["allocation_requests"].pop(0)
        self.assertIsNone(compare(
            f"{self.everything}&limit=2&limit=9", answer(first), answer(second)).cause)
        self.assertEqual("candidates: body", compare(
            f"{self.everything}&limit=9&limit=2", answer(first), answer(second)).cause)

    def test_a_limit_that_is_none(self) -> None:
        first, second = candidates(1, 1, 1), candidates(1, 1, 1)
        first["allocation_requests"].pop()
        second["allocation_requests"].pop(0)
        for limit in ("", "a", "0", "-1", "9" * 5000, "%FF"):
            self.assertEqual("candidates: body", compare(
                f"{self.everything}&limit={limit}", answer(first), answer(second)).cause)

    def test_the_same_in_another_spelling(self) -> None:
        """Whatever it is, both sides say it."""
        said = candidates(9, 9)
        other = Answer(200, "", (), json.dumps(said, indent=1).encode())
        self.assertEqual(rules.Comparison(), compare(self.limited, answer(said), other))

    def test_what_is_no_answer_of_candidates(self) -> None:
        good = candidates(1, 1)
        for broken in (
            [], 1, "text", {}, {**good, "allocation_requests": [1, 2]},
            {**good, "allocation_requests": None}, {**good, "provider_summaries": None},
            {**good, "provider_summaries": {"p0": []}},
            {**good, "allocation_requests": [{"allocations": {"p0": {"resources": amounts}}}
                                             for amounts in ({"VCPU": "1"}, {"VCPU": None})]},
            {**good, "allocation_requests": [{"allocations": [{}]}, {"allocations": 1}]},
            {**good, "allocation_requests": [
                {"allocations": {}, "mappings": mappings} for mappings in ([1], {"": 1})]},
            {**good, "provider_summaries": {"p0": {"resources": {"VCPU": {"capacity": "1"}}}}},
        ):
            for first, second in ((good, broken), (broken, good)):
                self.assertEqual("candidates: body", compare(
                    self.limited, answer(first), answer(second)).cause, str(broken))

    def test_what_is_no_query(self) -> None:
        """Amounts that are none say nothing; the rest is judged."""
        for query in ("resources=VCPU", "resources=VCPU:a", "resources=", "resources=VCPU:1:2",
                      "resources1=%FF", f"resources=VCPU:{'9' * 5000}"):
            target = f"/allocation_candidates?{query}&limit=2"
            first, second = candidates(1, 1), candidates(1, 2)
            self.assertIsNone(compare(target, answer(first), answer(second)).cause, query)
            self.assertEqual("candidates: a candidate that does not fit", compare(
                target, answer(first), answer(candidates(1, 9))).cause, query)


class TestChoice(testtools.TestCase):
    """What candidates have to be where a limit chose them."""

    def judge(
        self, query: str, summaries: dict[str, dict[str, Any]], *listed: dict[str, Any],
        version: str = "1.36",
    ) -> str | None:
        """Return the cause if the first side chose other candidates, as many as the limit."""
        others = [candidate({"": [f"other{number}"]}, **{f"other{number}": {}})
                  for number in range(len(listed))]
        first, second = (
            answer(said, OpenStack_API_Version=f"placement {version}")
            for said in (document({}, *others), document(summaries, *listed)))
        return compare(
            f"/allocation_candidates?{query}&limit={len(listed)}", first, second).cause

    def test_amounts(self) -> None:
        summaries = {"p": summary(VCPU=8, DISK_GB=8)}
        query = "resources=VCPU:4,DISK_GB:2"
        self.assertIsNone(self.judge(query, summaries, candidate(p={"VCPU": 4, "DISK_GB": 2})))
        for amounts in ({"VCPU": 1, "DISK_GB": 2}, {"VCPU": 5, "DISK_GB": 2}, {"VCPU": 4}, {}):
            self.assertEqual("candidates: amounts of a candidate", self.judge(
                query, summaries, candidate(p=amounts)))
        self.assertEqual("candidates: amounts of a candidate", self.judge(
            "resources=VCPU:4", summaries, candidate(p={"VCPU": 4, "DISK_GB": 2})))

    def test_a_later_candidate(self) -> None:
        self.assertEqual("candidates: amounts of a candidate", self.judge(
            "resources=VCPU:4", {"p": summary(VCPU=8), "q": summary(VCPU=8)},
            candidate(p={"VCPU": 4}), candidate(q={"VCPU": 1})))

    def test_of_several_resources_the_last_count(self) -> None:
        self.assertIsNone(self.judge(
            "resources=VCPU:1&resources=VCPU:4", {"p": summary(VCPU=8)},
            candidate(p={"VCPU": 4})))

    def test_amounts_of_all_groups(self) -> None:
        """Groups that one provider serves are added up."""
        query = "resources=VCPU:4&resources1=VCPU:2&resources_X=DISK_GB:1&group_policy=none"
        summaries = {"p": summary(VCPU=8), "q": summary(VCPU=8, DISK_GB=8)}
        for mappings, p, q, cause in (
            ({"": ["p"], "1": ["p"], "_X": ["q"]}, {"VCPU": 6}, {"DISK_GB": 1}, None),
            ({"": ["p"], "1": ["q"], "_X": ["q"]}, {"VCPU": 4}, {"VCPU": 2, "DISK_GB": 1}, None),
            (None, {"VCPU": 4}, {"VCPU": 2, "DISK_GB": 1}, None),
            ({"": ["p"], "1": ["p"], "_X": ["q"]}, {"VCPU": 4}, {"DISK_GB": 1}, "amounts"),
            # The group does not get its amount from its provider.
            ({"": ["p"], "1": ["q"], "_X": ["q"]}, {"VCPU": 6}, {"DISK_GB": 1}, "amounts"),
            ({"": ["p"], "_X": ["q"]}, {"VCPU": 6}, {"DISK_GB": 1}, "amounts"),
        ):
            self.assertEqual(cause and f"candidates: {cause} of a candidate", self.judge(
                query, summaries, candidate(mappings, p=p, q=q)), f"{mappings} {p} {q}")

    def test_a_class_is_not_split(self) -> None:
        self.assertEqual("candidates: amounts of a candidate", self.judge(
            "resources=VCPU:4", {"p": summary(VCPU=8), "q": summary(VCPU=8)},
            candidate({"": ["p", "q"]}, p={"VCPU": 2}, q={"VCPU": 2})))

    def test_traits_of_the_unsuffixed_group(self) -> None:
        """Its providers have what is required together, and none what is forbidden."""
        summaries = {"p": summary("A", VCPU=8), "q": summary("B", DISK_GB=8)}
        for required, cause in (
            ("A", None), ("B", None), ("A,B", None), ("in:C,B", None), ("!C", None),
            ("C", "traits"), ("A,C", "traits"), ("in:C,D", "traits"), ("!B", "traits"),
            ("A,!B", "traits"), ("%20A%20,%20!C", None),
        ):
            self.assertEqual(cause and f"candidates: {cause} of a candidate", self.judge(
                f"resources=VCPU:1,DISK_GB:1&required={required}", summaries,
                candidate(p={"VCPU": 1}, q={"DISK_GB": 1})), required)

    def test_a_trait_of_a_provider_that_is_not_used(self) -> None:
        self.assertEqual("candidates: traits of a candidate", self.judge(
            "resources=VCPU:1&required=A",
            {"root": summary("A", root="root"), "p": summary(root="root", VCPU=8)},
            candidate({"": ["p"]}, p={"VCPU": 1})))

    def test_traits_of_a_granular_group(self) -> None:
        """The provider of the group has them, not another."""
        summaries = {"p": summary("A", VCPU=8), "q": summary("B", VF=8)}
        mappings = {"": ["p"], "1": ["q"]}
        for required, cause in (
            ("required=A&required1=B", None), ("required=!B&required1=!A", None),
            ("required1=A", "traits"), ("required1=!B", "traits"), ("required1=A,B", "traits"),
            ("required1=in:A,B", None), ("required=B", "traits"), ("required=!A", "traits"),
        ):
            self.assertEqual(cause and f"candidates: {cause} of a candidate", self.judge(
                f"resources=VCPU:1&resources1=VF:1&{required}", summaries,
                candidate(mappings, p={"VCPU": 1}, q={"VF": 1})), required)

    def test_traits_without_mappings(self) -> None:
        """Which group uses which provider is known by amounts alone."""
        summaries = {"p": summary("A", VCPU=8), "q": summary("B", VF=8)}
        for required, cause in (
            ("required=A&required1=B", None), ("required=B", None), ("required=!B", None),
            ("required=C", "traits"), ("required1=A", "traits"), ("required1=!B", "traits"),
            ("required1=!A", None),
        ):
            self.assertEqual(cause and f"candidates: {cause} of a candidate", self.judge(
                f"resources=VCPU:1&resources1=VF:1&{required}", summaries,
                candidate(p={"VCPU": 1}, q={"VF": 1}), version="1.25"), required)

    def test_a_group_without_resources(self) -> None:
        query = "resources1=VF:1&required_TOP=A&same_subtree=1,_TOP"
        for traits, cause in ((("A",), None), ((), "candidates: traits of a candidate")):
            summaries = {"top": summary(*traits, root="top"), "q": summary(root="top", VF=8)}
            self.assertEqual(cause, self.judge(
                query, summaries, candidate({"1": ["q"], "_TOP": ["top"]}, q={"VF": 1})))
        # One that shares from elsewhere is in no summary.
        self.assertIsNone(self.judge(
            query, {"q": summary(root="q", VF=8)},
            candidate({"1": ["q"], "_TOP": ["top"]}, q={"VF": 1})))

    def test_traits_that_are_not_shown(self) -> None:
        shown = summary(VCPU=8)
        del shown["traits"]
        for required in ("A", "!A"):
            self.assertIsNone(self.judge(
                f"resources=VCPU:1&required={required}", {"p": shown}, candidate(p={"VCPU": 1}),
                version="1.16"))

    def test_repeated_traits(self) -> None:
        """All count from 1.39 on; before, the last alone."""
        for version, cause in (("1.38", None), ("1.39", "candidates: traits of a candidate")):
            self.assertEqual(cause, self.judge(
                "resources=VCPU:1&required=B&required=A", {"p": summary("A", VCPU=8)},
                candidate(p={"VCPU": 1}), version=version))

    def test_traits_of_the_root(self) -> None:
        for traits, required, cause in (
            (["A"], "A", None), (["A"], "A,!B", None), ([], "!B", None),
            ([], "A", "candidates: traits of a root"),
            (["B"], "!B", "candidates: traits of a root"),
        ):
            summaries = {
                "top": summary(*traits, root="top"), "p": summary("A", "B", root="top", VCPU=8)}
            self.assertEqual(cause, self.judge(
                f"resources=VCPU:1&root_required={required}", summaries,
                candidate({"": ["p"]}, p={"VCPU": 1})), f"{traits} {required}")

    def test_the_root_that_a_sharing_provider_serves(self) -> None:
        """An answer does not tell which it is."""
        self.assertIsNone(self.judge(
            "resources=DISK_GB:1&root_required=A",
            {"p": summary("MISC_SHARES_VIA_AGGREGATE", root="p", DISK_GB=8)},
            candidate({"": ["p"]}, p={"DISK_GB": 1})))

    def test_alike_without_mappings(self) -> None:
        """Two candidates that give the groups other providers look alike before 1.34."""
        query = "resources1=VF:1&resources2=VF:1&group_policy=isolate"
        summaries = {"p": summary(VF=8), "q": summary(VF=8)}
        amounts = {"p": {"VF": 1}, "q": {"VF": 1}}
        self.assertIsNone(self.judge(
            query, summaries, candidate(None, **amounts), candidate(None, **amounts),
            version="1.33"))
        one, other = (candidate({"1": [first], "2": [second]}, **amounts)
                      for first, second in ("pq", "qp"))
        self.assertIsNone(self.judge(query, summaries, one, other))
        self.assertEqual("candidates: a candidate twice", self.judge(query, summaries, one, one))
