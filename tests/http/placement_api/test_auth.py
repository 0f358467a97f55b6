"""Who is let in, and as whom."""

from __future__ import annotations

import fixtures

from placement_core import app, errors
from placement_core.http import identity
from placement_core.http.operations import Call, Operation, Reply
from placement_core.http.placement_api import policies
from tests import databases
from tests.http import base
from tests.http.placement_api.pipeline_cases import table


def _who(call: Call) -> Reply:
    caller = call.ctx.identity
    return Reply(body={
        "user": caller.user_id, "project": caller.project_id, "roles": caller.roles,
        "scope": caller.system_scope, "domain": caller.domain_id,
    })


_API = table(
    Operation("GET", "/", _who, policy=None),
    Operation("GET", "/public", _who, policy=None),
    Operation("GET", "/things", _who, policies.PROVIDERS_LIST),
)


class TestNoAuth(base.HttpTestCase):
    apis = _API

    def who(self, token: str, **headers: str) -> tuple[object, ...]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        shown = self.ask("GET", "/public", token=token, headers=sent).json
        return shown["user"], shown["project"], shown["roles"], shown["scope"]

    def test_token(self) -> None:
        self.assertEqual(("admin", "admin", ["admin"], None), self.who("admin"))
        self.assertEqual(("admin", "one", ["admin"], None), self.who("admin:one"))
        self.assertEqual(("bob", "bob", [], None), self.who("bob"))
        self.assertEqual(("bob", "bob", [], None), self.who("bob:"))
        self.assertEqual(("bob", "one:two", [], None), self.who("bob:one:two"))

    def test_headers(self) -> None:
        self.assertEqual(
            ("bob", "bob", ["reader", "member"], None), self.who("bob", X_Roles="reader, member"))
        self.assertEqual(("admin", "admin", [], None), self.who("admin", X_Roles=""))
        self.assertEqual(
            ("bob", "two", [], None), self.who("bob:one", X_Project_Id="two"))
        self.assertEqual(
            ("admin", None, ["admin"], "all"), self.who("admin", OpenStack_System_Scope="all"))

    def test_no_token(self) -> None:
        for token in (None, ""):
            for path in ("/things", "/public", "/nowhere"):
                response = self.ask("GET", path, token=token, version="bogus")
                self.assertEqual(401, response.status_int)
                self.assertEqual("401 Unauthorized", response.json["code"])
                self.assertEqual("Unauthorized", response.json["title"])
                self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_root_is_public(self) -> None:
        self.assertEqual(200, self.ask("GET", "/", token=None).status_int)
        response = self.ask(
            "GET", "/", token=None, environ={"SCRIPT_NAME": "/placement", "PATH_INFO": ""})
        self.assertEqual(200, response.status_int)

    def test_a_mount_point_hides_nothing(self) -> None:
        response = self.ask("GET", "/things", token=None, environ={"SCRIPT_NAME": "/"})
        self.assertEqual(401, response.status_int)


class TestKeystoneHeaders(base.HttpTestCase):
    """What the headers that keystonemiddleware sets are read as."""

    def caller(self, **environ: str) -> tuple[int, object]:
        statuses: list[int] = []

        def application(environ, start_response):
            start_response("200 OK", [])
            return [identity.get_identity(environ)]

        with_identity = identity.KeystoneIdentity(application, identity.PublicPaths(_API))
        found = list(with_identity(
            dict(environ), lambda status, headers: statuses.append(int(status[:3]))))
        return statuses[0], found[0]

    def test_project_token(self) -> None:
        status, caller = self.caller(
            HTTP_X_USER_ID="u", HTTP_X_PROJECT_ID="p", HTTP_X_ROLES="admin,member")
        self.assertEqual(200, status)
        self.assertEqual(
            identity.Identity(user_id="u", project_id="p", roles=("admin", "member")), caller)

    def test_other_scopes(self) -> None:
        _, caller = self.caller(HTTP_X_USER_ID="u", HTTP_OPENSTACK_SYSTEM_SCOPE="all")
        self.assertEqual("all", caller.system_scope)
        _, caller = self.caller(HTTP_X_USER_ID="u", HTTP_X_DOMAIN_ID="d")
        self.assertEqual("d", caller.domain_id)

    def test_nobody(self) -> None:
        self.assertEqual(401, self.caller()[0])


class TestKeystone(base.HttpTestCase):
    """The strategy ``keystone`` without a Keystone: nobody gets in, nothing breaks."""

    apis = _API
    options = {
        ("api", "auth_strategy"): "keystone",
    }

    def setUp(self) -> None:
        # These options exist only once keystonemiddleware has registered them,
        # so they come from the environment, as an operator might give them.
        for name, value in (
            ("AUTH_TYPE", "password"), ("AUTH_URL", "http://127.0.0.1:9/v3"),
            ("USERNAME", "placement"), ("PASSWORD", "secret"), ("PROJECT_NAME", "service"),
            ("USER_DOMAIN_ID", "default"), ("PROJECT_DOMAIN_ID", "default"),
            ("WWW_AUTHENTICATE_URI", "http://127.0.0.1:9/v3"), ("HTTP_REQUEST_MAX_RETRIES", "0"),
        ):
            self.useFixture(
                fixtures.EnvironmentVariable(f"OS_KEYSTONE_AUTHTOKEN__{name}", value))
        super().setUp()

    def test_no_token(self) -> None:
        response = self.ask("GET", "/things", token=None)
        self.assertEqual(401, response.status_int)
        self.assertIn("http://127.0.0.1:9/v3", response.headers["WWW-Authenticate"])
        self.assertIn("x-openstack-request-id", response.headers)

    def test_forged_identity(self) -> None:
        response = self.ask("GET", "/things", token=None, headers={
            "X-User-Id": "admin", "X-Roles": "admin", "X-Identity-Status": "Confirmed"})
        self.assertEqual(401, response.status_int)

    def test_keystone_is_away(self) -> None:
        self.assertEqual(503, self.ask("GET", "/things").status_int)

    def test_public(self) -> None:
        self.assertEqual(200, self.ask("GET", "/", token=None).status_int)
        self.assertEqual(200, self.ask("GET", "/healthcheck", token=None).status_int)


class TestKeystoneUnconfigured(base.HttpTestCase):
    def test_says_what_is_missing(self) -> None:
        conf = base.configuration(
            databases.settings("sqlite").connection, {("api", "auth_strategy"): "keystone"})
        self.assertRaisesRegex(
            errors.ConfigurationError, r"\[keystone_authtoken\] auth_type: expected",
            app.make_app, conf, apis=_API)
