"""Bounds of request bodies."""

from __future__ import annotations

import io
from typing import Any

from placement_core.http import request_bodies
from placement_core.http.errors import HTTPError
from tests import base


def read(body: bytes, largest: int = 100, **environ: Any) -> bytes:
    return request_bodies.read({"wsgi.input": io.BytesIO(body), **environ}, largest)


class TestRead(base.TestCase):
    def test_within_the_bounds(self) -> None:
        self.assertEqual(b'"abc"', read(b'"abc"', CONTENT_LENGTH="5"))
        self.assertEqual(b"", read(b""))
        self.assertEqual(b'"abc"', read(b'"abc"', HTTP_TRANSFER_ENCODING="chunked"))

    def test_too_long(self) -> None:
        for environ in (
            {"CONTENT_LENGTH": "101"}, {"CONTENT_LENGTH": "9" * 30},
            {"HTTP_TRANSFER_ENCODING": "chunked"}, {"wsgi.input_terminated": True},
        ):
            error = self.assertRaises(HTTPError, read, b"x" * 101, **environ)
            self.assertEqual(413, error.status, environ)

    def test_cut_off(self) -> None:
        error = self.assertRaises(HTTPError, read, b'"a', CONTENT_LENGTH="5")
        self.assertEqual(400, error.status)

    def test_too_many_values(self) -> None:
        body = b"[" + b"0," * 12 + b"0]"
        error = self.assertRaises(HTTPError, read, body, CONTENT_LENGTH=str(len(body)))
        self.assertEqual(413, error.status)
        self.assertEqual(body, read(body, 104, CONTENT_LENGTH=str(len(body))))
