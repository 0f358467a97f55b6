"""Limits of a remote Keystone: what is asked, outages, refusals and pages."""

from __future__ import annotations

import dataclasses
import functools
import json

from placement_core import errors
from placement_plugins import keystone
from tests import proxies, races
from tests.plugins import remote
from tests.plugins.keystone_limits_cases import (
    CACHE_SECONDS,
    MAX_STALE_SECONDS,
    KeystoneLimitsTestCase,
)


class TestRequests(KeystoneLimitsTestCase):
    """How often Keystone is asked."""

    def setUp(self) -> None:
        super().setUp()
        self.register(cores=20, ram=30)
        self.set(self.project_id, cores=5)

    def test_once_while_fresh(self) -> None:
        self.effective()
        self.assert_asked(*self.paths())
        self.clock.forward(CACHE_SECONDS - 1)
        self.effective()
        self.assert_asked()
        self.clock.forward(1)
        self.effective()
        self.assert_asked(*self.paths())

    def test_one_question_for_each_node(self) -> None:
        self.effective(self.domain_id, self.project_id)
        self.assert_asked(*self.paths(self.domain_id, self.project_id))
        other = self.project(self.domain_id)["id"]
        self.effective(self.domain_id, other)
        self.assert_asked(self.paths(other)[-1])

    def test_that_there_is_nothing_is_known_too(self) -> None:
        other = self.project(self.domain_id)["id"]
        self.effective(other)
        self.proxy.asked()
        for _ in range(3):
            self.assertEqual({}, self.effective(other).overrides.get(other, {}))
        self.assert_asked()

    def test_changes_show_after_their_time(self) -> None:
        self.effective()
        limit_id = self.set(self.project_id, ram=6)
        self.admin.change("limits", limit_id, resource_limit=7)
        self.assertEqual({"cores": 5}, self.effective().overrides[self.project_id])
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual({"cores": 5, "ram": 7}, self.effective().overrides[self.project_id])
        self.admin.remove("limits", limit_id)
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual({"cores": 5}, self.effective().overrides[self.project_id])

    def tags(self) -> list[str]:
        """Return the tags that were sent since the last time."""
        sent = [request.headers.get("If-None-Match", "") for request in self.proxy.requests
                if request.method == "GET"]
        self.proxy.requests.clear()
        return sent

    def test_tags_are_sent_to_who_gives_them(self) -> None:
        self.proxy.tags = True
        before = self.effective()
        self.assertEqual({""}, set(self.tags()))
        for _ in range(2):
            self.clock.forward(CACHE_SECONDS)
            self.assertEqual(before, self.effective())
            sent = self.tags()
            self.assertEqual(3, len(sent))
            self.assertNotIn("", sent)
        self.set(self.project_id, ram=8)
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual({"cores": 5, "ram": 8}, self.effective().overrides[self.project_id])

    def test_no_tags_to_who_gives_none(self) -> None:
        """As Keystone itself."""
        self.effective()
        self.clock.forward(CACHE_SECONDS)
        self.effective()
        self.assertEqual({""}, set(self.tags()))

    def test_threads(self) -> None:
        outcomes = races.run(*(functools.partial(self.effective) for _ in range(8)))
        self.assertEqual([self.effective()] * 8, outcomes)
        self.assert_asked(*self.paths())


class TestOutages(KeystoneLimitsTestCase):
    """A Keystone that does not answer."""

    def setUp(self) -> None:
        super().setUp()
        self.register(cores=20)
        self.set(self.project_id, cores=5)
        self.driver = self.make(timeout=remote.SHORT_TIMEOUT)

    def assert_works_through(self) -> None:
        self.clock.forward(MAX_STALE_SECONDS - remote.LONG)
        self.assertEqual(self.known, self.effective())
        self.clock.forward(remote.LONG)
        error = self.assertRaises(errors.Unavailable, self.effective)
        self.assertIn("[limits] max_stale_seconds = 600", str(error))

    def assert_recovers(self) -> None:
        found = self.effective()
        self.assertEqual(self.known, found)
        self.proxy.asked()
        self.effective()
        self.assert_asked()

    def test_answers_that_are_none(self) -> None:
        for name, failure in remote.failures(self.proxy, self.clock).items():
            with self.subTest(name):
                self.known = self.effective()
                self.proxy.instead = failure
                self.assert_works_through()
                remote.end_failure(self.proxy, self.clock, name)
                self.assert_recovers()

    def test_nobody_listens(self) -> None:
        self.known = self.effective()
        self.proxy.close()
        self.assert_works_through()
        self.proxy.open()
        self.assert_recovers()

    def test_nothing_is_known(self) -> None:
        """Not even a token."""
        for name, failure in remote.failures(self.proxy, self.clock).items():
            with self.subTest(name):
                self.driver = self.make(timeout=remote.SHORT_TIMEOUT)
                self.proxy.instead = failure
                error = self.assertRaises(errors.Unavailable, self.effective)
                self.assertEqual("Keystone does not answer, and what it would say is not known.",
                                 str(error))
                remote.end_failure(self.proxy, self.clock, name)
                self.assertEqual({"cores": 20}, self.effective().defaults)

    def test_of_some_nothing_is_known(self) -> None:
        self.effective()
        other = self.project(self.domain_id)["id"]
        self.proxy.close()
        self.effective()
        self.assertRaises(errors.Unavailable, self.effective, other)
        self.proxy.open()
        self.assertEqual({}, self.effective(other).overrides.get(other, {}))

    def test_a_change_during_the_outage(self) -> None:
        self.effective()
        self.proxy.close()
        self.set(self.domain_id, cores=9)
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual({"cores": 20}, self.effective().defaults)
        self.proxy.open()
        found = self.effective(self.domain_id, self.project_id)
        self.assertEqual({"cores": 9}, found.overrides[self.domain_id])


