"""The proxy before a real, second placement: it changes no answer, and ours follows."""

from __future__ import annotations

import http.client
import json
import re
import uuid
from typing import Any

import testtools

from placement_core.shadow.modes import Mode, Side
from tests import databases, full_states, placement_service, proxies, shadows

_TRAITS = ["CUSTOM_FAST"]


def new_uuid() -> str:
    return str(uuid.uuid4())


@testtools.skipUnless(placement_service.INSTALLED, "openstack-placement is not installed")
class ShadowTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sides = shadows.share()
        # What fails, and what says so, leaves them as nobody else wants them.
        self.addOnException(lambda _: self.spoil())

    def spoil(self) -> None:
        """Let other tests have sides of their own."""
        self.sides.is_spoilt = True

    def start(
        self, *, upstream: str | None = None, ours: str | None = None, **options: Any
    ) -> shadows.ThreadedProxy:
        return self.useFixture(shadows.ThreadedProxy(
            upstream or self.sides.upstream, ours or self.sides.ours, self.sides.folder,
            **options))

    def wait_for(self, path: str, version: str = "1.38") -> object:
        """Wait until ours answers as upstream does; return the answer."""
        def is_same() -> bool:
            return self.ask_both(path, version)[0] == self.ask_both(path, version)[1]

        shadows.wait_until(is_same)
        return self.ask_both(path, version)[0][1]

    def ask_both(
        self, path: str, version: str = "1.38"
    ) -> tuple[tuple[int, Any], tuple[int, Any]]:
        upstream, ours = (shadows.ask(url, "GET", path, version=version)
                          for url in (self.sides.upstream, self.sides.ours))
        return upstream, ours


class TestAnswers(ShadowTestCase):
    def test_nothing_is_changed(self) -> None:
        proxy = self.start()
        target = "/resource_providers?name=h%6Fst&in_tree=" + self.sides.host
        for method, path in (("GET", target), ("GET", "/nowhere"), ("HEAD", "/"), ("GET", "/"),
                             ("PUT", "/resource_providers"), ("OPTIONS", "/traits"),
                             ("GET", "/resource_providers/%F0%9F%98%80")):
            direct, through = (self.send(url, method, path) for url in (
                self.sides.upstream, proxy.url))
            self.assertEqual(direct, through, path)

    def test_a_name_that_no_file_takes(self) -> None:
        """Upstream says what it says: half of a character is no name of a provider."""
        proxy = self.start()
        path, body = f"/allocations/{new_uuid()}", json.dumps({
            "allocations": {"\ud800": {"resources": {"VCPU": 1}}}})
        direct, through = (self.send(url, "PUT", path, body) for url in (
            self.sides.upstream, proxy.url))
        self.assertEqual(400, direct[0])
        self.assertEqual(direct, through)

    def send(
        self, url: str, method: str, path: str, body: str | None = None
    ) -> tuple[object, ...]:
        """Return all of an answer but when it was made, and for which connection."""
        address = url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request(method, path, body, headers={
            "X-Auth-Token": "admin", "Host": "placement.example", "Accept": "*/*",
            **({"Content-Type": "application/json"} if body else {})})
        answer = connection.getresponse()
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in (
            "date", "connection", "x-openstack-request-id")]
        body = re.sub(b"req-[0-9a-f-]+", b"", answer.read())
        connection.close()
        return answer.status, answer.reason, headers, body

    def test_upstream_is_away(self) -> None:
        self.spoil()
        proxy = self.start()
        self.sides.placement.stop()
        status, document = shadows.ask(proxy.url, "GET", "/resource_providers")
        self.assertEqual(502, status)
        self.assertIn(self.sides.upstream, document["errors"][0]["detail"])
        self.assertEqual(1, proxy.report().errors[Side.UPSTREAM])


