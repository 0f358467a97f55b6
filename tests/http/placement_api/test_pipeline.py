"""The order in which requests are judged, and what every answer looks like.

On a table of operations of its own: nothing here depends on what a view does.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import re

from pyramid.response import Response

from placement_core import errors
from placement_core.http.apis import Api
from placement_core.http.operations import NOW, Call, Ladder, Operation, Reply
from placement_core.http.placement_api import microversions as mv, policies
from placement_core.http.placement_api.api import API
from placement_core.http.versions import Versions
from tests.http import base

_BODY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "uuid": {"type": "string", "format": "uuid"},
        "amount": {"type": "integer", "minimum": 1},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_QUERY = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "uuid": {"type": "string", "format": "uuid"},
        "limit": {"type": "string", "pattern": "^[1-9][0-9]*$"},
    },
    "additionalProperties": False,
}
_WHEN = datetime.datetime(2026, 2, 3, 4, 5, 6, 789)
_UUID = "12345678-1234-5678-1234-567812345678"


def _echo(call: Call) -> Reply:
    return Reply(body={
        "query": call.query, "path": dict(call.path), "body": call.body,
        "prefix": call.prefix, "user": call.ctx.identity.user_id,
        "project": call.ctx.identity.project_id, "roles": call.ctx.identity.roles,
    })


def _create(call: Call) -> Reply:
    return Reply(status=201, location=f"/things/{call.body['name']}")


def _missing(call: Call) -> Reply:
    raise errors.NotFound("No such thing.")


def _break(call: Call) -> Reply:
    raise RuntimeError("the secret is 42")


def _exists(ctx: object, path: dict[str, str]) -> None:
    if path["name"] == "missing":
        raise errors.NotFound("No such thing.")


class _Taken(errors.Conflict):
    code = "test.taken"


def _take(call: Call) -> Reply:
    raise _Taken("It is taken.")


def _over(call: Call) -> Reply:
    raise errors.OverLimit("Too much.")


def _away(call: Call) -> Reply:
    raise errors.Unavailable("Not now.")


_LIST, _CREATE, _SHOW = (
    policies.PROVIDERS_LIST, policies.PROVIDERS_CREATE, policies.PROVIDERS_SHOW)

OPERATIONS = (
    Operation("GET", "/", _echo, policy=None),
    Operation("GET", "/things", _echo, _LIST, query=Ladder({mv.BASE: _QUERY}), json_only=True),
    Operation("POST", "/things", _create, _CREATE, body=Ladder({mv.BASE: _BODY})),
    Operation("GET", "/things/{name}", _echo, _SHOW),
    Operation("PUT", "/things/{name}", _echo, policies.PROVIDERS_UPDATE, check_exists=_exists,
              body=Ladder({mv.BASE: _BODY, mv.ENSURE_CLASS: None})),
    Operation("DELETE", "/things/{name}", lambda call: Reply(status=204),
              policies.PROVIDERS_DELETE, since=mv.DELETE_INVENTORIES, gate_status=405),
    Operation("GET", "/late", _echo, _SHOW, since=mv.TRAITS, json_only=True),
    Operation("PUT", "/late", _echo, _SHOW, since=mv.AGGREGATES,
              body=Ladder({mv.AGGREGATES: _BODY}), media_before_gate=True),
    Operation("GET", "/missing", _missing, _SHOW),
    Operation("GET", "/broken", _break, _SHOW),
    Operation("GET", "/taken", _take, _SHOW),
    Operation("GET", "/over", _over, _SHOW),
    Operation("GET", "/away", _away, _SHOW),
    Operation("GET", "/now", lambda call: Reply(body={}, last_modified=NOW), _SHOW),
    Operation("GET", "/dated", lambda call: Reply(body=b"{}", last_modified=_WHEN), _SHOW),
    Operation("GET", "/dateless", lambda call: Reply(body={}, cacheable=True), _SHOW),
)


def table(*operations: Operation) -> tuple[Api]:
    """Return an API with these operations and Placement's habits, as the only one."""
    return (dataclasses.replace(API, operations=operations),)


class PipelineTestCase(base.HttpTestCase):
    apis = table(*OPERATIONS)


