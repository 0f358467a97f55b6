"""ETag and If-None-Match: what did not change is not sent again, and costs one statement."""

from __future__ import annotations

import pathlib
import time
import types
from typing import Any
from unittest import mock

import fixtures
import webob

from placement_core.http import policy
from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


@databases.on_each_database
class TestConditional(LimitsTestCase):
    def fill(self) -> None:
        super().fill()
        self.cores = self.registered()
        self.made = self.limit(self.top)

    def paths(self) -> list[str]:
        return [
            "/v3/limits", f"/v3/limits?project_id={self.top}", f"/v3/limits/{self.made['id']}",
            "/v3/registered_limits", f"/v3/registered_limits/{self.cores['id']}",
            f"/capacity/v1/limits/effective?service_id={self.service}&project_id={self.top}"]

    def get(self, path: str, known: str | None = None, **options: Any) -> webob.Response:
        headers = {**options.pop("headers", {}), **({"If-None-Match": known} if known else {})}
        return self.ask("GET", path, version=None, headers=headers, **options)

    def test_unchanged(self) -> None:
        for path in self.paths():
            first = self.get(path)
            self.assertEqual(200, first.status_int, first.text)
            tag = first.headers["ETag"]
            self.assertRegex(tag, '^"[0-9a-f]{32}"$')
            again = self.get(path)
            self.assertEqual((tag, first.body), (again.headers["ETag"], again.body))
            for known in (tag, f"W/{tag}", f'"other", W/{tag}', f'{tag},"other"', "*"):
                response = self.get(path, known)
                self.assertEqual(304, response.status_int, f"{path} {known}")
                self.assertEqual(b"", response.body)
                self.assertEqual(tag, response.headers["ETag"])
                self.assertEqual("private, no-cache", response.headers["Cache-Control"])
                self.assertIn("X-Auth-Token", response.headers.getall("Vary"))
                self.assertNotIn("Content-Type", response.headers)
            for known in ('"other"', tag.strip('"'), "W/*", '""', "bogus", ","):
                self.assertEqual(200, self.get(path, known).status_int, f"{path} {known}")

    def test_answers_that_are_repeated_are_the_same(self) -> None:
        """Whether they come from the router or not."""
        def shown(response: webob.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
            return response.status_int, response.body, sorted(
                each for each in response.headerlist if each[0] != "x-openstack-request-id")

        for path in (path for path in self.paths() if path.startswith("/v3")):
            first = self.get(path)
            tag = first.headers["ETag"]
            for known in (None, tag, f'"x", W/{tag}'):
                for method in ("GET", "HEAD"):
                    headers = {"If-None-Match": known} if known else {}
                    # A header that the router does not look at makes another question.
                    routed = self.ask(method, path, version=None, headers={
                        **headers, "Accept": f"application/json;v={method}{known}"})
                    self.get(path)
                    repeated = self.ask(method, path, version=None, headers=headers)
                    self.assertEqual(shown(routed), shown(repeated), f"{method} {path} {known}")

    def test_each_change_is_seen(self) -> None:
        changes = (
            ("PATCH", f"/limits/{self.made['id']}", {"limit": {"resource_limit": 6}}),
            ("PATCH", f"/limits/{self.made['id']}", {"limit": {"description": "new"}}),
            ("POST", "/limits", {"limits": [self.item(self.side)]}),
            ("DELETE", f"/projects/{self.side}", None),
            ("POST", "/registered_limits", {"registered_limits": [{
                "service_id": self.service, "resource_name": "ram", "default_limit": 1}]}),
        )
        for path in self.paths():
            tag = self.get(path).headers["ETag"]
            for method, changed, body in changes:
                response = self.v3(method, changed, body)
                self.assertLess(response.status_int, 500)
                if response.status_int < 300:
                    response = self.get(path, tag)
                    self.assertEqual(200, response.status_int, (path, method, changed))
                    tag = response.headers["ETag"]

    def test_a_refused_change_changes_nothing(self) -> None:
        tag = self.get("/v3/limits").headers["ETag"]
        self.v3("POST", "/limits", {"limits": [self.item(self.top)]}, status=409)
        self.assertEqual(304, self.get("/v3/limits", tag).status_int)

    def test_one_statement(self) -> None:
        for path in self.paths():
            tag = self.get(path).headers["ETag"]
            for roles in ("admin", "service"):
                self.assertEqual(1, self.trips.of(
                    self.get, path, tag, headers={"X-Roles": roles}), path)
        member = {"token": f"bob:{self.top}", "headers": {"X-Roles": "member"}}
        tag = self.get("/v3/limits", **member).headers["ETag"]
        self.assertEqual(1, self.trips.of(self.get, "/v3/limits", tag, **member))

    def test_statements_of_reads(self) -> None:
        """B18: how many do not depend on how many there are."""
        for project in (self.middle, self.side):
            self.limit(project)
        for query in ("", f"?project_id={self.top}", "?limit=1", "?resource_name=cores"):
            self.v3("PATCH", f"/limits/{self.made['id']}", {"limit": {"description": query}})
            self.assertLessEqual(self.trips.of(self.get, f"/v3/limits{query}"), 2)
            # The answer is kept: what changed is asked, and that is all.
            self.assertEqual(1, self.trips.of(self.get, f"/v3/limits{query}"))
        self.v3("PATCH", f"/limits/{self.made['id']}", {"limit": {"description": "x"}})
        member = {"token": f"bob:{self.top}", "headers": {"X-Roles": "member"}}
        self.assertLessEqual(self.trips.of(self.get, "/v3/limits", **member), 3)
        self.assertEqual(
            2, self.trips.of(self.get, f"/v3/limits?project_id={self.top}", **member))

    def test_everybody_has_a_tag_of_their_own(self) -> None:
        tags = set()
        for token in ("admin", f"bob:{self.top}", f"bob:{self.side}", f"eve:{self.top}"):
            response = self.get("/v3/limits", token=token)
            tags.add(response.headers["ETag"])
            self.assertEqual(
                200, self.get("/v3/limits", response.headers["ETag"], token="x:y").status_int)
        self.assertEqual(3, len(tags))
        bob = self.get("/v3/limits", token=f"bob:{self.side}")
        self.assertEqual([], bob.json["limits"])

    def test_what_is_not_there(self) -> None:
        for known in ("*", '"x"', None):
            response = self.get(f"/v3/limits/{NOBODY}", known)
            self.assertEqual(404, response.status_int)
            self.assertNotIn("ETag", response.headers)
        self.assertEqual(400, self.get("/v3/limits?region_id=", "*").status_int)

    def test_who_may_not_see_it_gets_no_304(self) -> None:
        path = f"/v3/limits/{self.made['id']}"
        tag = self.get(path).headers["ETag"]
        for known in (tag, "*"):
            response = self.get(path, known, token=f"bob:{self.side}")
            self.assertEqual(403, response.status_int)
        response = self.get(f"/capacity/v1/limits/effective?service_id={self.service}", "*",
                            token="bob")
        self.assertEqual(403, response.status_int)

    def test_model(self) -> None:
        tag = self.get("/v3/limits/model").headers["ETag"]
        self.assertEqual(0, self.trips.of(self.get, "/v3/limits/model", tag))
        self.assertEqual(304, self.get("/v3/limits/model", tag).status_int)

    def test_head(self) -> None:
        tag = self.v3("GET", "/limits").headers["ETag"]
        response = self.v3("HEAD", "/limits")
        self.assertEqual(tag, response.headers["ETag"])
        self.v3("HEAD", "/limits", headers={"If-None-Match": tag}, status=304)

    def test_another_address_is_another_answer(self) -> None:
        tag = self.get("/v3/limits").headers["ETag"]
        for options in ({"environ": {"SCRIPT_NAME": "/x"}}, {"headers": {"Host": "other"}}):
            response = self.get("/v3/limits", tag, **options)
            self.assertEqual(200, response.status_int)


class TestPolicy(LimitsTestCase):
    def setUp(self) -> None:
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "policy.yaml")
        self.path.write_text("{}")
        self.options = {("oslo_policy", "policy_file"): str(self.path)}
        super().setUp()

    def test_the_policy_in_force_counts(self) -> None:
        member: dict[str, Any] = {"token": f"bob:{self.top}", "roles": "member"}
        tag = self.v3("GET", "/limits", **member).headers["ETag"]
        known = {"If-None-Match": tag}
        self.v3("GET", "/limits", status=304, headers=known, **member)
        self.path.write_text('"identity:list_limits": "role:admin"')
        clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + 60)
        with mock.patch.object(policy, "time", clock):
            self.v3("GET", "/limits", status=403, headers=known, **member)
            self.v3("GET", "/limits", status=403, **member)
            self.v3("GET", "/limits", status=200)