class TestFollowing(ShadowTestCase):
    def test_writes_are_applied_in_order(self) -> None:
        """What depends on what came before is answered alike, down to generations."""
        proxy = self.start()
        provider, consumer = new_uuid(), new_uuid()
        path = f"/resource_providers/{provider}"
        for method, target, body in (
            ("POST", "/resource_providers", {"name": "new", "uuid": provider}),
            ("PUT", "/resource_classes/CUSTOM_GOLD", None),
            ("PUT", "/traits/CUSTOM_FAST", None),
            ("PUT", f"{path}/inventories", {
                "resource_provider_generation": 0, "inventories": {
                    "VCPU": {"total": 4}, "CUSTOM_GOLD": {"total": 1}}}),
            ("PUT", f"{path}/traits", {
                "resource_provider_generation": 1, "traits": _TRAITS}),
            ("PUT", f"{path}/aggregates", {
                "resource_provider_generation": 2, "aggregates": [new_uuid()]}),
            ("PUT", f"/allocations/{consumer}", {
                "allocations": {provider: {"resources": {"VCPU": 3}}}, "project_id": "p",
                "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}),
            ("DELETE", f"/allocations/{consumer}", None),
            ("PUT", f"/allocations/{new_uuid()}", {
                "allocations": {provider: {"resources": {"VCPU": 2}}}, "project_id": "p",
                "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}),
        ):
            status, document = shadows.ask(proxy.url, method, target, body)
            self.assertTrue(200 <= status < 300, document)
        for part in ("", "/inventories", "/traits", "/aggregates", "/allocations"):
            self.wait_for(path + part)
        proxy.stop()
        report = proxy.report()
        self.assertEqual(({}, {}, 9, 9), (
            report.different, report.unresolved, report.writes, report.applied))

    def test_what_upstream_refuses_does_not_reach_ours(self) -> None:
        proxy = self.start()
        status, _ = shadows.ask(proxy.url, "PUT", f"/resource_providers/{self.sides.host}/traits",
                                {"resource_provider_generation": 99, "traits": []})
        self.assertEqual(409, status)
        proxy.stop()
        self.assertEqual(0, proxy.report().writes)
        self.assertEqual({}, proxy.report().different)

    def test_a_uuid_that_upstream_made(self) -> None:
        proxy = self.start()
        self.assertEqual(
            201, shadows.ask(proxy.url, "POST", "/resource_providers", {"name": "n"},
                             version="1.0")[0])
        self.wait_for("/resource_providers?name=n")
        proxy.stop()
        self.assertEqual({}, proxy.report().different)

    def test_reads_are_compared(self) -> None:
        proxy = self.start()
        host = self.sides.host
        paths = ("/resource_providers", f"/resource_providers/{host}/inventories", "/traits",
                 "/allocation_candidates?resources=VCPU:1",
                 "/allocation_candidates?resources=VCPU:1&limit=1",
                 f"/allocations/{new_uuid()}", "/usages?project_id=p", "/resource_classes", "/")
        for path in paths:
            self.assertEqual(200, shadows.ask(proxy.url, "GET", path)[0])
        proxy.stop()
        report = proxy.report()
        self.assertEqual({}, report.different)
        self.assertEqual(len(paths), report.equal)
        self.assertEqual({50, 95, 99}, set(report.latencies[Side.OURS]))

    def test_a_state_that_takes_nothing(self) -> None:
        """Upstream answers, ours follows, and what was to be noted is so later."""
        proxy = self.start()
        consumers = [new_uuid() for _ in range(3)]
        with full_states.fill(proxy.state):
            for consumer in consumers:
                self.assertEqual(204, self.sides.claim(proxy.url, consumer))
            for consumer in consumers:
                self.wait_for(f"/allocations/{consumer}")
            self.assertEqual(0, proxy.report().writes)
        self.wait_for(f"/resource_providers/{self.sides.host}")
        shadows.wait_until(lambda: proxy.report().applied == 3)
        proxy.stop()
        report = proxy.report()
        self.assertEqual((3, {}, {}, 0), (
            report.writes, report.different, report.unresolved, report.waiting))

    def test_no_share_of_the_reads(self) -> None:
        proxy = self.start(compare_percent=0)
        shadows.ask(proxy.url, "GET", "/traits")
        proxy.stop()
        self.assertEqual((0, 1), (proxy.report().equal, proxy.report().requests))


class TestDivergence(ShadowTestCase):
    def test_a_read_that_differs(self) -> None:
        """What it names is read again, also who holds it, and the next read is equal."""
        proxy = self.start()
        consumer = new_uuid()
        self.sides.claim(self.sides.upstream, consumer)
        path = f"/resource_providers/{self.sides.host}/allocations"
        shadows.ask(proxy.url, "PUT", "/traits/CUSTOM_FAST")  # Its token is used.
        shadows.ask(proxy.url, "GET", path)
        self.wait_for(path)
        self.wait_for(f"/resource_providers/{self.sides.host}")
        self.wait_for(f"/allocations/{consumer}")
        shadows.wait_until(lambda: not proxy.report().unresolved)
        shadows.ask(proxy.url, "GET", path)
        proxy.stop()
        report = proxy.report()
        self.assertEqual({"allocations of a provider: body": 1}, report.different)
        self.assertEqual(1, report.equal)
        self.assertLess(0, report.reread)
        self.assertIn(consumer, report.examples[0].upstream)
        self.assertNotIn(consumer, report.examples[0].ours)

    def test_a_name_that_ours_lacks(self) -> None:
        """It is made when somebody reads it."""
        proxy = self.start()
        path = f"/traits/CUSTOM_{new_uuid().replace('-', '_').upper()}"
        shadows.ask(self.sides.upstream, "PUT", path)
        self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))  # Its token is used.
        self.assertEqual(204, shadows.ask(proxy.url, "GET", path)[0])
        self.wait_for(path)

    def test_a_write_that_ours_refuses(self) -> None:
        """Upstream has a provider that ours has not; then both have it, once."""
        provider = new_uuid()
        for method, path, body in (
            ("POST", "/resource_providers", {"name": "extra", "uuid": provider}),
            ("PUT", f"/resource_providers/{provider}/inventories", {
                "resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}),
        ):
            shadows.ask(self.sides.upstream, method, path, body)
        proxy = self.start()
        for generation in (1, 2, 3):
            status, _ = shadows.ask(
                proxy.url, "PUT", f"/resource_providers/{provider}/inventories", {
                    "resource_provider_generation": generation,
                    "inventories": {"VCPU": {"total": 4 + generation}}})
            self.assertEqual(200, status)
        self.wait_for(f"/resource_providers/{provider}")
        self.wait_for(f"/resource_providers/{provider}/inventories")
        proxy.stop()
        report = proxy.report()
        self.assertEqual({"inventories: status 404, not 200": 1}, report.different)
        self.assertEqual({}, report.unresolved)

    def test_a_generation_that_is_ahead(self) -> None:
        """It cannot be lowered: the report says so, and nothing else is lost."""
        self.spoil()
        path = f"/resource_providers/{self.sides.host}"
        inventories = shadows.ask(self.sides.ours, "GET", f"{path}/inventories")[1]
        shadows.ask(self.sides.ours, "PUT", f"{path}/inventories", inventories)
        proxy = self.start()
        consumer = new_uuid()
        self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        self.wait_for("/usages?project_id=project")
        shadows.ask(proxy.url, "GET", path)
        name = f"resource provider {self.sides.host}"
        shadows.wait_until(
            lambda: "ahead of" in proxy.report().unresolved.get(name, ""))
        proxy.stop()
        self.assertEqual([name], list(proxy.report().unresolved))

    def test_generations_that_are_set(self) -> None:
        """With our database, what is ahead becomes what it is at upstream."""
        path = f"/resource_providers/{self.sides.host}"
        inventories = shadows.ask(self.sides.ours, "GET", f"{path}/inventories")[1]
        for _ in range(3):
            inventories = shadows.ask(
                self.sides.ours, "PUT", f"{path}/inventories", inventories)[1]
        proxy = self.useFixture(shadows.Proxy(
            self.sides.upstream, self.sides.ours, self.sides.folder, "--set-generations",
            database=self.sides.database))
        consumer = new_uuid()
        self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        self.wait_for("/usages?project_id=project")
        shadows.ask(proxy.url, "GET", path)
        self.wait_for(path)
        self.wait_for(f"/allocations/{consumer}")
        shadows.wait_until(lambda: not proxy.report().unresolved)
        self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))
        self.wait_for(path)
        proxy.stop()
        self.assertEqual({"provider: body": 1}, proxy.report().different)

    def test_generations_in_another_database(self) -> None:
        """Nothing is written there."""
        self.spoil()
        path = f"/resource_providers/{self.sides.host}"
        inventories = shadows.ask(self.sides.ours, "GET", f"{path}/inventories")[1]
        shadows.ask(self.sides.ours, "PUT", f"{path}/inventories", inventories)
        proxy = self.useFixture(shadows.Proxy(
            self.sides.upstream, self.sides.ours, self.sides.folder, "--set-generations",
            database=databases.settings("sqlite").connection))
        self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))
        shadows.ask(proxy.url, "GET", path)
        shadows.wait_until(lambda: "in the database: No resource provider with uuid" in (
            proxy.report().unresolved.get(f"resource provider {self.sides.host}", "")))

    def test_ours_is_away(self) -> None:
        """Upstream answers; what was written meanwhile is read again."""
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url)
        between.close()
        consumers = [new_uuid() for _ in range(5)]
        for consumer in consumers:
            self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        shadows.wait_until(lambda: proxy.report().errors[Side.OURS])
        self.assertEqual({}, self.sides.read_allocations(self.sides.ours))
        self.assertLess(0, len(proxy.report().unresolved))
        between.open()
        shadows.wait_until(lambda: not proxy.report().unresolved)
        for consumer in consumers:
            self.wait_for(f"/allocations/{consumer}")
        self.wait_for(f"/resource_providers/{self.sides.host}")
        proxy.stop()
        self.assertEqual({}, proxy.report().different)

    def test_a_child_that_became_a_root(self) -> None:
        """It does here, too, when it is read again."""
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url)
        child = new_uuid()
        path = f"/resource_providers/{child}"
        status, document = shadows.ask(proxy.url, "POST", "/resource_providers", {
            "name": child, "uuid": child, "parent_provider_uuid": self.sides.host})
        self.assertEqual(200, status, document)
        self.wait_for(path)
        between.close()
        status, document = shadows.ask(
            proxy.url, "PUT", path, {"name": child, "parent_provider_uuid": None})
        self.assertEqual(200, status, document)
        shadows.wait_until(lambda: proxy.report().unresolved)
        between.open()
        shadows.wait_until(lambda: not proxy.report().unresolved)
        self.assertEqual(*self.ask_both(path))
        self.assertIsNone(self.ask_both(path)[0][1]["parent_provider_uuid"])

    def test_ours_is_slow(self) -> None:
        """Upstream's answers do not wait; what is too much is read again."""
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url, most_waiting=2)
        between.instead = between.hang
        consumers = [new_uuid() for _ in range(6)]
        for consumer in consumers:
            self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        self.assertLess(0, len(proxy.report().unresolved))
        self.assertEqual({}, self.sides.read_allocations(self.sides.ours))
        between.let_go()
        shadows.wait_until(lambda: not proxy.report().unresolved)
        self.assertEqual(
            set(consumers), set(self.sides.read_allocations(self.sides.ours)))
        for consumer in consumers:
            self.wait_for(f"/allocations/{consumer}")
        self.wait_for(f"/resource_providers/{self.sides.host}")

    def test_a_restart(self) -> None:
        """The report goes on where it was, and so does what is to be read again."""
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url)
        between.close()
        consumer = new_uuid()
        self.sides.claim(proxy.url, consumer)
        shadows.wait_until(lambda: proxy.report().unresolved)
        proxy.stop()
        again = self.start(ours=between.url)
        self.assertEqual((1, Mode.SHADOW), (again.report().writes, again.report().mode))
        between.open()
        shadows.ask(again.url, "PUT", "/traits/CUSTOM_FAST")
        shadows.wait_until(lambda: not again.report().unresolved)
        self.wait_for(f"/allocations/{consumer}")
