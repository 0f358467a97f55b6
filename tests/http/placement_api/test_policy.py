"""Who may do what: defaults, legacy defaults, scope and policy files."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
import types
from unittest import mock

from placement_core import app, errors
from placement_core.http import policy
from placement_core.http.operations import Operation, Reply
from placement_core.http.placement_api import policies
from tests import databases
from tests.http import base
from tests.http.placement_api.pipeline_cases import table


def _ok(_call: object) -> Reply:
    return Reply(status=204)


_API = table(
    Operation("GET", "/things", _ok, policies.PROVIDERS_LIST),
    Operation("POST", "/reshaper", _ok, policies.RESHAPE),
    Operation("GET", "/usages", _ok, policies.USAGES,
              target=lambda query: {"project_id": query.get("project_id", [None])[-1]}),
)


class PolicyTestCase(base.HttpTestCase):
    apis = _API

    def passes(
        self, method: str, path: str, roles: str, *, token: str = "bob:one", **more: str
    ) -> bool:
        headers = {"X-Roles": roles, **{k.replace("_", "-"): v for k, v in more.items()}}
        status = self.ask(method, path, token=token, headers=headers).status_int
        self.assertIn(status, (204, 403))
        return status == 204


class TestDefaults(PolicyTestCase):
    options = {("oslo_policy", "enforce_new_defaults"): True}

    def test_most_rules(self) -> None:
        for roles, passes in (("admin", True), ("service", True), ("member,service", True),
                              ("member,reader", False), ("", False)):
            self.assertEqual(passes, self.passes("GET", "/things", roles), roles)

    def test_reshape_is_for_services(self) -> None:
        self.assertTrue(self.passes("POST", "/reshaper", "service"))
        self.assertFalse(self.passes("POST", "/reshaper", "admin"))

    def test_usages_of_the_own_project(self) -> None:
        self.assertTrue(self.passes("GET", "/usages?project_id=one", "reader"))
        self.assertFalse(self.passes("GET", "/usages?project_id=two", "reader"))
        self.assertFalse(self.passes("GET", "/usages?project_id=one", "member"))
        self.assertFalse(self.passes("GET", "/usages", "reader"))
        self.assertFalse(self.passes("GET", "/usages?project_id=%ff", "reader"))
        self.assertTrue(self.passes("GET", "/usages?project_id=two", "admin"))
        self.assertFalse(self.passes("GET", "/usages", "reader", token="bob:None"))

    def test_system_scope_is_refused(self) -> None:
        response = self.ask("GET", "/things", headers={"OpenStack-System-Scope": "all"})
        self.assert_refused(403, policies.PROVIDERS_LIST, response)
        self.assertNotIn("Policy does not allow", response.text)

    def test_wording(self) -> None:
        self.assert_refused(
            403, "Policy does not allow placement:resource_providers:list to be performed. "
            "It takes the role admin or service.",
            self.ask("GET", "/things", token="bob"), "placement.undefined_code")

    def test_a_refusal_says_what_would_do(self) -> None:
        self.assert_refused(
            403, "It takes the role admin or service, or the role reader and a token for the "
            "project.", self.ask("GET", "/usages?project_id=two", headers={"X-Roles": "reader"}))
        self.assert_refused(403, "performed. It takes the role service.", self.ask(
            "POST", "/reshaper", headers={"X-Roles": "admin"}))
        self.assert_refused(403, "It takes a token for a project.", self.ask(
            "GET", "/things", headers={"OpenStack-System-Scope": "all"}))

    def test_answers_are_not_mixed_up(self) -> None:
        for _ in range(2):
            self.assertTrue(self.passes("GET", "/things", "admin"))
            self.assertFalse(self.passes("GET", "/things", "reader"))
            self.assertTrue(self.passes("GET", "/usages?project_id=one", "reader"))
            self.assertFalse(self.passes("GET", "/usages?project_id=two", "reader"))
            self.assertFalse(
                self.passes("GET", "/usages?project_id=one", "reader", token="eve:two"))


class TestLegacyDefaults(PolicyTestCase):
    options = {("oslo_policy", "enforce_new_defaults"): False}

    def test_reshape_is_for_admins_too(self) -> None:
        self.assertTrue(self.passes("POST", "/reshaper", "service"))
        self.assertTrue(self.passes("POST", "/reshaper", "admin"))
        self.assertFalse(self.passes("POST", "/reshaper", "member"))

    def test_the_rest_is_the_same(self) -> None:
        self.assertTrue(self.passes("GET", "/things", "service"))
        self.assertFalse(self.passes("GET", "/things", "reader"))
        self.assertFalse(self.passes("GET", "/usages?project_id=two", "reader"))


class TestPolicyFile(PolicyTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "policy.yaml")
        self.folder = pathlib.Path(folder.name, "policy.d")
        self.options = {("oslo_policy", "policy_file"): str(self.path),
                        ("oslo_policy", "policy_dirs"): [str(self.folder)]}
        self.seconds = 0
        super().setUp()

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.app = app.make_app(self.conf, apis=self.apis)

    def test_open_to_everyone(self) -> None:
        self.write(f'"{policies.PROVIDERS_LIST}": "@"\n')
        self.assertTrue(self.passes("GET", "/things", ""))
        self.assertFalse(self.passes("POST", "/reshaper", ""))
        self.assertEqual(403, self.ask(
            "GET", "/things", headers={"OpenStack-System-Scope": "all"}).status_int)

    def test_aliases(self) -> None:
        self.write(
            f'"{policies.PROVIDERS_LIST}": "rule:admin_or_project_reader_or_service_api"\n'
            f'"{policies.RESHAPE}": "rule:admin_api or role:operator"\n')
        self.assertTrue(self.passes("GET", "/things", "reader"))
        self.assertTrue(self.passes("POST", "/reshaper", "operator"))
        self.assertFalse(self.passes("POST", "/reshaper", "service"))

    def test_an_alias_replaced(self) -> None:
        self.write('"admin_or_service_api": "role:operator"\n')
        self.assertTrue(self.passes("GET", "/things", "operator"))
        self.assertFalse(self.passes("GET", "/things", "admin"))

    def test_a_change_acts_without_a_restart(self) -> None:
        self.write('"placement:resource_providers:list": "role:one"\n')
        self.assertTrue(self.passes("GET", "/things", "one"))
        self.path.write_text('"placement:resource_providers:list": "role:two"\n')
        self.look_again()
        self.assertFalse(self.passes("GET", "/things", "one"))
        self.assertTrue(self.passes("GET", "/things", "two"))

    def test_a_broken_change_changes_nothing(self) -> None:
        self.write('"placement:resource_providers:list": "role:one"\n')
        self.path.write_text("{ not yaml")
        self.look_again()
        self.assertTrue(self.passes("GET", "/things", "one"))
        self.assertFalse(self.passes("GET", "/things", "admin"))

    def test_a_broken_file_of_the_folder_changes_nothing(self) -> None:
        """Neither its own rules nor those of the others are lost, now or at the next look."""
        self.folder.mkdir()
        override = self.folder / "20.yaml"
        for text in (f'"{policies.RESHAPE}": "role:one"\n', "{}"):
            override.write_text('"placement:resource_providers:list": "role:one"\n')
            self.write(text)
            override.write_text("{ not yaml")
            self.touch(override)
            for _ in range(3):
                self.look()
                self.assertTrue(self.passes("GET", "/things", "one"))
                self.assertFalse(self.passes("GET", "/things", "admin"))
                self.assertEqual(text != "{}", self.passes("POST", "/reshaper", "one"))
            override.write_text('"placement:resource_providers:list": "role:two"\n')
            self.touch(override)
            self.look()
            self.assertTrue(self.passes("GET", "/things", "two"))
            self.assertFalse(self.passes("GET", "/things", "one"))
            self.assertEqual(text != "{}", self.passes("POST", "/reshaper", "one"))

    def test_a_file_that_breaks_between_two_looks(self) -> None:
        """What is decided until the next look is not decided by half of the rules."""
        self.write('"placement:resource_providers:list": "role:one"\n')
        self.look()
        self.path.write_text("{ not yaml")
        self.touch(self.path)
        self.assertTrue(self.passes("GET", "/things", "one"))
        self.assertFalse(self.passes("GET", "/things", "admin"))

    def test_a_broken_file_stops_the_start(self) -> None:
        self.assertRaisesRegex(
            errors.ConfigurationError, r"\[oslo_policy\] policy_file = .*policy.yaml: expected",
            self.write, "{ not yaml")

    def look_again(self) -> None:
        """Let the service look at its policy files, as it does each second, and find another."""
        self.touch(self.path)
        self.look()

    def touch(self, path: pathlib.Path) -> None:
        self.seconds += 10
        later = time.time() + self.seconds
        os.utime(path, (later, later))

    def look(self) -> None:
        self.seconds += 10
        later = time.monotonic() + self.seconds
        with mock.patch.object(policy, "time", types.SimpleNamespace(monotonic=lambda: later)):
            self.ask("GET", "/things")


class TestRulesOverHttp(base.HttpTestCase):
    """A rule that asks a remote service is asked each time."""

    apis = _API

    def test_not_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "policy.yaml")
            path.write_text(f'"{policies.PROVIDERS_LIST}": "http://127.0.0.1:9/check"\n')
            conf = base.configuration(
                databases.settings("sqlite").connection,
                {("oslo_policy", "policy_file"): str(path)})
            from placement_core.context import Identity
            from placement_core.http.policy import Authorizer

            authorizer = Authorizer(conf, policies.RULES)
            self.assertRaises(
                Exception, authorizer.check, policies.PROVIDERS_LIST, Identity(user_id="u"))
            self.assertEqual(0, len(authorizer._answers))
