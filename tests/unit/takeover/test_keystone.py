"""What rows of Keystone's tables mean, whatever state they are in."""

from __future__ import annotations

import copy

from placement_core.takeover import keystone
from placement_core.takeover.records import Outcome
from tests import base

_PROJECT = {"domain_id": "d1", "parent_id": "d1", "is_domain": False, "description": "",
            "enabled": True}
_REGISTERED = {"service_id": "s1", "region_id": None, "resource_name": "cores",
               "default_limit": 5, "description": None}
_LIMIT = {"project_id": "p1", "domain_id": None, "resource_limit": 7, "description": None,
          "registered_limit_id": "r1"}
_TABLES = {
    "region": [{"id": "R1", "parent_region_id": None, "description": ""}],
    "service": [{"id": "s1", "type": "compute", "enabled": True,
                 "extra": '{"name": "nova", "description": "Compute"}'}],
    "endpoint": [{"id": "e1", "interface": "public", "service_id": "s1", "region_id": "R1",
                  "url": "http://nova", "enabled": True}],
    "project": [
        {"id": "<<keystone.domain.root>>", "name": "<<keystone.domain.root>>",
         "domain_id": "<<keystone.domain.root>>", "parent_id": None, "is_domain": True,
         "description": "", "enabled": False},
        {"id": "p1", "name": "web", **_PROJECT},
        {"id": "d1", "name": "Default", "domain_id": "<<keystone.domain.root>>",
         "parent_id": None, "is_domain": True, "description": None, "enabled": True}],
    "registered_limit": [{"internal_id": 1, "id": "r1", **_REGISTERED}],
    "limit": [{"internal_id": 1, "id": "l1", **_LIMIT}],
}


