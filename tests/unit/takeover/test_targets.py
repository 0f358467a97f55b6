"""What a check foresees is what our catalog and limits refuse."""

from __future__ import annotations

from placement_core.takeover import records, targets
from placement_core.takeover.records import Record
from tests import base


class _Catalog:
    local = True


class _Flat:
    max_depth = None


class _TwoLevels:
    max_depth = 2


_GOOD = {
    records.REGION: {"parent_region_id": None, "description": ""},
    records.SERVICE: {"type": "compute", "name": "nova", "description": "", "enabled": True},
    records.ENDPOINT: {"service_id": "s", "interface": "public", "url": "http://nova",
                       "region_id": None, "enabled": True},
    records.DOMAIN: {"name": "sales", "description": "", "enabled": True},
    records.PROJECT: {"name": "shop", "domain_id": "d", "parent_id": "d", "description": "",
                      "enabled": True},
    records.REGISTERED_LIMIT: {
        "service_id": "s", "region_id": None, "resource_name": "ram", "default_limit": 1,
        "description": None},
    records.LIMIT: {
        "project_id": "p", "domain_id": None, "service_id": "s", "region_id": None,
        "resource_name": "ram", "resource_limit": 1, "description": None},
    records.USER_LIMIT: {
        "project_id": "p", "user_id": "u", "service_id": "s", "region_id": None,
        "resource_name": "ram", "resource_limit": 1, "description": None},
}


class TestObstacles(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.model: type[_Flat | _TwoLevels] = _Flat

    def find(self, kind, id_="i", others=None, **fields):
        [target] = [target for target in targets.list_targets(_Catalog(), self.model())
                    if target.kind == kind]
        return target.find_obstacle(
            Record(kind, id_, "", {**_GOOD[kind], **fields}), others or {})

    def test_nothing_is_wrong(self) -> None:
        for kind in _GOOD:
            self.assertEqual("", self.find(kind), kind)

    def test_values_that_are_refused(self) -> None:
        for kind, values, expected in (
                (records.REGION, {"id_": "r" * 256}, "The id of a region must be text of 1"),
                (records.REGION, {"description": "d" * 65536}, "The description of a region"),
                (records.SERVICE, {"type": "t" * 256}, "The type of a service"),
                (records.SERVICE, {"name": "n" * 256}, "The name of a service"),
                (records.SERVICE, {"id_": "with blank"}, "The id of a service must be 1 to 64"),
                (records.ENDPOINT, {"interface": "odd"},
                 "The interface of a endpoint must be one of public, internal, admin."),
                (records.ENDPOINT, {"url": ""}, "The url of a endpoint"),
                (records.DOMAIN, {"name": "n" * 65}, "The name of a domain"),
                (records.PROJECT, {"name": "n" * 65}, "The name of a project"),
                (records.PROJECT, {"name": "nul\0"}, "The name of a project"),
                (records.REGISTERED_LIMIT, {"resource_name": "r" * 256}, "resource_name"),
                (records.LIMIT, {"project_id": "p" * 65}, "project_id"),
                (records.LIMIT, {"description": "d" * 65536}, "description"),
                (records.USER_LIMIT, {"user_id": "u" * 256}, "user_id")):
            self.assertIn(expected, self.find(kind, **values), kind)

    def test_a_tree_that_is_too_deep(self) -> None:
        self.model = _TwoLevels
        parent = {"p": {**_GOOD[records.PROJECT], "parent_id": "d"}}
        self.assertEqual("", self.find(records.PROJECT, others=parent))
        self.assertIn("there would be 3 levels of projects",
                      self.find(records.PROJECT, others=parent, parent_id="p"))

    def test_a_tree_that_is_a_ring(self) -> None:
        self.model = _TwoLevels
        ring = {"p": {**_GOOD[records.PROJECT], "parent_id": "p"}}
        self.assertNotEqual("", self.find(records.PROJECT, others=ring, parent_id="p"))
