"""People of a real Keystone log in, and see what policy lets them see."""

from __future__ import annotations

import contextlib
import json
import unittest
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar
from unittest import mock

from placement_core import services
from placement_core.catalog import domains, loading, projects
from placement_core.http.dashboard import paths
from placement_core.limits import registered
from placement_core.placement.records import AllocationWrite
from placement_core.testing import factories
from tests import keystone_service, server_programs
from tests.browser import cases, clouds, proxying
from tests.keystone_service import new_name

_PASSWORD = "pass of a person"
_MOUNT = "/cloud"
_PATHS = ("/hosts", "/leases", "/projects", "/explain", "/health")
_ROLES = ("admin", "member", "reader")


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestLogin(cases.BrowserTestCase):
    """Two projects, of which most people have a role in the first.

    :cvar users: {role: name of a user who has it in the first project}.
    :cvar url: of the overview, behind a proxy that ends TLS and has the service below a path.
    """

    browser_arguments = proxying.TRUST
    users: ClassVar[dict[str, str]]
    url: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Make the people, and serve the projects."""
        super().setUpClass()
        cls.keystone = keystone_service.shared()
        cls.admin = keystone_service.admin(cls.keystone)
        cls.projects = [cls.admin.make("projects", name=new_name("project"), domain_id="default")
                        for _ in range(2)]
        roles = {role["name"]: role["id"] for role in cls.admin.list("roles")}
        cls.users = {}
        for role, project in (
            *((role, cls.projects[0]) for role in _ROLES), ("stranger", cls.projects[1]),
        ):
            user = cls.admin.make(
                "users", name=new_name(role), password=_PASSWORD, domain_id="default")
            role_id = roles["member" if role == "stranger" else role]
            cls.admin.send("PUT", f"/projects/{project['id']}/users/{user['id']}/roles/{role_id}")
            cls.users[role] = user["name"]
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(
                "os.environ", cls.keystone.make_authtoken_environment()))
            dashboard = clouds.Dashboard(
                cls._fill, {("api", "auth_strategy"): "keystone", **proxying.OPTIONS})
            dashboard.setUp()
            stack.callback(dashboard.cleanUp)
            proxy = proxying.TLSProxy(dashboard.origin.removeprefix("http://"), _MOUNT)
            try:
                proxy.setUp()
            except server_programs.NotInstalledError as error:
                raise unittest.SkipTest(str(error)) from error
            stack.callback(proxy.cleanUp)
            cls.addClassCleanup(stack.pop_all().close)
        cls.url = f"{proxy.origin}{_MOUNT}{paths.PREFIX}"

    @classmethod
    def _fill(cls, parts: services.Services) -> None:
        """Put a host into the database, and of each project a server."""
        ctx = parts.context()
        domains.create(ctx, name="Default", id="default")
        host = factories.provider(ctx, "host1", inventory={"VCPU": 16})
        (service,) = loading.load(ctx, {"services": [{"type": "compute", "name": "nova"}]})
        registered.create_many(ctx, parts.catalog, [
            {"service_id": service.id, "resource_name": "class:VCPU", "default_limit": 10}])
        for project in cls.projects:
            projects.create(ctx, name=project["name"], domain_id="default", id=project["id"])
            parts.claims.replace(ctx, [AllocationWrite(
                str(uuid.uuid4()), {host.uuid: {"VCPU": 1}}, project_id=project["id"],
                user_id="jane", consumer_type="INSTANCE")])

    def setUp(self) -> None:
        super().setUp()
        self.page = self.make_page()

    def log_in(self, user: str, project: Mapping[str, Any], password: str = _PASSWORD) -> None:
        """Fill in the form, and send it."""
        for field, value in (
                ("User", user), ("Password", password), ("Project", project["name"])):
            self.page.get_by_label(field, exact=True).fill(value)
        self.page.get_by_role("button", name="Log in").first.click()

    def test_a_session(self) -> None:
        """It begins at the page that was asked for, and ends for good."""
        asked = f"{self.url}?resources=VCPU:1"
        self.page.goto(asked)
        self.assertTrue(self.page.url.startswith(f"{self.url}/login"))
        self.assert_accessible(self.page)
        self.log_in(self.users["reader"], self.projects[0])
        self.assertEqual(asked, self.page.url)
        (cookie,) = self.page.context.cookies()
        self.assertEqual(
            (True, True, "Strict", f"{_MOUNT}{paths.PREFIX}"),
            (cookie["httpOnly"], cookie["secure"], cookie["sameSite"], cookie["path"]))
        self.assertIn(self.users["reader"], self.page.inner_text(".me"))
        self.page.get_by_role("button", name="Log out").click()
        self.page.wait_for_url("**/login")
        self.assertEqual([], self.page.context.cookies())
        self.assertEqual(404, self.admin.send(
            "GET", "/auth/tokens", headers={"X-Subject-Token": cookie["value"]})[0])

    def test_a_wrong_password(self) -> None:
        """The form says so, and has what was typed, but not the password."""
        self.page.goto(self.url)
        self.log_in(self.users["reader"], self.projects[0], "guessed")
        self.page.get_by_role("alert").wait_for()
        self.assertEqual(
            (self.users["reader"], ""),
            (self.page.get_by_label("User", exact=True).input_value(),
             self.page.get_by_label("Password", exact=True).input_value()))
        self.assertEqual([], self.page.context.cookies())
        self.assertEqual(1, len(self.forgive_reports("401")))

    def test_the_session_ends_while_somebody_looks(self) -> None:
        """The page that is refreshed becomes the login."""
        self.page.goto(self.url)
        self.log_in(self.users["reader"], self.projects[0])
        self.page.locator(".me").wait_for()
        self.page.context.clear_cookies()
        self.page.wait_for_url("**/login?*")

    def test_an_application_credential(self) -> None:
        token = self.admin.log_in(
            {"name": self.users["member"], "domain": {"id": "default"}, "password": _PASSWORD},
            {"project": {"id": self.projects[0]["id"]}})
        user = json.loads(self.admin.send(
            "GET", "/auth/tokens", headers={"X-Subject-Token": token})[2])["token"]["user"]
        credential = json.loads(self.admin.send(
            "POST", f"/users/{user['id']}/application_credentials",
            {"application_credential": {"name": new_name("credential")}},
            token=token)[2])["application_credential"]
        self.page.goto(self.url)
        self.page.get_by_label("Id", exact=True).fill(credential["id"])
        self.page.get_by_label("Secret", exact=True).fill(credential["secret"])
        self.page.get_by_role("button", name="Log in").last.click()
        self.assertIn(self.users["member"], self.page.inner_text(".me"))

    def test_what_they_see(self) -> None:
        """As many projects as the APIs tell them of, and hosts if policy says so."""
        ours, theirs = (project["name"] for project in self.projects)
        seen, refused = {}, {}
        for role, user in self.users.items():
            self.page.context.clear_cookies()
            self.page.goto(self.url)
            self.log_in(user, self.projects[role == "stranger"])
            self.page.locator(".me").wait_for()
            text, statuses = self.page.content(), {}
            for path in _PATHS:
                response = self.page.goto(f"{self.url}{path}")
                assert response is not None
                statuses[path] = response.status
                text += self.page.content()
            seen[role] = {name for name in (ours, theirs, "host1") if name in text}
            refused[role] = {path for path, status in statuses.items() if status != 200}
        self.assertEqual({
            "admin": {ours, theirs, "host1"}, "member": {ours}, "reader": {ours},
            "stranger": {theirs}}, seen)
        of_administrators = {"/hosts", "/explain"}
        self.assertEqual({
            "admin": set(), "member": of_administrators, "reader": of_administrators,
            "stranger": of_administrators}, refused)
        self.forgive_reports("403 (Forbidden)")
