"""/capacity/v1/cells and /capacity/v1/instances."""

from __future__ import annotations

import json
import uuid
from typing import Any

import webob

from placement_core.cells import mappings, schema
from tests import databases, nova_databases
from tests.functional.cells import cases
from tests.http import base

A, B, C = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
_SECRET = "correct-horse"
_URL = f"mysql+pymysql://nova:{_SECRET}@127.0.0.1:1/cell?charset=utf8"
_SHOWN = "mysql+pymysql://nova:***@127.0.0.1:1/cell?charset=utf8"
_HUGE = 10 ** 30
_EMOJI = "\N{GRINNING FACE}"


class CellsTestCase(base.HttpTestCase):
    options = {("cells", "timeout_seconds"): 2}

    def send(
        self, method: str, path: str, body: Any = None, *, status: int | None = None,
        **options: Any,
    ) -> webob.Response:
        """Send one request; ``path`` is below /capacity/v1."""
        response = self.ask(method, f"/capacity/v1{path}", body, version=None, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        self.assertNotIn(_SECRET, response.text)
        return response

    def cell(self, name: str = "cell1", url: str = _URL, **fields: Any) -> dict[str, Any]:
        return self.send("POST", "/cells", {"cell": {
            "name": name, "database_connection": url, **fields}}, status=201).json["cell"]

    def instance(self, uuid_: str = A, status: int = 201, **fields: Any) -> dict[str, Any]:
        return self.send("POST", "/instances", {"instance": {
            "uuid": uuid_, "project_id": "demo", "user_id": "alice", **fields}},
            status=status).json.get("instance")

    def everything(self) -> Any:
        """Return all that there is, to see that nothing was written."""
        return (self.send("GET", "/cells", status=200).json,
                self.send("GET", "/instances", status=200).json)

    def assert_bad(
        self, method: str, path: str, body: Any, *statuses: int
    ) -> None:
        """Expect a refusal with a code, and nothing written."""
        before = self.everything()
        response = self.send(method, path, body)
        self.assertIn(response.status_int, statuses or (400,), f"{path} {body!r}")
        self.assertIn("code", response.json["errors"][0])
        self.assertEqual(before, self.everything(), body)


#: What no text may be.
_NO_TEXT = (None, 1, 1.5, True, _HUGE, [], {}, ["a"], "", "a\0b")
#: Bodies that are wrong whatever the route.
_NO_BODY = (b"", b"{", b"null", b"[]", b'"x"', b"1", b"NaN", b"\xff", b"{}",
            b'{"cell": null}', b'{"instance": null}', b'{"cell": []}', b'{"instance": 1}',
            b"[" * 5000 + b"]" * 5000)


@databases.on_each_database
class TestCells(CellsTestCase):
    def test_life(self) -> None:
        response = self.send("POST", "/cells", {"cell": {
            "name": "cell1", "database_connection": _URL,
            "transport_url": f"rabbit://u:{_SECRET}@h:1/"}}, status=201)
        made = response.json["cell"]
        self.assertEqual({
            "uuid": made["uuid"], "name": "cell1", "disabled": False,
            "database_connection": _SHOWN, "transport_url": "rabbit://u:***@h:1/"}, made)
        self.assertEqual(f"http://localhost:80/capacity/v1/cells/{made['uuid']}",
                         response.headers["Location"])
        for name in ("cell1", made["uuid"]):
            self.assertEqual({"cell": made}, self.send("GET", f"/cells/{name}", status=200).json)
        self.assertEqual({"cells": [made]}, self.send("GET", "/cells", status=200).json)
        for changes in ({"disabled": True}, {"name": f"north {_EMOJI}"},
                        {"transport_url": ""}, {}):
            made |= changes
            self.assertEqual({"cell": made}, self.send(
                "PATCH", f"/cells/{made['uuid']}", {"cell": changes}, status=200).json)
        self.send("DELETE", f"/cells/{made['uuid']}", status=204)
        for method in ("GET", "DELETE"):
            self.assert_refused(404, made["uuid"], self.send(method, f"/cells/{made['uuid']}"),
                                "cells.not_found")

    def test_bad_bodies(self) -> None:
        self.cell("other", "mysql://h/other")
        good = {"name": "cell1", "database_connection": _URL}
        for body in _NO_BODY:
            self.assert_bad("POST", "/cells", body)
            self.assert_bad("PATCH", "/cells/other", body)
        wrong: list[tuple[str, Any]] = [
            *(("name", value) for value in (*_NO_TEXT, " ", "x" * 256, A, "\ud800")),
            *(("database_connection", value) for value in (
                *_NO_TEXT, "x", "x" * 70000, "sqlite://", "sqlite:///:memory:", "oracle://h/d",
                "mysql://h:port/d", "mysql+os://h/d", "\ud800", _SHOWN)),
            *(("transport_url", value) for value in (
                None, 1, True, [], {}, "\ud800", "rabbit://u:***@h")),
            *(("disabled", value) for value in (None, 0, 1, 1.5, "true", [], _HUGE)),
            ("id", 1), ("bogus", None), (_EMOJI, 1), ("created_at", "2026-01-01"),
        ]
        for field, value in wrong:
            self.assert_bad("POST", "/cells", {"cell": {**good, field: value}})
            self.assert_bad("PATCH", "/cells/other", {"cell": {field: value}})
        for field in good:
            self.assert_bad("POST", "/cells", {"cell": {
                name: value for name, value in good.items() if name != field}})
        for value in (None, 1, "", "x", A[:-1], _EMOJI, "\0"):
            self.assert_bad("POST", "/cells", {"cell": {**good, "uuid": value}})
        self.assert_bad("PATCH", "/cells/other", {"cell": {"uuid": A}})
        self.assert_bad("POST", "/cells", {"cell": good, "more": 1})

    def test_conflicts(self) -> None:
        made = self.cell()
        self.cell("cell2", "mysql://h/other")
        for fields in ({"name": "cell2"}, {"uuid": made["uuid"], "name": "x"},
                       {"name": "x", "database_connection": "mysql://other@127.0.0.1:1/cell"}):
            self.assert_bad("POST", "/cells", {"cell": {
                "name": "x", "database_connection": "mysql://h/third", **fields}}, 409)
        self.assert_bad("PATCH", "/cells/cell2", {"cell": {"name": "cell1"}}, 409)
        self.instance(cell="cell1")
        self.assert_bad("DELETE", "/cells/cell1", None, 409)

    def test_bad_paths_and_queries(self) -> None:
        for path in ("/cells/nowhere", "/cells/%F0%9F%98%80", f"/cells/{A}", "/cells/%00",
                     "/cells/" + "x" * 5000):
            for method in ("GET", "PATCH", "DELETE"):
                body = {"cell": {}} if method == "PATCH" else None
                self.send(method, path, body, status=404)
        self.send("GET", "/cells/%FF", status=400)
        for query in ("bogus=1", "check=maybe", "check=", "check=1", "%00=1"):
            self.send("GET", f"/cells?{query}", status=400)

    def test_check(self) -> None:
        self.cell("down")
        self.cell("nova", nova_databases.cell(self.kind))
        found = self.send("GET", "/cells?check=true", status=200).json["cells"]
        down, nova = (each["check"] for each in found)
        self.assertEqual((False, None, None, "its database does not answer"), (
            down["answers"], down["tables"], down["missing_tables"], down["reason"]))
        self.assertEqual((True, list(schema.TABLES), [], None), (
            nova["answers"], nova["tables"], nova["missing_tables"], nova["reason"]))
        self.assertLess(nova["seconds"], 2)
        one = self.send("GET", "/cells/down?check=true", status=200).json["cell"]
        self.assertEqual("its database does not answer", one["check"]["reason"])
        for path in ("/cells/down", "/cells/down?check=false"):
            self.assertNotIn("check", self.send("GET", path, status=200).json["cell"])

    def test_a_cell_without_tables(self) -> None:
        url = cases.bare(self.kind, "cell")
        self.addCleanup(cases.drop, url)
        made = self.cell("cell1", url)
        (parts,) = self.parts
        ctx = parts.context()
        schema.sync(ctx, parts.cells, mappings.get(ctx, parts.cells, made["uuid"]))
        checked = self.send("GET", "/cells/cell1?check=true", status=200).json["cell"]["check"]
        self.assertEqual([], checked["missing_tables"])


class InstancesTestCase(CellsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.there = self.cell()


@databases.on_each_database
class TestInstances(InstancesTestCase):
    def test_life(self) -> None:
        made = self.instance()
        self.assertEqual({
            "uuid": A, "project_id": "demo", "user_id": "alice", "cell_uuid": None,
            "queued_for_delete": False, "created_at": made["created_at"],
            "updated_at": None}, made)
        self.assertTrue(made["created_at"].endswith("+00:00"))
        self.assertEqual(made, self.instance(status=200))
        self.assertEqual(made, self.instance(A.replace("-", "").upper(), cell=None, status=200))
        path = f"/instances/{A}"
        self.assertEqual({"instance": made}, self.send("GET", path, status=200).json)
        self.assertEqual({"instances": [made], "links": {"next": None}},
                         self.send("GET", "/instances", status=200).json)
        for changes, cell, deleted in (
            ({"cell": "cell1"}, self.there["uuid"], False),
            ({"queued_for_delete": True}, self.there["uuid"], True),
            ({"cell": self.there["uuid"], "queued_for_delete": False}, self.there["uuid"], False),
            ({}, self.there["uuid"], False),
        ):
            found = self.send("PATCH", path, {"instance": changes}, status=200).json["instance"]
            self.assertEqual((cell, deleted), (found["cell_uuid"], found["queued_for_delete"]))
        for _ in range(2):
            self.send("DELETE", path, status=204)
        self.assertTrue(
            self.send("GET", path, status=200).json["instance"]["queued_for_delete"])
        self.instance(status=409, cell="cell1")

    def test_bad_bodies(self) -> None:
        self.instance(B)
        good = {"uuid": A, "project_id": "demo", "user_id": "alice"}
        for body in _NO_BODY:
            self.assert_bad("POST", "/instances", body)
            self.assert_bad("PATCH", f"/instances/{B}", body)
        wrong: list[tuple[str, Any]] = [
            *((name, value) for name in ("project_id", "user_id")
              for value in (*_NO_TEXT, " ", "x" * 256, "\ud800")),
            *(("uuid", value) for value in (None, 1, "", "x", A[:-1], _EMOJI, [], True, "\0")),
            *(("cell", value) for value in (
                1, 1.5, True, _HUGE, [], {}, "", " ", "nowhere", _EMOJI, A, "x" * 256, "a\0b")),
            ("queued_for_delete", False), ("id", 7), ("bogus", 1), (_EMOJI, 1),
        ]
        for field, value in wrong:
            self.assert_bad("POST", "/instances", {"instance": {**good, field: value}})
        for field in good:
            self.assert_bad("POST", "/instances", {"instance": {
                name: value for name, value in good.items() if name != field}})
        for changes in (
            {"cell": None}, {"cell": ""}, {"cell": 1}, {"cell": "nowhere"}, {"cell": "\ud800"},
            {"queued_for_delete": None}, {"queued_for_delete": 1}, {"queued_for_delete": "true"},
            {"queued_for_delete": 0.0}, {"queued_for_delete": _HUGE}, {"user_id": "eve"},
            {"project_id": "other"}, {"uuid": A}, {"bogus": 1},
            {"queued_for_delete": True, "cell": "nowhere"},
        ):
            self.assert_bad("PATCH", f"/instances/{B}", {"instance": changes})
        for fields in ({"user_id": "bob"}, {"project_id": "other"}, {"cell": "cell1"}):
            self.assert_bad("POST", "/instances", {"instance": {
                **good, "uuid": B, **fields}}, 409)

    def test_what_is_unusual_but_right(self) -> None:
        """Projects and users are any text, of other systems than Keystone too."""
        for number, text in enumerate((_EMOJI, "'; DROP TABLE x", "a" * 255, "%_[*]", "Ä b")):
            each = str(uuid.UUID(int=100 + number))
            self.instance(each, project_id=text, user_id=text)
            found = self.send("GET", f"/instances/{each}", status=200).json["instance"]
            self.assertEqual((text, text), (found["project_id"], found["user_id"]))

    def test_bad_paths_and_queries(self) -> None:
        for path in (A, "x", "%F0%9F%98%80", "%00", "x" * 5000):
            for method in ("GET", "PATCH", "DELETE"):
                body = {"instance": {}} if method == "PATCH" else None
                self.send(method, f"/instances/{path}", body, status=404)
        for query in (
            "bogus=1", "limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=9" + "9" * 30,
            f"marker={A}", "marker=x", "marker=%00", "cell=nowhere", "cell=", "project_id=",
            "project_id=" + "x" * 256, "queued_for_delete=maybe", "queued_for_delete=",
            "queued_for_delete=True", "user_id=%FF", f"limit={10 ** 17}",
        ):
            self.assert_refused(400, "", self.send("GET", f"/instances?{query}"))

    def test_filters_and_pages(self) -> None:
        self.instance(C, cell="cell1")
        self.instance(A, user_id="bob")
        self.instance(B, project_id="other")
        self.send("DELETE", f"/instances/{A}", status=204)
        for query, found in (
            ("", "312"), ("project_id=demo", "31"), ("user_id=alice", "32"), ("cell=cell1", "3"),
            (f"cell={self.there['uuid']}", "3"), ("queued_for_delete=true", "1"),
            ("queued_for_delete=false", "32"), ("project_id=nobody", ""),
            (f"marker={C}", "12"), (f"marker={C}&limit=1", "1"),
        ):
            listed = self.send("GET", f"/instances?{query}", status=200).json["instances"]
            self.assertEqual(found, "".join(each["uuid"][-1] for each in listed), query)
        path, seen = "/instances?limit=1&project_id=demo", ""
        while path:
            page = self.send("GET", path, status=200).json
            (one,) = page["instances"]
            seen += one["uuid"][-1]
            following = page["links"]["next"]
            path = following and following.removeprefix("/capacity/v1")
        self.assertEqual("31", seen)


class TestInstancesOfNova(TestInstances):
    """The same with the tables that nova made."""

    def setUp(self) -> None:
        self.options = {
            **CellsTestCase.options,
            ("api_database", "connection"): nova_databases.api(self.kind)}
        super().setUp()

    def test_what_is_unusual_but_right(self) -> None:
        if self.kind == "mysql":
            # Nova's tables there are in a character set without emoji.
            self.assert_bad("POST", "/instances", {"instance": {
                "uuid": A, "project_id": _EMOJI, "user_id": "alice"}})
        else:
            super().test_what_is_unusual_but_right()


databases.on_each_database(TestInstancesOfNova)


@databases.on_each_database
class TestHealing(CellsTestCase):
    def test_on_show(self) -> None:
        self.options = {**self.options, ("api_database", "connection"): ""}
        url = nova_databases.cell(self.kind)
        made = self.cell("nova", url)
        down = self.cell("down")
        (parts,) = self.parts
        engine, tables = nova_databases.reflected(
            parts.database.settings.connection, "instance_mappings", "cell_mappings")
        self.addCleanup(engine.dispose)
        keys = {cell.uuid: cell.id for cell in parts.cells.cells(parts.context())}
        with engine.begin() as connection:
            connection.execute(tables["instance_mappings"].insert(), [
                {"instance_uuid": A, "project_id": "demo", "cell_id": keys[made["uuid"]]},
                {"instance_uuid": B, "project_id": "demo", "cell_id": keys[down["uuid"]]}])
        cells, cell_tables = nova_databases.reflected(url, "instances")
        self.addCleanup(cells.dispose)
        with cells.begin() as connection:
            connection.execute(cell_tables["instances"].insert(), {
                "uuid": A, "project_id": "demo", "user_id": "alice", "deleted": 0})
        lists = "/instances?user_id=alice&queued_for_delete=false"
        self.assertEqual([], self.send("GET", lists, status=200).json["instances"])
        shown = {each: self.send("GET", f"/instances/{each}", status=200).json["instance"]
                 for each in (A, B)}
        self.assertEqual(("alice", False), (
            shown[A]["user_id"], shown[A]["queued_for_delete"]))
        self.assertEqual((None, None), (shown[B]["user_id"], shown[B]["queued_for_delete"]))
        self.assertEqual([shown[A]], self.send("GET", lists, status=200).json["instances"])


class TestPolicy(CellsTestCase):
    def test_who_may(self) -> None:
        self.cell()
        self.instance(cell="cell1")
        for roles, reads, writes, registers in (
            ("admin", 200, 200, 200), ("service", 200, 403, 200), ("reader", 403, 403, 403),
            ("member", 403, 403, 403),
        ):
            asked = {"token": "eve:demo", "headers": {"X-Roles": roles}}
            for path in ("/cells", "/cells/cell1", "/instances", f"/instances/{A}",
                         "/instances?project_id=demo"):
                self.send("GET", path, status=reads, **asked)
            self.send("PATCH", "/cells/cell1", {"cell": {}}, status=writes, **asked)
            self.send("POST", "/cells", {}, status=400 if writes == 200 else 403, **asked)
            self.send("DELETE", "/cells/none", status=404 if writes == 200 else 403, **asked)
            self.send("PATCH", f"/instances/{A}", {"instance": {}}, status=registers, **asked)
            self.send("POST", "/instances", {}, status=400 if registers == 200 else 403, **asked)
            self.send("DELETE", f"/instances/{B}", status=404 if registers == 200 else 403,
                      **asked)
        self.send("GET", "/cells", status=401, token=None)

    def test_a_body_of_another_kind(self) -> None:
        for path in ("/cells", "/instances"):
            self.send("POST", path, json.dumps({}).encode(), status=415,
                      headers={"Content-Type": "text/plain"})
            self.send("PUT", path, {}, status=405)
