"""Which requests are repeated without the router."""

from __future__ import annotations

from typing import Any
from unittest import mock

from placement_core.http import conditional, requestlog
from placement_core.http.response_cache import ResponseCache
from tests import base


class TestResponseCache(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.passed: list[dict[str, Any]] = []
        rules = object()
        self.cache = ResponseCache(
            self._answer, ["/v3"], mock.Mock(), mock.Mock(rules=lambda: rules),
            conditional.Bodies())

    def _answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.passed.append(environ)
        environ[conditional.ENVIRON_KEY] = tag = conditional.ETag(("limits",))
        environ[requestlog.OPERATION_KEY] = ("limits", "GET /v3/limits")
        start_response("200 OK", [("ETag", f'"{tag.text(mock.Mock())}"')])
        return [b""]

    def ask(self, **environ: str) -> None:
        self.cache({
            "REQUEST_METHOD": "GET", "PATH_INFO": "/v3/limits", "wsgi.url_scheme": "http",
            "HTTP_IF_NONE_MATCH": f'"{conditional.ETag(("limits",)).text(mock.Mock())}"',
            **environ}, mock.Mock())

    def test_the_same_request(self) -> None:
        for _ in range(2):
            self.ask(QUERY_STRING="project_id=a")
        self.assertEqual(1, len(self.passed))
        self.ask(QUERY_STRING="project_id=b")
        self.assertEqual(2, len(self.passed))

    def test_long_requests(self) -> None:
        """Nothing is kept of them: callers choose how many and how long they are."""
        for name in ("QUERY_STRING", "HTTP_ACCEPT", "HTTP_HOST", "PATH_INFO"):
            self.passed.clear()
            for _ in range(2):
                self.ask(**{name: f"/v3/{'x' * 3000}"})
            self.assertEqual(2, len(self.passed), name)
