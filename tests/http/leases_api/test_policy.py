"""A policy file says who sees and changes the leases of other projects."""

from __future__ import annotations

from typing import Any

from tests import databases
from tests.http import base
from tests.http.leases_api.cases import LeasesTestCase

RULES = {
    # Administrators make leases like anybody; operators see those of everybody.
    **{f"blazar:leases:{what}:all_projects": "role:operator" for what in ("get", "put", "delete")},
    **{f"blazar:leases:{what}": "rule:admin_or_project_member_api or role:operator"
       for what in ("get", "put", "delete")},
    "blazar:oshosts:get_resource_properties": "role:admin or role:operator",
    "blazar:oshosts:get_resource_properties:private": "role:operator",
}


@databases.on_each_database
class TestPolicy(LeasesTestCase):
    def setUp(self) -> None:
        self.options = base.policy_file(self, RULES)
        super().setUp()
        self.host(gpu="x")
        self.lease_id = self.lease(name="own")["id"]

    def names(self, query: str = "", **options: Any) -> list[str]:
        found = self.v1("GET", f"/leases{query}", status=200, **options).json["leases"]
        return [lease["name"] for lease in found]

    def test_it_is_taken_from_administrators(self) -> None:
        admin = {"token": "root:infra", "roles": "admin"}
        self.assertEqual([], self.names(**admin))
        self.v1("GET", "/leases?project_id=demo", status=403, **admin)
        for method, body in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
            self.v1(method, f"/leases/{self.lease_id}", body, status=404, **admin)
        self.assertEqual(["own"], self.names())

    def test_it_is_given_to_others(self) -> None:
        operator = {"token": "olga:infra", "roles": "operator"}
        self.assertEqual(["own"], self.names(**operator))
        self.assertEqual(["own"], self.names("?project_id=demo", **operator))
        path = f"/leases/{self.lease_id}"
        self.v1("GET", path, status=200, **operator)
        self.v1("PUT", path, {"name": "renamed"}, status=200, **operator)
        self.v1("DELETE", path, status=204, **operator)

    def test_private_properties(self) -> None:
        self.v1("PATCH", "/os-hosts/properties/gpu", {"private": True}, token="admin", status=200)
        for roles, expected in (("admin", []), ("operator", ["gpu"])):
            found = self.v1("GET", "/os-hosts/properties?all=true", token="root:infra",
                            roles=roles, status=200).json["resource_properties"]
            self.assertEqual(expected, [each["property"] for each in found], roles)
