"""The pipeline: content headers, bodies and queries."""

from __future__ import annotations

import io

from tests.http import base
from tests.http.placement_api.pipeline_cases import UUID, PipelineTestCase


class TestContentHeaders(PipelineTestCase):
    def test_length_without_type(self) -> None:
        for path in ("/things", "/nowhere"):
            response = self.ask("POST", path, b"{}", headers={"Content-Type": ""})
            self.assert_refused(
                400, "content-type header required when content-length > 0", response)

    def test_length_is_no_number(self) -> None:
        for length in ("foo", "-1", "1.0", "0x1"):
            response = self.ask("POST", "/things", environ={"CONTENT_LENGTH": length})
            self.assert_refused(400, "content-length header must be an integer", response)

    def test_media_type(self) -> None:
        for given, shown in (("text/plain", "text/plain"), ("application/jsonp; a=b",
                                                             "application/jsonp")):
            response = self.ask("POST", "/things", b"{}", headers={"Content-Type": given})
            self.assert_refused(
                415, f"The media type {shown} is not supported, use application/json", response)
        response = self.ask("POST", "/things")
        self.assert_refused(415, "The media type None is not supported", response)
        response = self.ask("POST", "/things", b'{"name": "a"}', headers={
            "Content-Type": "Application/JSON; charset=UTF-8"})
        self.assertEqual(201, response.status_int)

    def test_no_body_wanted(self) -> None:
        self.assertEqual(200, self.ask("PUT", "/things/a", version="1.7").status_int)
        self.assertEqual(415, self.ask("PUT", "/things/a", version="1.6").status_int)

    def test_accept(self) -> None:
        for accept, status in (
            ("application/json", 200), ("*/*", 200), ("application/*", 200), ("", 200),
            ("text/plain, application/json;q=0.1", 200), ("not an accept header", 200),
            ("text/plain", 406), ("application/json;q=0", 406),
        ):
            with self.subTest(accept):
                response = self.ask("GET", "/things", environ={"HTTP_ACCEPT": accept})
                self.assertEqual(status, response.status_int)
        self.assertEqual(
            200, self.ask("GET", "/things/a", headers={"Accept": "text/plain"}).status_int)

    def test_body_too_large(self) -> None:
        self.conf.set_override("max_request_body_size", 2048, "api")
        from placement_core import app

        self.app = app.make_app(self.conf, apis=self.apis)
        self.assert_refused(413, "2048 bytes", self.ask("POST", "/things", b" " * 2049))
        endless = {
            "wsgi.input": io.BytesIO(b" " * 5000), "wsgi.input_terminated": True,
            "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_TYPE": "application/json",
        }
        self.assert_refused(413, "2048 bytes", self.ask("POST", "/things", environ=endless))
        self.assert_refused(413, "2048 bytes", self.ask(
            "POST", "/things", environ={
                "CONTENT_LENGTH": "9" * 400, "CONTENT_TYPE": "application/json"}))

    def test_body_cut_short(self) -> None:
        environ = {"CONTENT_LENGTH": "400", "CONTENT_TYPE": "application/json",
                   "wsgi.input": io.BytesIO(b'{"name": "a"}')}
        self.assert_refused(400, "shorter", self.ask("POST", "/things", environ=environ))

    def test_chunked_body(self) -> None:
        environ = {"wsgi.input": io.BytesIO(b'{"name": "a"}'), "wsgi.input_terminated": True,
                   "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_TYPE": "application/json"}
        self.assertEqual(201, self.ask("POST", "/things", environ=environ).status_int)


