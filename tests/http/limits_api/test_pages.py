"""Pages of lists: ``limit`` and ``marker``."""

from __future__ import annotations

import itertools

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


@databases.on_each_database
class TestPages(LimitsTestCase):
    def fill(self) -> None:
        super().fill()
        self.names = [f"r{number}" for number in range(7)]
        for name in self.names:
            self.registered(name)

    def walk(self, path: str, collection: str) -> list[list[str]]:
        """Follow the links; return the names on each page."""
        pages = []
        while path:
            found = self.v3("GET", path, status=200).json
            pages.append([each["resource_name"] for each in found[collection]])
            following = found["links"]["next"]
            self.assertEqual("truncated" in found, following is not None)
            self.assertIsNone(found["links"]["previous"])
            self.assertEqual(f"http://localhost/v3{path}", found["links"]["self"])
            path = following.removeprefix("http://localhost/v3") if following else None
            self.assertLess(len(pages), 20)
        return pages

    def test_b2_a_walk_ends(self) -> None:
        for size, lengths in ((1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (7, [7]),
                              (8, [7])):
            pages = self.walk(f"/registered_limits?limit={size}", "registered_limits")
            self.assertEqual(lengths, [len(page) for page in pages], size)
            self.assertEqual(self.names, list(itertools.chain(*pages)))

    def test_filters_go_along(self) -> None:
        for name in self.names:
            self.limit(self.top, resource_name=name)
            self.limit(self.side, resource_name=name)
        pages = self.walk(
            f"/limits?project_id={self.top}&limit=3&resource_name__contains=r", "limits")
        self.assertEqual(self.names, list(itertools.chain(*pages)))
        self.assertEqual([3, 3, 1], [len(page) for page in pages])

    def test_a_marker_alone(self) -> None:
        found = self.v3("GET", "/registered_limits").json["registered_limits"]
        left = self.v3("GET", f"/registered_limits?marker={found[4]['id']}").json
        self.assertEqual(found[5:], left["registered_limits"])
        self.assertIsNone(left["links"]["next"])

    def test_the_last_marker(self) -> None:
        found = self.v3("GET", "/registered_limits").json["registered_limits"]
        left = self.v3("GET", f"/registered_limits?marker={found[-1]['id']}&limit=2").json
        self.assertEqual([], left["registered_limits"])

    def test_a_marker_that_is_none(self) -> None:
        self.refused(400, NOBODY, "GET", f"/registered_limits?marker={NOBODY}")

    def test_what_is_not_seen_is_on_no_page(self) -> None:
        for name in self.names[:4]:
            self.limit(self.top, resource_name=name)
            self.limit(self.side, resource_name=name)
        found = self.v3("GET", "/limits?limit=3", token=f"bob:{self.side}", roles="member").json
        self.assertEqual({self.side}, {each["project_id"] for each in found["limits"]})
        self.assertEqual(3, len(found["limits"]))
        self.assertIsNotNone(found["links"]["next"])


@databases.on_each_database
class TestPagesOfTheCatalog(LimitsTestCase):
    """Projects and domains."""

    def fill(self) -> None:
        super().fill()
        for name in ("a", "b", "c", "d"):
            self.project(name, self.side)
            self.make("domains", "domain", name=name)

    def walk(self, path: str, collection: str) -> list[list[str]]:
        """Follow the links; return the ids on each page."""
        walked = []
        while path:
            page = self.v3("GET", path, status=200).json
            walked.append([record["id"] for record in page[collection]])
            following = page["links"]["next"]
            self.assertEqual("truncated" in page, following is not None)
            path = following.removeprefix("http://localhost/v3") if following else None
            self.assertLess(len(walked), 20)
        return walked

    def list_ids(self, path: str, collection: str) -> list[str]:
        return sorted(
            record["id"] for record in self.v3("GET", path, status=200).json[collection])

    def test_a_walk_ends(self) -> None:
        for collection, count in (("projects", 7), ("domains", 5)):
            ids = self.list_ids(f"/{collection}", collection)
            self.assertEqual(count, len(ids))
            for size in (1, 2, count - 1, count, count + 1):
                walked = self.walk(f"/{collection}?limit={size}", collection)
                self.assertEqual(ids, list(itertools.chain(*walked)))
                self.assertEqual(min(size, count), len(walked[0]))
            left = self.v3("GET", f"/{collection}?marker={ids[2]}", status=200).json
            self.assertEqual(ids[3:], [record["id"] for record in left[collection]])
            self.assertIsNone(left["links"]["next"])

    def test_filters_go_along(self) -> None:
        path = f"/projects?parent_id={self.side}"
        walked = self.walk(f"{path}&limit=3", "projects")
        self.assertEqual([3, 1], [len(page) for page in walked])
        self.assertEqual(self.list_ids(path, "projects"), list(itertools.chain(*walked)))

    def test_a_marker_that_the_filters_leave_out(self) -> None:
        """It may have changed since the page before."""
        ids = self.list_ids(f"/projects?parent_id={self.side}", "projects")
        after = self.v3(
            "GET", f"/projects?parent_id={self.side}&marker={self.top}", status=200).json
        self.assertEqual([id_ for id_ in ids if id_ > self.top],
                         [record["id"] for record in after["projects"]])

    def test_a_marker_that_is_none(self) -> None:
        for collection, marker in (("projects", NOBODY), ("domains", NOBODY),
                                   ("projects", self.domain), ("domains", self.top),
                                   ("projects", "%FF"), ("projects", "x" * 300)):
            self.refused(400, "", "GET", f"/{collection}?marker={marker}")
        self.refused(400, NOBODY, "GET", f"/projects?marker={NOBODY}&limit=2")

    def test_what_is_not_seen_is_on_no_page(self) -> None:
        walked = []
        path = "/projects?limit=2"
        while path:
            page = self.v3(
                "GET", path, token=f"bob:{self.side}", roles="member", status=200).json
            walked += [record["name"] for record in page["projects"]]
            path = (page["links"]["next"] or "").removeprefix("http://localhost/v3")
        self.assertEqual(["a", "b", "c", "d", "side"], sorted(walked))
