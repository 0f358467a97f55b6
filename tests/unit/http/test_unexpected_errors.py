"""The 500 of middleware that fails."""

from __future__ import annotations

from typing import Any

from placement_core.http.apis import ApisByPath
from placement_core.http.capacity_api.api import API
from placement_core.http.unexpected_errors import UnexpectedErrors
from tests import base


class TestUnexpectedErrors(base.TestCase):
    def test_an_answer_that_was_begun(self) -> None:
        """There cannot be another one."""
        def begin_and_fail(_environ: dict[str, Any], start_response: Any) -> Any:
            start_response("200 OK", [])
            raise RuntimeError

        statuses: list[str] = []
        application = UnexpectedErrors(begin_and_fail, ApisByPath([API]))
        self.assertRaises(
            RuntimeError, application, {}, lambda status, _headers: statuses.append(status))
        self.assertEqual(["200 OK"], statuses)
