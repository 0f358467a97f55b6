"""The validation table of spec limits §2, row by row."""

from __future__ import annotations

import json
from typing import Any

from tests.http.limits_api.cases import NOBODY, LimitsTestCase

#: Left out of an item.
ABSENT = object()

_TOO_LONG = "x" * 256
_WRONG_INTEGERS = (5.5, "5", True, None, -2, 2147483648, [], {}, 1e300)


class TestValidation(LimitsTestCase):
    def registered_item(self, **fields: Any) -> dict[str, Any]:
        item = {"service_id": self.service, "region_id": self.region,
                "resource_name": "cores", "default_limit": 10, **fields}
        return {name: value for name, value in item.items() if value is not ABSENT}

    def limit_item(self, **fields: Any) -> dict[str, Any]:
        item = {**self.item(self.top), **fields}
        return {name: value for name, value in item.items() if value is not ABSENT}

    def assert_wrong(self, field: str, values: Any, *, limits_too: bool = True) -> None:
        """Expect 400 for each value, of registered limits and of limits."""
        for value in values:
            with self.subTest(f"{field}={value!r}"):
                self.refused(400, "", "POST", "/registered_limits", {
                    "registered_limits": [self.registered_item(**{field: value})]})
                if limits_too:
                    self.refused(400, "", "POST", "/limits", {
                        "limits": [self.limit_item(**{field: value})]})
        self.assertEqual([], self.v3("GET", "/registered_limits").json["registered_limits"])

    def create(self, **fields: Any) -> Any:
        body = {"registered_limits": [self.registered_item(**fields)]}
        return self.v3("POST", "/registered_limits", body, status=201).json[
            "registered_limits"][0]

    def test_service_id(self) -> None:
        dashed = "-".join((self.service[:8], self.service[8:12], self.service[12:16],
                           self.service[16:20], self.service[20:]))
        self.assert_wrong("service_id", (ABSENT, None, "", "nova", 5, NOBODY, dashed))

    def test_region_id(self) -> None:
        self.assert_wrong("region_id", ("", _TOO_LONG, 5, "NoSuchRegion"))
        self.assertIsNone(self.create(region_id=None)["region_id"])
        self.assertIsNone(self.create(region_id=ABSENT, resource_name="ram")["region_id"])

    def test_resource_name(self) -> None:
        self.assert_wrong("resource_name", (ABSENT, None, "", "  ", _TOO_LONG, 5, ["cores"]))
        for name in ("class:CUSTOM_X", "x" * 255, " a ", "größe"):
            self.assertEqual(name, self.create(resource_name=name)["resource_name"])

    def test_default_limit(self) -> None:
        self.assert_wrong("default_limit", (*_WRONG_INTEGERS, ABSENT), limits_too=False)
        for number, value in enumerate((-1, 0, 2147483647, 5.0)):
            self.assertEqual(
                value, self.create(resource_name=f"r{number}", default_limit=value)[
                    "default_limit"])

    def test_resource_limit(self) -> None:
        self.registered()
        for value in (*_WRONG_INTEGERS, ABSENT):
            self.refused(400, "", "POST", "/limits", {
                "limits": [self.limit_item(resource_limit=value)]})
        self.assertEqual([], self.listed())
        for project, value in (
                (self.top, -1), (self.middle, 0), (self.side, 2147483647)):
            self.assertEqual(value, self.limit(project, value)["resource_limit"])
        made = self.limit(None, 5.0, domain_id=self.domain)
        self.assertEqual(5, made["resource_limit"])

    def test_description(self) -> None:
        self.assert_wrong("description", (_TOO_LONG, 5, []))
        for number, value in enumerate(("", "x" * 255, None)):
            self.assertEqual(
                value, self.create(resource_name=f"r{number}", description=value)[
                    "description"])
        self.assertIsNone(self.create(resource_name="r9", description=ABSENT)["description"])

    def test_project_and_domain(self) -> None:
        self.registered()
        for fields in (
            {"project_id": ABSENT},
            {"domain_id": self.domain},
            {"domain_id": None},
            {"project_id": None, "domain_id": self.domain},
            {"project_id": ""}, {"project_id": "a/b"}, {"project_id": "x" * 65},
            {"project_id": 5}, {"project_id": NOBODY},
            {"project_id": ABSENT, "domain_id": NOBODY},
            {"project_id": ABSENT, "domain_id": "no domain"},
            {"project_id": ABSENT, "domain_id": self.top},
        ):
            with self.subTest(str(fields)):
                self.refused(400, "", "POST", "/limits", {"limits": [self.limit_item(**fields)]})
        self.assertEqual([], self.listed())
        self.limit(None, 5, domain_id=self.domain)

    def test_b8_a_null_project_is_400(self) -> None:
        self.registered()
        self.refused(400, "", "POST", "/limits", {"limits": [self.limit_item(project_id=None)]})

    def test_a_domain_as_a_project(self) -> None:
        self.registered()
        made = self.limit(self.domain)
        self.assertEqual((None, self.domain), (made["project_id"], made["domain_id"]))

    def test_anything_else(self) -> None:
        for field in ("id", "user_id", "links", "registered_limit_id", "project", ""):
            self.refused(400, "", "POST", "/registered_limits", {
                "registered_limits": [self.registered_item(**{field: "x"})]})
            self.refused(400, "", "POST", "/limits", {
                "limits": [self.limit_item(**{field: "x"})]})
        self.refused(400, "", "POST", "/limits", {
            "limits": [self.limit_item(default_limit=5)]})

    def test_wrappers(self) -> None:
        item = self.registered_item()
        for body in (
            {}, [], None, "text", 5, {"registered_limits": []}, {"registered_limits": item},
            {"registered_limit": item}, {"registered_limits": [item], "more": 1},
            {"registered_limits": [None]}, {"registered_limits": [[item]]}, [item],
        ):
            self.refused(400, "", "POST", "/registered_limits", json.dumps(body).encode())
        for bad in (b"", b"{", b"\xff", b'{"registered_limits": NaN}', b"[" * 5000):
            self.refused(400, "", "POST", "/registered_limits", bad)

    def test_changes(self) -> None:
        registered = self.registered("ram")
        self.registered()
        made = self.limit(self.top)
        for value in _WRONG_INTEGERS:
            self.refused(400, "", "PATCH", f"/limits/{made['id']}", {
                "limit": {"resource_limit": value}})
            self.refused(400, "", "PATCH", f"/registered_limits/{registered['id']}", {
                "registered_limit": {"default_limit": value}})
        for field in ("id", "project_id", "domain_id", "service_id", "region_id",
                      "resource_name", "links"):
            self.refused(400, "", "PATCH", f"/limits/{made['id']}", {
                "limit": {field: made.get(field)}})
        for body in ({}, {"limit": None}, {"limit": []}, {"limits": {}}, [],
                     {"limit": {}, "more": 1}):
            self.refused(400, "", "PATCH", f"/limits/{made['id']}", body)
        for name, values in (
            ("service_id", (None, "", "nova", NOBODY)),
            ("region_id", ("", "NoSuchRegion", 5)),
            ("resource_name", ("", " ", None, _TOO_LONG)),
            ("description", (5, _TOO_LONG)), ("id", (registered["id"],)),
        ):
            for value in values:
                self.refused(400, "", "PATCH", f"/registered_limits/{registered['id']}", {
                    "registered_limit": {name: value}})
        self.assertEqual(
            registered, self.v3("GET", f"/registered_limits/{registered['id']}").json[
                "registered_limit"])

    def test_queries(self) -> None:
        for collection in ("registered_limits", "limits"):
            for query in (
                "service_id=nova", "service_id=", "region_id=", f"region_id={_TOO_LONG}",
                "resource_name=", "resource_name=%20", "limit=0", "limit=-1", "limit=x",
                "limit=", "limit=1.5", f"limit={'9' * 5000}", "service_id=%ff",
                "resource_name=%00",
            ):
                self.refused(400, "", "GET", f"/{collection}?{query}")
        for query in ("project_id=", "project_id=a/b", f"domain_id={'x' * 65}"):
            self.refused(400, "", "GET", f"/limits?{query}")

    def test_wording(self) -> None:
        """One line, which names the field."""
        self.refused(
            400, "Invalid input for field/attribute service_id: 'nova' is not a 'uuid'", "POST",
            "/registered_limits", {
                "registered_limits": [self.registered_item(service_id="nova")]})
        self.refused(400, "Invalid input for field/attribute limit: '0' does not match", "GET",
                     "/limits?limit=0")
        response = self.v3("POST", "/limits", {"limits": [{"more": 1}]}, status=400)
        self.assertNotIn("\n", response.json["error"]["message"])

    def test_unknown_query_keys_are_ignored(self) -> None:
        self.registered()
        for query in ("bogus=1", "resource_name__bogus=x", "__contains=x", "sort_key=id",
                      "=", "&&", "default_limit=99", "marker="):
            found = self.v3("GET", f"/registered_limits?{query}", status=200).json
            self.assertEqual(1, len(found["registered_limits"]), query)
