"""A policy file says who sees the limits, projects and quota of everybody."""

from __future__ import annotations

from typing import Any

from tests import databases
from tests.http import base
from tests.http.limits_api.cases import LimitsTestCase

OPERATOR = "role:operator"
RULES = {
    "identity:limits:all_projects": OPERATOR,
    "identity:projects:all_projects": OPERATOR,
    "capacity:quota:all_projects": OPERATOR,
    "capacity:quota:recheck": OPERATOR,
    **{f"capacity:{name}": "role:admin or role:service or role:operator"
       for name in ("quota:list", "quota:show", "quota:check", "quota:server_group_members",
                    "explain:quota")},
}


@databases.on_each_database
class TestPolicy(LimitsTestCase):
    def setUp(self) -> None:
        self.options = {
            **base.policy_file(self, RULES), ("quota", "count_usage_from_placement"): True}
        super().setUp()

    def fill(self) -> None:
        super().fill()
        self.registered()
        self.make("domains", "domain", name="elsewhere")
        self.items = {project: self.limit(project)["id"] for project in (self.top, self.side)}

    def names(self, roles: str, path: str, what: str, **options: Any) -> set[str]:
        found = self.v3("GET", path, roles=roles, token=f"root:{self.middle}", status=200,
                        **options).json[what]
        return {each.get("name") or each["project_id"] for each in found}

    def test_limits(self) -> None:
        for roles in ("admin", "service", "admin,service"):
            # The parent binds it under hierarchical models only: this one is flat.
            self.assertEqual(set(), self.names(roles, "/limits", "limits"), roles)
            self.assertEqual(403, self.v3(
                "GET", f"/limits/{self.items[self.side]}", roles=roles,
                token=f"root:{self.middle}").status_int)
        self.assertEqual({self.top, self.side}, self.names("operator", "/limits", "limits"))
        self.v3("GET", f"/limits/{self.items[self.side]}", roles="operator", status=200)

    def test_the_system_sees_what_it_is_let(self) -> None:
        found = self.v3("GET", "/limits", roles="reader", status=200,
                        headers={"OpenStack-System-Scope": "all"}).json["limits"]
        self.assertEqual([], found)
        found = self.v3("GET", "/limits", roles="operator", status=200,
                        headers={"OpenStack-System-Scope": "all"}).json["limits"]
        self.assertEqual(2, len(found))

    def test_a_kept_answer_is_of_who_may_see_it(self) -> None:
        for _ in range(2):
            self.assertEqual({self.top, self.side}, self.names("operator", "/limits", "limits"))
            self.assertEqual(set(), self.names("admin", "/limits", "limits"))

    def test_projects(self) -> None:
        for path, what in (("/projects", "projects"), ("/domains", "domains")):
            everything = self.names("operator", path, what)
            self.assertLess(self.names("admin", path, what), everything)
        self.v3("GET", f"/projects/{self.side}", roles="operator", status=200)
        self.v3("GET", f"/projects/{self.side}", roles="admin", token=f"root:{self.middle}",
                status=403)

    def test_quota(self) -> None:
        recheck = {"project_id": self.side, "deltas": {"cores": 0}, "recheck": True,
                   "consumers": ["00000000-0000-4000-8000-000000000000"]}
        of_side = {"project_id": self.side, "deltas": {"cores": 1}}
        for roles, status in (("admin", 403), ("service", 403), ("operator", 200)):
            for method, path, body in (
                    ("GET", f"/quota/{self.side}", None), ("POST", "/quota/check", of_side),
                    ("POST", "/explain/quota", of_side),
                    ("POST", "/quota/check", recheck),
                    ("POST", "/quota/server_group_members", {
                        "project_id": self.side, "user_id": "jane", "members": []})):
                expected = 400 if body is recheck and status == 200 else status
                answer = self.ask(
                    method, f"/capacity/v1{path}", body, version=None,
                    token=f"root:{self.middle}", headers={"X-Roles": roles})
                self.assertEqual(expected, answer.status_int, (path, roles, answer.text))
            seen = self.ask("GET", "/capacity/v1/quota", version=None,
                            token=f"root:{self.middle}", headers={"X-Roles": roles})
            self.assertEqual(
                3 if status == 200 else 1, len(seen.json["projects"]), roles)
        # Who may ask about itself only may not decide about others.
        own = self.ask("POST", "/capacity/v1/quota/check", {**recheck, "project_id": self.middle},
                       version=None, token=f"root:{self.middle}", headers={"X-Roles": "admin"})
        self.assertEqual(403, own.status_int, own.text)