class TestBodies(PipelineTestCase):
    def test_malformed(self) -> None:
        for body in (
            b"", b"{", b"nul", b'{"name": "a"} x', b'{"name": NaN}', b'{"name": Infinity}',
            b'{"amount": 1e999, "name": "a"}', b'{"amount": 9223372036854775808, "name": "a"}',
            b'{"amount": ' + b"9" * 5000 + b', "name": "a"}', b'{"name": "\xff"}',
            b"[" * 10000, b'{"name": "\\u0000"}', b'{"\\u0000": 1}', b'{"name": "\\ud800"}',
            b'\xff\xfe{\x00}\x00',
        ):
            with self.subTest(body[:40]):
                self.assert_refused(400, "Malformed JSON: ", self.ask("POST", "/things", body))

    def test_invalid(self) -> None:
        for body, wording in (
            ({}, "'name' is a required property"),
            ({"name": "a", "x": 1},
             "Additional properties are not allowed ('x' was unexpected)"),
            ({"name": "a", "amount": 0}, "0 is less than the minimum of 1"),
            ({"name": "a", "amount": "1"}, "'1' is not of type 'integer'"),
            ({"name": "a", "amount": True}, "True is not of type 'integer'"),
            ({"name": "a", "amount": 1.5}, "1.5 is not of type 'integer'"),
            ({"name": "a", "amount": 0},
             "Failed validating 'minimum' in schema['properties']['amount']"),
            ({"name": "a", "uuid": "b"}, "'b' is not a 'uuid'"),
            ({"name": "a" * 11}, "Failed validating 'maxLength' in schema"),
            ([], "[] is not of type 'object'"),
            (None, "None is not of type 'object'"),
        ):
            with self.subTest(body):
                response = self.ask("POST", "/things", base.json.dumps(body).encode())
                self.assert_refused(400, f"JSON does not validate: {wording}", response) \
                    if not wording.startswith("Failed") else self.assert_refused(
                        400, wording, response)

    def test_huge_wording_is_cut(self) -> None:
        response = self.ask("POST", "/things", {"name": "a" * 100_000})
        self.assert_refused(400, "JSON does not validate", response)
        self.assertLess(len(response.body), 20_000)

    def test_deep(self) -> None:
        for levels, wording in ((32, "JSON does not validate"), (33, "32 levels deep"),
                                (900, "32 levels deep"), (1100, "Malformed JSON")):
            inner = levels - 1
            body = b'{"name": ' + b"[" * inner + b"]" * inner + b"}"
            with self.subTest(levels):
                self.assert_refused(400, wording, self.ask("POST", "/things", body))

    def test_accepted(self) -> None:
        for body in (
            b'{"name": "a", "amount": 1.0}', b'{"name": "a", "amount": 9223372036854775807}',
            b'{"name": "a", "uuid": "urn:uuid:{12345678123456781234567812345678}"}',
            b'{"name": "a", "uuid": "1234567812345678-12345678-12345678"}',
            b'{"name": "a\\\\u0000"}', b' {"name": "a"}\n',
        ):
            with self.subTest(body):
                self.assertEqual(201, self.ask("POST", "/things", body).status_int)

    def test_whole_floats_are_integers(self) -> None:
        response = self.ask("PUT", "/things/a", b'{"name": "a", "amount": 3.0}', version="1.0")
        self.assertIsInstance(response.json["body"]["amount"], int)

    def test_missing_before_malformed(self) -> None:
        for body in (b"{", b"{}"):
            self.assert_refused(
                404, "No such thing.", self.ask("PUT", "/things/missing", body, version="1.0"))
            self.assertEqual(
                400, self.ask("PUT", "/things/a", body, version="1.0").status_int)


class TestQueries(PipelineTestCase):
    def test_decoded(self) -> None:
        response = self.ask("GET", "/things?name=%C3%A9+b%26&name=")
        self.assertEqual({"name": ["é b&", ""]}, response.json["query"])

    def test_raw_utf8(self) -> None:
        response = self.ask("GET", "/things", environ={"QUERY_STRING": "name=\xc3\xa9"})
        self.assertEqual({"name": ["é"]}, response.json["query"])

    def test_refused(self) -> None:
        for query, wording in (
            ("x=1", "Additional properties are not allowed ('x' was unexpected)"),
            ("limit=abc", "'abc' does not match '^[1-9][0-9]*$'"),
            ("uuid=12345678123456781234567812345678", "is not a 'uuid'"),
            ("name=%ff", "not UTF-8"),
            ("name=%00", "NUL"),
        ):
            with self.subTest(query):
                response = self.ask("GET", f"/things?{query}")
                self.assert_refused(400, "Invalid query string parameters: ", response)
                self.assert_refused(400, wording, response)

    def test_last_value_counts(self) -> None:
        self.assertEqual(200, self.ask("GET", "/things?limit=a&limit=1").status_int)
        self.assertEqual(400, self.ask("GET", "/things?limit=1&limit=a").status_int)
        self.assertEqual(200, self.ask("GET", f"/things?uuid={UUID}").status_int)

    def test_ignored_without_schema(self) -> None:
        self.assertEqual(200, self.ask("GET", "/things/a?x=1").status_int)
