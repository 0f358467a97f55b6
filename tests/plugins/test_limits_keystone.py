"""The limit driver ``keystone`` against a real Keystone: answers, requests, outages."""

from __future__ import annotations

import dataclasses
import functools
import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from placement_core import amounts, errors
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.catalog import Region, Service
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName
from placement_core.quota import limit_sources
from placement_core.quota.errors import AmbiguousRegion
from placement_core.testing import fakes, limits as contract
from placement_plugins import keystone
from placement_plugins.limits.keystone import KeystoneLimits
from tests import proxies, races
from tests.plugins import remote

CACHE_SECONDS = 30
MAX_STALE_SECONDS = 600
FRESHNESS = {"cache_seconds": CACHE_SECONDS, "max_stale_seconds": MAX_STALE_SECONDS}


class KeystoneLimitsTest(remote.RemoteTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service_id = self.service()["id"]
        self.region_id = self.region()["id"]
        self.domain_id = self.domain()["id"]
        self.project_id = self.project(self.domain_id)["id"]
        self.driver = self.make()

    def make(self, **client: object) -> KeystoneLimits:
        return KeystoneLimits(self.conf(limits=FRESHNESS, client=client), clock=self.clock)

    def register(self, region_id: str | None = "", **defaults: int) -> None:
        for name, value in defaults.items():
            self.admin.make(
                "registered_limits", service_id=self.service_id, resource_name=name,
                region_id=self.region_id if region_id == "" else region_id, default_limit=value)

    def set(self, node_id: str, region_id: str | None = "", **values: int) -> str:
        kind = "domain_id" if node_id == self.domain_id else "project_id"
        for name, value in values.items():
            made = self.admin.make(
                "limits", service_id=self.service_id, resource_name=name, resource_limit=value,
                region_id=self.region_id if region_id == "" else region_id, **{kind: node_id})
        return made["id"]

    def effective(self, *node_ids: str, region_id: str | None = "") -> EffectiveLimits:
        return self.driver.effective(
            self.ctx, node_ids or [self.project_id], service_id=self.service_id,
            region_id=self.region_id if region_id == "" else region_id)

    def paths(self, *node_ids: str) -> list[str]:
        """Return what has to be asked about nodes when nothing is known."""
        of = f"service_id={self.service_id}&region_id={self.region_id}"
        return ["/domains", f"/registered_limits?{of}", *(
            f"/limits?{of}&{'domain' if id_ == self.domain_id else 'project'}_id={id_}"
            for id_ in node_ids or [self.project_id])]

    def assert_asked(self, *expected: str) -> None:
        self.assertEqual(sorted(expected), sorted(self.proxy.asked()))


class _Renamed(LimitDriver):
    """The driver for whom Keystone has other ids than the contract: it chooses them itself.

    :param names: {the contract's id: Keystone's}.
    """

    def __init__(self, driver: LimitDriver, names: Mapping[str, str]) -> None:
        self._driver = driver
        self._names = names

    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        names = {self._names.get(id_, id_): id_ for id_ in node_ids}
        found = self._driver.effective(
            ctx, list(names), service_id=self._names.get(service_id, service_id),
            region_id=self._names.get(region_id or "", region_id))
        return EffectiveLimits(
            found.defaults, {names[id_]: limits for id_, limits in found.overrides.items()})

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        return self._driver.user_limits(
            ctx, self._names.get(project_id, project_id), user_id,
            service_id=self._names.get(service_id, service_id), region_id=region_id)

    def registered(self, ctx: Context) -> Collection[RegisteredName]:
        """Return those of the contract: other tests register limits in the same Keystone."""
        ids = {id_: name for name, id_ in self._names.items()}
        return [
            RegisteredName(ids[each.service_id], each.region_id and ids[each.region_id],
                           each.resource_name)
            for each in self._driver.registered(ctx) or () if each.service_id in ids]


class TestContract(contract.LimitsContract, remote.RemoteTestCase):
    """What every limit driver has to do."""

    knows_users = False

    def given(
        self, registered: contract.Registered, limits: contract.Set,
        user_limits: contract.SetForUsers,
    ) -> tuple[LimitDriver, Context]:
        names = {
            contract.SERVICE: self.service()["id"], contract.OTHER_SERVICE: self.service()["id"],
            contract.REGION: self.region()["id"], contract.OTHER_REGION: self.region()["id"],
            contract.DOMAIN: self.domain()["id"],
        }
        domain_id = names[contract.DOMAIN]
        for id_, parent_id in ((contract.PROJECT, contract.DOMAIN),
                               (contract.OTHER_PROJECT, contract.DOMAIN),
                               (contract.CHILD, contract.PROJECT)):
            names[id_] = self.project(names[parent_id], domain_id)["id"]

        def of(service_id: str, region_id: str | None, name: str) -> dict[str, Any]:
            return {"service_id": names[service_id], "region_id": names.get(region_id or ""),
                    "resource_name": name}

        for key, value in registered.items():
            self.admin.make("registered_limits", **of(*key), default_limit=value)
        for (node_id, *key), value in limits.items():
            kind = "domain_id" if node_id == contract.DOMAIN else "project_id"
            self.admin.make(
                "limits", **of(*key), resource_limit=value, **{kind: names[node_id]})
        return _Renamed(KeystoneLimits(self.conf(), clock=self.clock), names), self.ctx


class TestAnswers(KeystoneLimitsTest):
    """What Keystone keeps is what the driver says."""

    def test_defaults_and_overrides(self) -> None:
        self.register(cores=20, ram=-1, disk=0)
        self.set(self.project_id, cores=0, disk=-1)
        self.set(self.domain_id, cores=40)
        other = self.project(self.domain_id)["id"]
        found = self.effective(self.domain_id, self.project_id, other)
        self.assertEqual({"cores": 20, "ram": amounts.UNLIMITED, "disk": 0}, found.defaults)
        self.assertEqual({"cores": 0, "disk": amounts.UNLIMITED},
                         found.overrides[self.project_id])
        self.assertEqual({"cores": 40}, found.overrides[self.domain_id])
        self.assertEqual({}, found.overrides.get(other, {}))

    def test_no_region_is_a_region_of_its_own(self) -> None:
        self.register(cores=20)
        self.set(self.project_id, cores=5)
        self.assertEqual({}, self.effective(region_id=None).defaults)
        self.register(region_id=None, cores=7, ram=8)
        self.set(self.project_id, region_id=None, ram=9)
        self.clock.forward(CACHE_SECONDS)
        found = self.effective(region_id=None)
        self.assertEqual({"cores": 7, "ram": 8}, found.defaults)
        self.assertEqual({self.project_id: {"ram": 9}}, found.overrides)
        found = self.effective()
        self.assertEqual({"cores": 20}, found.defaults)
        self.assertEqual({self.project_id: {"cores": 5}}, found.overrides)

    def test_other_services_do_not_matter(self) -> None:
        self.register(cores=20)
        other = self.service()["id"]
        self.admin.make("registered_limits", service_id=other, region_id=self.region_id,
                        resource_name="images", default_limit=1)
        self.assertEqual({"cores": 20}, self.effective().defaults)

    def test_what_nobody_can_have(self) -> None:
        """Placement's project ids are any text; Keystone refuses to look for most."""
        self.register(cores=20)
        odd = ["", "a b", "ä", "x" * 65, "a/b", "\0", uuid.uuid4().hex]
        found = self.effective(*odd)
        self.assertEqual({"cores": 20}, found.defaults)
        self.assertEqual([], [each for each in found.overrides.values() if each])
        for service_id, region_id in (
                ("compute", None), ("", None), (uuid.uuid4().hex, None),
                (self.service_id, ""), (self.service_id, "nowhere"),
                (self.service_id, "x" * 300), (self.service_id, "é/&=")):
            found = self.driver.effective(
                self.ctx, [self.project_id], service_id=service_id, region_id=region_id)
            self.assertEqual({}, dict(found.defaults), (service_id, region_id))

    def test_users_have_no_limits(self) -> None:
        self.assertEqual({}, self.driver.user_limits(
            self.ctx, self.project_id, "user", service_id=self.service_id, region_id=None))
        self.assertEqual([], self.proxy.asked())

    def test_endpoint_of_the_catalog(self) -> None:
        """Without endpoint_override, Keystone is where its own catalog says."""
        self.register(cores=20)
        self.driver = self.make(
            endpoint_override=None, region_name="RegionOne", valid_interfaces="internal")
        self.assertEqual({"cores": 20}, self.effective().defaults)

    def test_an_address_without_version(self) -> None:
        self.register(cores=20)
        root = self.proxy.url.removesuffix("/v3")
        self.driver = self.make(endpoint_override=f"{root}/", auth_url=root)
        self.assertEqual({"cores": 20}, self.effective().defaults)


class TestEmptyRegion(KeystoneLimitsTest):
    """Whose limits count where ``[quota] region`` is empty."""

    def find(self, *region_ids: str) -> limit_sources.ServiceKey | None:
        catalog = fakes.MemoryCatalog(
            regions=[Region(id_) for id_ in region_ids],
            services=[Service(self.service_id, "compute")])
        return limit_sources.find(self.ctx, catalog, self.driver, "compute", None)

    def test_the_only_region_is_meant(self) -> None:
        self.register(cores=20, disk=5)
        self.set(self.project_id, cores=7)
        self.register(region_id=None, cores=1, ram=8)
        self.set(self.project_id, region_id=None, cores=2, ram=3)
        key = self.find(self.region_id)
        assert key is not None
        for read in (limit_sources.effective, limit_sources.effective_of_many):
            found = read(self.ctx, self.driver, key, [self.project_id])
            self.assertEqual({"cores": 20, "disk": 5, "ram": 8}, found.defaults)
            self.assertEqual({"cores": 7, "ram": 3}, found.overrides[self.project_id])

    def test_several_regions(self) -> None:
        key = self.find(self.region_id, "other")
        self.assertEqual((None,), key and key.region_ids)
        self.register(cores=20)
        self.clock.forward(CACHE_SECONDS)
        error = self.assertRaises(
            AmbiguousRegion, self.find, self.region_id, "other")
        self.assertIn("cores. Set [quota] region.", str(error))
        self.register(region_id=None, cores=7)
        self.clock.forward(CACHE_SECONDS)
        key = self.find(self.region_id, "other")
        self.assertEqual((None,), key and key.region_ids)


class TestRequests(KeystoneLimitsTest):
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


class TestOutages(KeystoneLimitsTest):
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


class TestRefusals(KeystoneLimitsTest):
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


class TestPages(KeystoneLimitsTest):
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
