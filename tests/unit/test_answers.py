"""What holds answers to their schemas notices the ones that break them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import webob

from placement_core.http.json_schemas import INTEGER, NO_CONTENT, answer, record
from placement_core.http.operations import Operation
from placement_core.http.placement_api.api import API
from tests import base
from tests.answers import CheckedAnswers

_API = dataclasses.replace(API, operations=(
    Operation("GET", "/things/{id}", lambda call: None, policy=None,
              answers=answer(record({"size": INTEGER}))),
    Operation("DELETE", "/things/{id}", lambda call: None, policy=None, answers=NO_CONTENT),
))
_ERROR = {"errors": [{"status": 404, "title": "", "detail": "", "request_id": ""}]}


class TestCheckedAnswers(base.TestCase):
    def _ask(self, method: str, path: str, status: int, body: Any = None) -> None:
        """Send a request to an application that answers just this."""
        response = webob.Response(
            status=status, content_type="application/json",
            body=b"" if body is None else json.dumps(body).encode())
        response.headers["OpenStack-API-Version"] = "placement 1.1"
        application = CheckedAnswers(response, [_API])
        webob.Request.blank(path, method=method).get_response(application)

    def test_kept(self) -> None:
        self._ask("GET", "/things/1", 200, {"size": 1})
        self._ask("GET", "/things/1", 404, _ERROR)
        self._ask("DELETE", "/things/1", 204)
        self._ask("GET", "/nowhere", 404, _ERROR)

    def test_broken(self) -> None:
        for broken in (
                ("GET", "/things/1", 200, {"size": "1"}), ("GET", "/things/1", 200, {}),
                ("GET", "/things/1", 200, {"size": 1, "more": 1}),
                ("GET", "/things/1", 201, {"size": 1}), ("DELETE", "/things/1", 200, {}),
                ("GET", "/things/1", 409, _ERROR), ("GET", "/things/1", 404, {"error": 404}),
                ("GET", "/nowhere", 200, {})):
            error = self.assertRaises(AssertionError, self._ask, *broken)
            self.assertIn(" ".join(broken[:2]), str(error))