class TestVersions(PipelineTestCase):
    def test_understood(self) -> None:
        for header, version in (
            (None, "1.0"),
            ("placement 1.7", "1.7"),
            ("placement latest", "1.39"),
            ("PLACEMENT 1.7", "1.7"),
            ("compute 2.90, placement 1.7", "1.7"),
            ("placement 1.7, placement 1.9", "1.9"),
            ("compute 2.90", "1.0"),
            ("1.7", "1.0"),
        ):
            with self.subTest(header):
                headers = {"OpenStack-API-Version": header} if header else {}
                response = self.ask("GET", "/things", version=None, headers=headers)
                self.assertEqual(200, response.status_int)
                self.assertEqual(
                    f"placement {version}", response.headers["OpenStack-API-Version"])
                self.assertEqual("openstack-api-version", response.headers["Vary"])

    def test_not_a_version(self) -> None:
        for value in ("pony.horse", "1.2.3", "bogus", "1", "1.", "-1.2", "\u0661.\u0662",
                      "1." + "9" * 50):
            with self.subTest(value):
                response = self.ask("GET", "/things", environ={
                    "HTTP_OPENSTACK_API_VERSION": f"placement {value}"}, version=None)
                self.assert_refused(400, "invalid version string: ", response)
                self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_not_offered(self) -> None:
        for value in ("0.5", "1.99", "2.0", "1.40"):
            response = self.ask("GET", "/", version=value)
            self.assert_refused(406, f"Unacceptable version header: {value}", response)
            error = response.json["errors"][0]
            self.assertEqual(("1.0", "1.39"), (error["min_version"], error["max_version"]))
            self.assertNotIn("code", error)
            self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_version_comes_before_the_route(self) -> None:
        self.assert_refused(
            406, "Unacceptable version header", self.ask("GET", "/nowhere", version="0.5"))