class TestSettle(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tables = copy.deepcopy(_TABLES)

    def settle(self):
        """Return the records by kind and id, and the reason of each that is left."""
        contents = keystone.settle(self.tables)
        records = {(record.kind, record.id): record for record in contents.records}
        left = {(item.kind, item.id): (item.outcome, item.reason) for item in contents.left}
        return records, left

    def assert_left(self, kind: str, id_: str, outcome: Outcome, reason: str) -> None:
        records, left = self.settle()
        self.assertNotIn((kind, id_), records)
        self.assertEqual((outcome, reason), left[kind, id_])

    def assert_refused(self, kind: str, id_: str, reason: str) -> None:
        self.assert_left(kind, id_, Outcome.REFUSED, reason)

    def test_whole(self) -> None:
        records, left = self.settle()
        self.assertEqual({}, left)
        self.assertEqual([
            ("region", "R1"), ("service", "s1"), ("endpoint", "e1"), ("domain", "d1"),
            ("project", "p1"), ("registered limit", "r1"), ("limit", "l1")], list(records))
        self.assertEqual("nova cores of web", records["limit", "l1"].name)

    def test_names_of_services_are_in_extra(self) -> None:
        self.assertEqual(
            {"type": "compute", "name": "nova", "description": "Compute", "enabled": True},
            self.settle()[0]["service", "s1"].fields)
        self.tables["service"][0]["extra"] = None
        self.assertEqual("", self.settle()[0]["service", "s1"].fields["name"])

    def test_a_service_without_type(self) -> None:
        self.tables["service"][0]["type"] = None
        self.assert_refused("service", "s1", "it has no type")
        self.assert_refused("endpoint", "e1", "its service s1 is not there")

    def test_root_of_domains_is_hidden(self) -> None:
        records, left = self.settle()
        self.assertNotIn("<<keystone.domain.root>>", {id_ for _, id_ in (*records, *left)})

    def test_parents_come_first(self) -> None:
        self.tables["project"].insert(0, {**_PROJECT, "id": "p2", "name": "db",
                                          "parent_id": "p1"})
        self.tables["region"].insert(0, {"id": "R0", "parent_region_id": "R1",
                                         "description": None})
        records = list(self.settle()[0])
        self.assertLess(records.index(("project", "p1")), records.index(("project", "p2")))
        self.assertLess(records.index(("region", "R1")), records.index(("region", "R0")))

    def test_a_project_without_parent(self) -> None:
        self.tables["project"][1]["parent_id"] = "gone"
        self.assert_refused(
            "project", "p1", "nothing above it is there: its parent is gone")

    def test_projects_in_a_loop(self) -> None:
        self.tables["project"] += [
            {**_PROJECT, "id": "a", "name": "a", "parent_id": "b"},
            {**_PROJECT, "id": "b", "name": "b", "parent_id": "a"}]
        self.assert_refused("project", "a", "nothing above it is there: its parent is b")
        self.assert_refused("project", "b", "nothing above it is there: its parent is a")

    def test_a_project_of_no_domain(self) -> None:
        self.tables["project"].append({
            **_PROJECT, "id": "p2", "name": "db", "domain_id": "d2", "parent_id": None})
        self.assert_refused("project", "p2", "its domain d2 is not there")

    def test_disabled_projects_are_copied(self) -> None:
        self.tables["project"][1]["enabled"] = False
        self.assertIs(False, self.settle()[0]["project", "p1"].fields["enabled"])

    def test_two_registered_limits_for_one_resource(self) -> None:
        self.tables["registered_limit"].append({
            **_REGISTERED, "internal_id": 2, "id": "r2", "default_limit": 9})
        self.tables["limit"].append({
            **_LIMIT, "internal_id": 2, "id": "l2", "project_id": None, "domain_id": "d1",
            "registered_limit_id": "r2"})
        self.assert_refused(
            "registered limit", "r2", "r1 is for the same resource, and older: Keystone "
            "answers from that")
        # Its limits are about the same resource.
        self.assertEqual("d1", self.settle()[0]["limit", "l2"].fields["domain_id"])

    def test_registered_limits_of_nothing(self) -> None:
        for field, value, reason in (
                ("service_id", None, "it has no service"),
                ("service_id", "s9", "its service s9 is not there"),
                ("region_id", "R9", "its region R9 is not there"),
                ("resource_name", None, "it has no resource name"),
                ("default_limit", -2,
                 "-2 is no limit: expected -1 to 2147483647")):
            self.tables["registered_limit"] = [{
                **_REGISTERED, "internal_id": 1, "id": "r1", field: value}]
            self.assert_refused("registered limit", "r1", reason)
            self.assert_refused("limit", "l1", "its registered limit r1 is refused")

    def test_a_limit_of_nothing(self) -> None:
        self.tables["limit"][0]["registered_limit_id"] = "r9"
        self.assert_refused("limit", "l1", "its registered limit r9 is not there")

    def test_limits_of_deleted_projects(self) -> None:
        self.tables["limit"][0]["project_id"] = "p9"
        self.assert_left("limit", "l1", Outcome.SKIPPED, "its project p9 was deleted")

    def test_a_limit_of_a_deleted_domain(self) -> None:
        self.tables["limit"][0] |= {"project_id": None, "domain_id": "d9"}
        self.assert_left("limit", "l1", Outcome.SKIPPED, "its domain d9 was deleted")

    def test_limits_of_nobody_and_of_two(self) -> None:
        reason = "it has not exactly one of a project and a domain"
        self.tables["limit"][0]["project_id"] = None
        self.assert_refused("limit", "l1", reason)
        self.tables["limit"][0] |= {"project_id": "p1", "domain_id": "d1"}
        self.assert_refused("limit", "l1", reason)

    def test_a_limit_of_a_domain_as_project(self) -> None:
        self.tables["limit"][0]["project_id"] = "d1"
        fields = self.settle()[0]["limit", "l1"].fields
        self.assertEqual((None, "d1"), (fields["project_id"], fields["domain_id"]))

    def test_two_limits_of_one_project(self) -> None:
        self.tables["limit"].append({**_LIMIT, "internal_id": 2, "id": "l2"})
        self.assert_refused(
            "limit", "l2", "l1 is for the same resource, and older: Keystone answers from that")
