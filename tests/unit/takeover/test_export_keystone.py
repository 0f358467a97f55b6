"""What Keystone's tables are to hold of ours."""

from __future__ import annotations

import dataclasses
import json

from placement_core.limits.records import Limit, RegisteredLimit, UserLimit
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service
from placement_core.takeover import keystone as source
from placement_core.takeover.exports import keystone
from tests import base

_PRESENT = keystone.Present(
    regions=[Region("R1"), Region("R2", "R1", "second")],
    services=[Service("s1", "compute", "nova", "Compute", False)],
    endpoints=[Endpoint("e1", "s1", "public", "http://nova", "R1")],
    domains=[Domain("d1", "Default")],
    projects=[Project("p2", "db", "d1", "p1"), Project("p1", "web", "d1", "d1", enabled=False)],
    registered=[RegisteredLimit("r1", "s1", "R1", "cores", 5, "each")],
    limits=[Limit("l1", "p1", None, "s1", "R1", "cores", 7),
            Limit("l2", None, "d1", "s1", "R1", "cores", -1)],
    user_limits=[],
    model="flat",
)


class TestConvert(base.TestCase):
    def convert(self, **changes):
        """Return the rows of each table, and the reason of each that is left out."""
        rows, left_out = keystone.convert(dataclasses.replace(_PRESENT, **changes))
        tables: dict[str, list] = {}
        for table, values in rows:
            tables.setdefault(table, []).append(values)
        return tables, {(item.kind, item.id): item.reason for item in left_out}

    def test_what_is_read_again_is_the_same(self) -> None:
        tables, left_out = self.convert()
        self.assertEqual({}, left_out)
        for number, name in enumerate(("registered_limit", "limit")):
            for row in tables[name]:
                row["internal_id"] = number
        contents = source.settle(tables)
        self.assertEqual([], contents.left)
        fields = {record.id: record.fields for record in contents.records}
        present = [*_PRESENT.regions, *_PRESENT.services, *_PRESENT.endpoints, *_PRESENT.domains,
                   *_PRESENT.projects, *_PRESENT.registered, *_PRESENT.limits]
        self.assertEqual(len(present), len(fields))
        for record in present:
            values = dataclasses.asdict(record)
            self.assertEqual(values, {"id": record.id, **fields[record.id]})

    def test_parents_come_first_below_the_root(self) -> None:
        projects = self.convert()[0]["project"]
        self.assertEqual([source.ROOT_ID, "d1", "p1", "p2"], [row["id"] for row in projects])
        self.assertEqual([source.ROOT_ID, source.ROOT_ID, "d1", "d1"],
                         [row["domain_id"] for row in projects])
        self.assertEqual([None, None, "d1", "p1"], [row["parent_id"] for row in projects])

    def test_names_of_services_are_in_extra(self) -> None:
        [service] = self.convert()[0]["service"]
        self.assertEqual({"name": "nova", "description": "Compute"}, json.loads(service["extra"]))

    def test_a_region_with_a_long_description(self) -> None:
        tables, left_out = self.convert(regions=[Region("R1", description="d" * 256)])
        self.assertEqual({
            ("region", "R1"): "its description has more than 255 characters",
            ("endpoint", "e1"): "its region R1 is not there",
            ("registered limit", "r1"): "its region R1 is not there",
            ("limit", "l1"): "its registered limit is left out",
            ("limit", "l2"): "its registered limit is left out",
        }, left_out)
        self.assertEqual({"service", "project"}, set(tables))

    def test_a_registered_limit_of_a_region_with_a_long_id(self) -> None:
        id_ = "R" * 65
        _, left_out = self.convert(
            regions=[Region("R1"), Region(id_)], limits=[],
            registered=[RegisteredLimit("r1", "s1", id_, "cores", 5)])
        self.assertEqual({
            ("registered limit", "r1"): "its region's id has more than 64 characters"}, left_out)

    def test_what_refers_to_what_is_not_there(self) -> None:
        _, left_out = self.convert(
            services=[], projects=[Project("p3", "lost", "d1", "p9")],
            limits=[Limit("l1", "p3", None, "s1", "R1", "cores", 7)])
        self.assertEqual({
            ("endpoint", "e1"): "its service s1 is not there",
            ("project", "p3"): "nothing above it is there: its parent is p9",
            ("registered limit", "r1"): "its service s1 is not there",
            ("limit", "l1"): "its registered limit is left out",
        }, left_out)

    def test_limits_of_what_was_deleted(self) -> None:
        _, left_out = self.convert(limits=[
            Limit("l1", "p9", None, "s1", "R1", "cores", 7),
            Limit("l2", None, "d9", "s1", "R1", "cores", 7)])
        self.assertEqual({("limit", "l1"): "its project p9 is not there",
                          ("limit", "l2"): "its domain d9 is not there"}, left_out)

    def test_what_keystone_does_not_have(self) -> None:
        _, left_out = self.convert(
            model="tree",
            user_limits=[UserLimit("u1", "p1", "ann", "s1", "R1", "cores", 2)])
        self.assertEqual("Keystone has no limits of users", left_out["user limit", "u1"])
        self.assertIn("flat and strict_two_level only", left_out["enforcement model", "tree"])

    def test_what_bootstrap_makes(self) -> None:
        project = {"id": "p1", "domain_id": "default", "name": "admin"}
        region = {"id": "R1", "parent_region_id": None, "description": ""}
        for table, row, expected in (
                ("project", {**project, "id": source.ROOT_ID}, True),
                ("project", {**project, "id": "default", "domain_id": source.ROOT_ID}, True),
                ("project", project, True), ("project", {**project, "name": "web"}, False),
                ("project", {**project, "domain_id": "d1"}, False),
                ("service", {"id": "s1", "type": "identity"}, True),
                ("service", {"id": "s1", "type": "compute"}, False),
                ("region", region, True), ("region", {**region, "description": "x"}, False),
                ("limit", {"id": "l1"}, False), ("registered_limit", {"id": "r1"}, False)):
            self.assertIs(expected, keystone.is_bootstrapped(table, row), (table, row))
