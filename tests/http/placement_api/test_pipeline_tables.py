"""The pipeline: several APIs, and mistakes in a table of operations."""

from __future__ import annotations

import dataclasses

from pyramid.response import Response

from placement_core.http.json_schemas import TEXT, record
from placement_core.http.operations import Ladder, Operation
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.api import API
from placement_core.http.versions import Versions
from tests.http import base
from tests.http.placement_api.pipeline_cases import (
    LIST,
    OPERATIONS,
    SHOW,
    echo,
    fail,
    table,
    take,
)


def _blunt(status, error, environ, version) -> Response:
    """Make an error document of another kind."""
    return Response(status=status, json={"message": str(error), "coded": error.code})


class TestSeveralApis(base.HttpTestCase):
    """Each tree of paths has its own habits."""

    apis = (
        *table(*OPERATIONS),
        dataclasses.replace(
            API, prefix="/other/v1", render_document=_blunt,
            error_schema=Ladder({mv.BASE: record({"message": TEXT, "coded": TEXT})}),
            versions=Versions("other", mv.BASE, mv.TRAITS, default=mv.TRAITS),
            operations=(
                Operation("GET", "/things", echo, LIST, since=mv.TRAITS),
                Operation("GET", "/taken", take, SHOW),
                Operation("GET", "/broken", fail, SHOW))),
        dataclasses.replace(
            API, prefix="/other/v1/deeper",
            operations=(Operation("GET", "/things", echo, LIST),)),
    )

    def test_versions(self) -> None:
        for path, version, answered in (
            ("/things", None, "placement 1.0"), ("/other/v1/things", None, "other 1.6"),
            ("/other/v1/deeper/things", None, "placement 1.0"),
            ("/other/v1/things", "placement 1.9", "other 1.6"),
            ("/other/v1/things", "other latest", "other 1.6"),
        ):
            response = self.ask("GET", path, version=None, headers={
                "OpenStack-API-Version": version} if version else {})
            self.assertEqual(200, response.status_int, path)
            self.assertEqual(answered, response.headers["OpenStack-API-Version"], path)
        response = self.ask(
            "GET", "/other/v1/things", headers={"OpenStack-API-Version": "other 1.7"})
        self.assertEqual("Unacceptable version header: 1.7", response.json["message"])

    def test_refusals(self) -> None:
        for method, path, status in (
            ("GET", "/other/v1/taken", 409), ("GET", "/other/v1/nowhere", 404),
            ("GET", "/other/v1", 404), ("GET", "/other/v1/", 404),
            ("GET", "/other/v1/%ff", 400), ("POST", "/other/v1/taken", 405),
        ):
            response = self.ask(method, path)
            self.assertEqual(status, response.status_int, path)
            self.assertIn("message", response.json, path)
        with self.assertLogs("placement_core.http.tweens", "ERROR"):
            response = self.ask("GET", "/other/v1/broken")
        self.assertEqual((500, ""), (response.status_int, response.json["message"]))

    def test_others_have_theirs(self) -> None:
        for path in ("/other", "/other/v10/taken", "/other/v1.0", "/nowhere", "/taken/other/v1",
                     "/other/v1/deeper/nowhere", "//other/v1/taken", "/OTHER/v1/taken"):
            response = self.ask("GET", path)
            self.assert_refused(404, "could not be found", response)
            self.assertEqual("placement 1.39", response.headers["OpenStack-API-Version"])


class TestTable(base.HttpTestCase):
    """Mistakes in a table of operations stop the service at its start."""

    def include(self, *operations: Operation) -> None:
        from placement_core import app

        app.make_app(self.conf, apis=table(*operations))

    def test_unknown_policy(self) -> None:
        self.assertRaisesRegex(
            ValueError, "no policy rule nobody:knows", self.include,
            Operation("GET", "/a", echo, "nobody:knows"))

    def test_twice(self) -> None:
        self.assertRaisesRegex(
            ValueError, "GET /a is there twice", self.include,
            Operation("GET", "/a", echo, LIST), Operation("GET", "/a", echo, LIST))

    def test_policy_cannot_be_forgotten(self) -> None:
        self.assertRaises(TypeError, Operation, "GET", "/a", echo)