class TestRefusals(KeystoneLimitsTestCase):
    """A login that may not see everything is an error, never "no limits"."""

    def setUp(self) -> None:
        super().setUp()
        self.register(cores=20)
        self.set(self.project_id, cores=5)

    def assert_refused(self, expected: str) -> None:
        error = self.assertRaises(errors.Unavailable, self.effective)
        self.assertIsInstance(error, keystone.KeystoneRefuses)
        self.assertIn(expected, str(error))

    def test_a_wrong_password(self) -> None:
        self.driver = self.make(password="guessed")
        self.assert_refused("Keystone refuses the login of [keystone_client]")

    def test_a_user_who_sees_a_part(self) -> None:
        """Keystone answers 200 and an empty list to such a one."""
        own = self.project("default")["id"]
        for role in ("member", "reader"):
            self.driver = self.make(
                username=self.user(role, own), project_name=None, project_id=own)
            self.assert_refused("only a part of the limits and projects")
        self.driver = self.make(
            username=self.user("member", own), project_name=None, project_domain_id=None)
        self.assert_refused("only a part")

    def test_users_who_see_all(self) -> None:
        own = self.project("default")["id"]
        found = self.effective()
        for client in (
            {"username": self.user("admin", own), "project_name": None, "project_id": own},
            {"project_name": None, "project_domain_id": None, "system_scope": "all"},
        ):
            self.driver = self.make(**client)
            self.assertEqual(found, self.effective())

    def test_a_user_who_may_not_list_domains(self) -> None:
        own = self.project("default")["id"]
        self.driver = self.make(
            username=self.user("service", own), project_name=None, project_id=own)
        self.assert_refused("Keystone refuses GET /domains to the user of [keystone_client] "
                            "(403): it needs the role reader")

    def test_a_token_that_was_good(self) -> None:
        self.effective()
        self.clock.forward(CACHE_SECONDS)
        for status in (401, 403):
            self.proxy.instead = lambda request: proxies.Answer(
                status, json.dumps({"error": {"code": status, "message": "no", "title": ""}})
                .encode()) if request.method == "GET" and "limits" in request.path else None
            self.assert_refused(f"({status})")

    def test_an_expired_token_is_renewed(self) -> None:
        self.effective()
        self.clock.forward(CACHE_SECONDS)
        refused = []

        def once(request: proxies.Request) -> proxies.Answer | None:
            if not refused and "limits" in request.path:
                refused.append(request)
                return proxies.Answer(401, b'{"error": {"code": 401, "message": ""}}')
            return None

        self.proxy.instead = once
        self.assertEqual({"cores": 20}, self.effective().defaults)
        self.assertEqual(1, len(refused))

    def test_what_keystone_refuses_otherwise(self) -> None:
        self.proxy.instead = lambda request: proxies.Answer(
            400, b'{"error": {"code": 400, "message": "Bad filter.", "title": ""}}'
        ) if "registered_limits" in request.path else None
        self.assert_refused("Keystone refuses GET /registered_limits with 400: Bad filter.")


class TestPages(KeystoneLimitsTestCase):
    """Answers in pieces."""

    def setUp(self) -> None:
        super().setUp()
        self.register(a=1, b=2, c=3, d=4, e=5)

    def in_pages(self, request: proxies.Request) -> proxies.Answer | None:
        """Answer as a Keystone whose pages can be followed."""
        if "/registered_limits?" not in request.path:
            return None
        path, _, marker = request.path.partition("&marker=")
        rows = [row for row in self.admin.list("registered_limits")
                if row["service_id"] == self.service_id]
        after = [row["id"] for row in rows].index(marker.split("&")[0]) + 1 if marker else 0
        page = rows[after:after + 2]
        more = after + 2 < len(rows)
        document = {"registered_limits": page, "links": {
            "next": f"http://elsewhere.example{path}&marker={page[-1]['id']}&limit=2"
            if more else None, "self": "", "previous": None}}
        if more:
            document["truncated"] = True
        return proxies.Answer(200, json.dumps(document).encode(), (("ETag", '"page"'),))

    def test_pages_are_followed(self) -> None:
        self.proxy.instead = self.in_pages
        self.assertEqual({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, self.effective().defaults)
        self.assertEqual(3, len([p for p in self.proxy.asked() if "registered" in p]))

    def test_the_tag_of_a_page_is_not_that_of_all(self) -> None:
        self.proxy.instead = self.in_pages
        self.effective()
        self.proxy.requests.clear()
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual(5, len(self.effective().defaults))
        self.assertEqual([None] * 3, [
            request.headers.get("If-None-Match") for request in self.proxy.requests
            if "registered" in request.path])

    def test_the_same_page_again_and_again(self) -> None:
        """Keystone's limits come in pages that cannot be followed (spec limits, B2)."""
        def again(request: proxies.Request) -> proxies.Answer | None:
            if "/registered_limits?" not in request.path:
                return None
            return self.in_pages(dataclasses.replace(
                request, path=request.path.partition("&marker=")[0]))

        self.proxy.instead = again
        error = self.assertRaises(errors.Unavailable, self.effective)
        self.assertIn("Keystone cuts its answer to GET /registered_limits off after 2 objects "
                      "and does not give the rest", str(error))
