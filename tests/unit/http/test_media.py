"""Which media types a request may send and accept."""

from __future__ import annotations

from placement_core.http import media
from placement_core.http.errors import HTTPError
from tests import base


class TestStrictly(base.TestCase):
    def status(self, *, takes_body: bool = True, json_only: bool = True, **headers: str) -> int:
        try:
            media.check_strictly(headers, takes_body, json_only)
        except HTTPError as error:
            return error.status
        return 200

    def test_bodies(self) -> None:
        for content_type, status in (
            ("application/json", 200), ("application/json; charset=utf-8", 200),
            ("Application/JSON", 200), ("text/plain", 415), ("", 415),
        ):
            self.assertEqual(status, self.status(CONTENT_TYPE=content_type), content_type)
        self.assertEqual(200, self.status(CONTENT_TYPE="text/plain", takes_body=False))

    def test_accept(self) -> None:
        for accept, status in (
            ("application/json", 200), ("*/*", 200), ("application/*", 200),
            ("text/html, application/json;q=0.5", 200), ("text/html", 406),
            ("application/json;q=0", 406),
        ):
            self.assertEqual(status, self.status(HTTP_ACCEPT=accept, takes_body=False), accept)
        self.assertEqual(
            200, self.status(HTTP_ACCEPT="text/html", takes_body=False, json_only=False))


class TestLeniently(base.TestCase):
    def test_no_type_is_json(self) -> None:
        for content_type in ("", "application/json", "application/json; charset=utf-8"):
            media.check_leniently({"CONTENT_TYPE": content_type}, True, False)
        media.check_leniently({"CONTENT_TYPE": "text/plain"}, False, False)

    def test_another_type_is_refused(self) -> None:
        error = self.assertRaises(
            HTTPError, media.check_leniently, {"CONTENT_TYPE": "text/plain; a=b"}, True, False)
        self.assertEqual(400, error.status)
        self.assertIn("not text/plain", str(error))