class TestRouting(PipelineTestCase):
    def test_unknown_path(self) -> None:
        for path in ("/nowhere", "/things/", "/things/a/b", "//things"):
            response = self.ask("GET", path)
            self.assert_refused(404, "The resource could not be found.", response)
            self.assertEqual("placement 1.39", response.headers["OpenStack-API-Version"])

    def test_unknown_method(self) -> None:
        for method in ("DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            response = self.ask(method, "/things")
            self.assert_refused(
                405, f"The method {method} is not allowed for this resource.", response)
            self.assertEqual("GET, POST", response.headers["Allow"])
        self.assertEqual(405, self.ask("HEAD", "/things").status_int)

    def test_gate(self) -> None:
        self.assert_refused(404, "could not be found", self.ask("GET", "/late", version="1.5"))
        self.assertEqual(200, self.ask("GET", "/late", version="1.6").status_int)
        response = self.ask("DELETE", "/things/a", version="1.4")
        self.assert_refused(405, "The method DELETE is not allowed for this resource.", response)
        self.assertEqual(204, self.ask("DELETE", "/things/a", version="1.5").status_int)

    def test_gate_before_media(self) -> None:
        accept = {"Accept": "text/plain"}
        self.assertEqual(
            404, self.ask("GET", "/late", version="1.5", headers=accept).status_int)
        self.assertEqual(
            406, self.ask("GET", "/late", version="1.6", headers=accept).status_int)

    def test_media_before_gate(self) -> None:
        response = self.ask(
            "PUT", "/late", b"[]", version="1.0", headers={"Content-Type": "text/plain"})
        self.assertEqual(415, response.status_int)
        self.assertEqual(404, self.ask("PUT", "/late", b"[]", version="1.0").status_int)

    def test_paths_that_are_no_text(self) -> None:
        self.assert_refused(400, "not UTF-8", self.ask("GET", "/things/%ff"))
        self.assert_refused(404, "could not be found", self.ask("GET", "/things/a%00b"))

    def test_mounted(self) -> None:
        environ = {"SCRIPT_NAME": "/capa\xc3\xa9", "HTTP_HOST": "api.example:8778"}
        self.assertEqual(
            "/capa%C3%A9", self.ask("GET", "/things", environ=environ).json["prefix"])
        response = self.ask("POST", "/things", {"name": "a b"}, environ=environ)
        self.assertEqual(
            "http://api.example:8778/capa%C3%A9/things/a%20b", response.headers["Location"])


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
        self.assertEqual(200, self.ask("GET", f"/things?uuid={_UUID}").status_int)

    def test_ignored_without_schema(self) -> None:
        self.assertEqual(200, self.ask("GET", "/things/a?x=1").status_int)


class TestErrors(PipelineTestCase):
    def test_categories(self) -> None:
        for path, status, detail in (
            ("/missing", 404, "No such thing."), ("/taken", 409, "It is taken."),
            ("/over", 403, "Too much."), ("/away", 503, "Not now."),
        ):
            self.assert_refused(status, detail, self.ask("GET", path))

    def test_codes_since_1_23(self) -> None:
        self.assert_refused(
            409, "It is taken.", self.ask("GET", "/taken", version="1.23"), "test.taken")
        self.assertNotIn("code", self.ask("GET", "/taken", version="1.22").json["errors"][0])

    def test_the_unexpected(self) -> None:
        with self.assertLogs("placement_core.http.tweens", "ERROR") as logs:
            response = self.ask("GET", "/broken")
        self.assert_refused(500, "", response)
        self.assertNotIn(b"secret", response.body)
        self.assertNotIn("OpenStack-API-Version", response.headers)
        request_id = response.headers["x-openstack-request-id"]
        self.assertIn(request_id, logs.output[0])
        self.assertIn("the secret is 42", logs.output[0])

    def test_forms(self) -> None:
        for accept, kind in (
            ("text/html", "text/html"), ("text/plain", "text/plain"),
            ("text/html, */*;q=0.1", "application/json"), ("image/png", "application/json"),
            ("*/*", "application/json"),
        ):
            with self.subTest(accept):
                response = self.ask("GET", "/missing", headers={"Accept": accept})
                self.assertEqual(kind, response.content_type)
                self.assertIn("No such thing.", response.text)
                self.assertIn("The resource could not be found.", response.text)

    def test_html_is_escaped(self) -> None:
        response = self.ask("GET", "/things?<script>=1", headers={
            "Accept": "text/html;q=1, application/json;q=0"})
        self.assertEqual(406, response.status_int)
        response = self.ask("POST", "/things", b'{"<b>": 1}', headers={"Accept": "text/html"})
        self.assertEqual(400, response.status_int)
        self.assertNotIn("<b>", response.text)


class TestCachingHeaders(PipelineTestCase):
    def test_from_1_15(self) -> None:
        response = self.ask("GET", "/dated", version="1.15")
        self.assertEqual("no-cache", response.headers["Cache-Control"])
        self.assertEqual("Tue, 03 Feb 2026 04:05:06 GMT", response.headers["Last-Modified"])
        response = self.ask("GET", "/now", version="1.15")
        self.assertRegex(response.headers["Last-Modified"], r" \d\d:\d\d:\d\d GMT$")
        response = self.ask("GET", "/dateless", version="1.15")
        self.assertEqual("no-cache", response.headers["Cache-Control"])
        self.assertNotIn("Last-Modified", response.headers)

    def test_absent(self) -> None:
        for path, version in (("/dated", "1.14"), ("/dateless", "1.14"), ("/things", "1.15"),
                              ("/missing", "1.39")):
            response = self.ask("GET", path, version=version)
            self.assertNotIn("Cache-Control", response.headers)
            self.assertNotIn("Last-Modified", response.headers)


class TestRequestIds(PipelineTestCase):
    def test_on_every_response(self) -> None:
        for ask in (
            {"path": "/"}, {"path": "/things"}, {"path": "/nowhere"}, {"path": "/broken"},
            {"path": "/things", "token": None}, {"path": "/healthcheck", "token": None},
            {"path": "/things", "version": "bogus"},
        ):
            response = self.ask("GET", **ask)
            self.assertRegex(
                response.headers["x-openstack-request-id"],
                re.compile(r"^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))

    def test_the_callers_id_is_only_logged(self) -> None:
        given = f"req-{_UUID}"
        response = self.ask("GET", "/things", headers={"X-Openstack-Request-Id": given})
        self.assertNotEqual(given, response.headers["x-openstack-request-id"])

    def test_access_log(self) -> None:
        with self.assertLogs("placement_core.http.requestlog", "INFO") as logs:
            response = self.ask(
                "GET", "/things?name=a", version="1.7", environ={"REMOTE_ADDR": "192.0.2.1"})
        (line,) = logs.output
        self.assertIn(
            '192.0.2.1 "GET /things?name=a" status: 200 len: '
            f'{len(response.body)} microversion: 1.7 request_id: '
            f'{response.headers["x-openstack-request-id"]} time: ', line)

    def test_log_lines_stay_lines(self) -> None:
        with self.assertLogs("placement_core.http.requestlog", "INFO") as logs:
            self.ask("GET", "/nowhere%0A127.0.0.1%20forged")
        self.assertNotIn("\n", logs.output[0])


class TestLiveness(PipelineTestCase):
    def test_needs_nothing(self) -> None:
        response = self.ask("GET", "/healthcheck", token=None, version="bogus")
        self.assertEqual(200, response.status_int)


def _blunt(status, error, environ, version) -> Response:
    """Make an error document of another kind."""
    return Response(status=status, json={"message": str(error), "coded": error.code})


class TestSeveralApis(base.HttpTestCase):
    """Each tree of paths has its own habits."""

    apis = (
        *table(*OPERATIONS),
        dataclasses.replace(
            API, prefix="/other/v1", render_document=_blunt,
            versions=Versions("other", mv.BASE, mv.TRAITS, default=mv.TRAITS),
            operations=(
                Operation("GET", "/things", _echo, _LIST, since=mv.TRAITS),
                Operation("GET", "/taken", _take, _SHOW),
                Operation("GET", "/broken", _break, _SHOW))),
        dataclasses.replace(
            API, prefix="/other/v1/deeper",
            operations=(Operation("GET", "/things", _echo, _LIST),)),
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
            Operation("GET", "/a", _echo, "nobody:knows"))

    def test_twice(self) -> None:
        self.assertRaisesRegex(
            ValueError, "GET /a is there twice", self.include,
            Operation("GET", "/a", _echo, _LIST), Operation("GET", "/a", _echo, _LIST))

    def test_policy_cannot_be_forgotten(self) -> None:
        self.assertRaises(TypeError, Operation, "GET", "/a", _echo)
