"""What one client may ask of the service: each bound, in the format of each API."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import fixtures
import webob

from placement_core import app, db
from placement_core.context import Identity
from placement_core.http import requestlog
from placement_core.http.apis import ApisByPath
from placement_core.http.concurrency import ConcurrencyLimit, Overloaded, RequestSlots
from placement_core.http.identity import ENVIRON_KEY
from placement_core.http.project_share import ProjectShare
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base
from tests.http import base as http_base

_BODIES = (
    ("PUT", f"/allocations/{'0' * 8}-0000-4000-8000-{'0' * 12}"), ("POST", "/v3/limits"),
    ("POST", "/v1/leases"), ("POST", "/capacity/v1/claims"))

_LISTS = ("/resource_providers", "/v3/limits", "/v1/leases", "/capacity/v1/providers")


class TestDepth(http_base.HttpTestCase):
    def test_nested_bodies(self) -> None:
        for method, path in _BODIES:
            for depth in (200, 5000):
                for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
                    body = opened * depth + b"1" + closed * depth
                    response = self.ask(method, path, body)
                    self.assertEqual(400, response.status_int, (path, depth, response.text[:300]))


class TestConfiguredDepth(http_base.HttpTestCase):
    options = {("api", "max_request_body_depth"): 8}

    def test_one_level_too_many(self) -> None:
        for method, path in _BODIES:
            response = self.ask(method, path, b"[" * 9 + b"]" * 9)
            self.assertEqual(400, response.status_int, path)
            self.assertIn("nested more than 8 levels deep", response.text, path)
            response = self.ask(method, path, b"[" * 8 + b"]" * 8)
            self.assertEqual(400, response.status_int, path)
            self.assertNotIn("levels deep", response.text, path)


class TestQueries(http_base.HttpTestCase):
    options = {("api", "max_query_length"): 1024, ("api", "max_query_parameters"): 50}

    def test_length(self) -> None:
        for path in _LISTS:
            response = self.ask("GET", f"{path}?{'x' * 1025}")
            self.assertEqual(400, response.status_int, path)
            self.assertIn("longer than 1024 characters", response.text, path)
        self.assertEqual(200, self.ask("GET", f"/v3/limits?{'x' * 1024}").status_int)

    def test_parameters(self) -> None:
        many = "&".join(f"x{number}=" for number in range(50))
        for path in _LISTS:
            response = self.ask("GET", f"{path}?{many}&y=")
            self.assertEqual(400, response.status_int, path)
            self.assertIn("more than 50 parameters", response.text, path)
        self.assertEqual(200, self.ask("GET", f"/v3/limits?{many}").status_int)


class TestPages(http_base.HttpTestCase):
    options = {("api", "max_page_size"): 1000}

    def test_a_larger_limit_is_refused(self) -> None:
        ctx = self.parts[0].context()
        with db.write(ctx):
            for number in range(1002):
                factories.provider(ctx, f"host-{number}")
        for path in ("providers", "consumers", "usages", "changes", "room/hosts", "room/stranded",
                     "room/fits?resources=VCPU:1", "claims", "audit", "quota"):
            address = f"/capacity/v1/{path}{'&' if '?' in path else '?'}limit="
            for limit in (1001, 10**17):
                self.assert_refused(
                    400, f"limit {limit} is more than a page has here: 1000",
                    self.ask("GET", f"{address}{limit}"))
        page = self.ask("GET", "/capacity/v1/providers?limit=1000").json
        self.assertEqual(1000, len(page["providers"]))
        rest = self.ask("GET", page["links"]["next"]).json
        self.assertEqual(2, len(rest["providers"]))

    def test_keystones_and_blazars_lists_do_not_refuse_it(self) -> None:
        for path in ("/v3/limits", "/v3/registered_limits", "/v1/leases", "/v1/os-hosts"):
            self.assertEqual(200, self.ask("GET", f"{path}?limit=5000").status_int, path)


class TestGroups(http_base.HttpTestCase):
    options = {("placement", "max_request_groups"): 4}

    def test_too_many(self) -> None:
        groups = "&".join(f"resources{number}=VCPU:1" for number in range(1, 6))
        for path in ("/allocation_candidates", "/capacity/v1/room/fits",
                     "/capacity/v1/explain/allocation_candidates"):
            response = self.ask("GET", f"{path}?{groups}&group_policy=none")
            self.assert_refused(400, "4 groups of resources at most", response)
        response = self.ask("POST", "/capacity/v1/claims", {"claim": {
            "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "find": {
                "members": 1, "group_policy": "none", "groups": {
                    str(number): {"resources": {"VCPU": 1}} for number in range(1, 6)}}}})
        self.assert_refused(400, "4 groups of resources at most", response)

    def test_as_many_as_may_be(self) -> None:
        groups = "&".join(f"resources{number}=VCPU:1" for number in range(1, 5))
        self.assertEqual(200, self.ask(
            "GET", f"/allocation_candidates?{groups}&group_policy=none").status_int)


class TestSearches(http_base.HttpTestCase):
    """Unequal amounts that fill unequal devices in too many ways to try."""

    options = {("placement", "max_search_dead_ends"): 5_000}
    #: 1000 in 30 amounts, all but one multiples of 3: they do not fill ten hundreds.
    amounts = (*(27, 30, 33, 36, 39) * 5, 30, 33, 33, 39, 40)

    def setUp(self) -> None:
        super().setUp()
        ctx = self.parts[0].context()
        with db.write(ctx):
            host = factories.provider(ctx, "host", inventory={"VCPU": 1})
            for number in range(10):
                factories.provider(
                    ctx, f"device-{number}", parent=host, inventory={"PGPU": 100})

    def test_too_much_work(self) -> None:
        groups = "&".join(
            f"resources{number}=PGPU:{amount}" for number, amount in enumerate(self.amounts, 1))
        for path in ("/allocation_candidates", "/capacity/v1/explain/allocation_candidates"):
            response = self.ask("GET", f"{path}?{groups}&group_policy=none")
            self.assert_refused(400, "too many ways that come to nothing", response)
        response = self.ask("POST", "/capacity/v1/claims", {"claim": {
            "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "find": {
                "members": 1, "group_policy": "none", "groups": {
                    str(number): {"resources": {"PGPU": amount}}
                    for number, amount in enumerate(self.amounts, 1)}}}})
        self.assert_refused(400, "too many ways that come to nothing", response)
        self.assertEqual({}, self.ask("GET", "/usages?project_id=p").json["usages"])


class TestAnswers(http_base.HttpTestCase):
    """64 KiB of allocation requests."""

    options = {("placement", "max_candidates_size"): 64 * 1024}

    def setUp(self) -> None:
        super().setUp()
        self.ctx = self.parts[0].context()

    def find(self, query: str, status: int = 200, **options: str) -> list[dict[str, object]]:
        response = self.ask("GET", f"/allocation_candidates?{query}", **options)
        self.assertEqual(status, response.status_int, response.text[:300])
        if status != 200:
            return response.json["errors"]
        return response.json["allocation_requests"]

    def test_flat_hosts(self) -> None:
        for number in range(500):
            factories.provider(self.ctx, f"host-{number}", inventory={"VCPU": 8})
        [error] = self.find("resources=VCPU:1", status=400)
        self.assertRegex(error["detail"], "More than [0-9]+ candidates fit")
        most = int(str(error["detail"]).partition("limit=")[2].split()[0])
        found = self.find(f"resources=VCPU:1&limit={most}")
        self.assertEqual(most, len(found))
        self.assertLess(most, 500)
        self.assertGreater(most, 300)
        self.find(f"resources=VCPU:1&limit={most + 1}", status=400)

    def test_many_ways_on_one_host(self) -> None:
        """Eight equal devices have 1,680 ways to serve four groups."""
        host = factories.provider(self.ctx, "host", inventory={"VCPU": 8})
        for number in range(8):
            factories.provider(self.ctx, f"device-{number}", parent=host, inventory={
                "VGPU": InventoryValues(total=1)})
        groups = "&".join(f"resources{number}=VGPU:1" for number in range(1, 5))
        [error] = self.find(f"{groups}&group_policy=isolate", status=400)
        most = int(str(error["detail"]).partition("limit=")[2].split()[0])
        self.assertEqual(most, len(self.find(f"{groups}&group_policy=isolate&limit={most}")))

    def test_small_ones(self) -> None:
        for number in range(20):
            factories.provider(self.ctx, f"host-{number}", inventory={"VCPU": 8})
        self.assertEqual(20, len(self.find("resources=VCPU:1")))
        self.assertEqual(20, len(self.find("resources=VCPU:1&limit=1000000")))


class TestOverload(base.TestCase):
    """A request that finds every slot taken, and the queue full."""

    def test_it_is_refused_in_the_format_of_each_api(self) -> None:
        slots = RequestSlots(1, 0, 1.0, lambda: False)
        limit = ConcurrencyLimit(self.fail, slots, ApisByPath(app.APIS))
        slots.acquire()
        for path, version, code in (
            ("/usages", None, None), ("/usages", "placement 1.22", None),
            ("/usages", "placement 1.23", "placement.overloaded"),
            ("/usages", "placement latest", "placement.overloaded"),
            ("/usages", "placement 9.9", None), ("/usages", "placement x", None),
            ("/v3/limits", None, None), ("/v1/leases", None, None),
            ("/capacity/v1/quota", None, "placement.overloaded"),
        ):
            answer: list = []
            environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
            if version is not None:
                environ["HTTP_OPENSTACK_API_VERSION"] = version
            body = b"".join(limit(environ, lambda *given, answer=answer: answer.extend(given)))
            self.assertEqual("503 Service Unavailable", answer[0])
            self.assertEqual("2", dict(answer[1])["Retry-After"])
            self.assertIn("application/json", dict(answer[1])["Content-Type"])
            self.assertIn("more requests than it can answer in time", body.decode())
            self.assertEqual("placement.overloaded", environ[requestlog.ERROR_CODE_KEY])
            if "errors" in json.loads(body):
                self.assertEqual(code, json.loads(body)["errors"][0].get("code"), version)


class TestOverloadAfterWaiting(http_base.HttpTestCase):
    """A request that left its slot to others, and gets none again."""

    options = {("api", "max_concurrent_requests"): 3}

    def test_its_code_is_noted(self) -> None:
        def idle(_turn: object) -> contextlib.AbstractContextManager[None]:
            raise Overloaded

        self.useFixture(fixtures.MonkeyPatch("placement_core.http.concurrency._Turn.idle", idle))
        request = webob.Request.blank(
            "/capacity/v1/changes?after=now&wait=1", headers={"X-Auth-Token": "admin"})
        response = request.get_response(self.app)
        self.assertEqual((503, "2"), (response.status_int, response.headers["Retry-After"]))
        self.assertEqual("placement.overloaded", response.json["errors"][0]["code"])
        self.assertEqual("placement.overloaded", request.environ[requestlog.ERROR_CODE_KEY])
        self.assertIn(
            "more requests than it can answer", request.environ[requestlog.ERROR_TEXT_KEY])


class TestProjectShare(base.TestCase):
    """Two requests of a project at a time."""

    def setUp(self) -> None:
        super().setUp()
        self.working, self.go_on = threading.Semaphore(0), threading.Event()
        self.addCleanup(self.go_on.set)
        self.share = ProjectShare(
            self._work, 2, ApisByPath(app.APIS), lambda caller: "service" in caller.roles)

    def _work(self, _environ, start_response):
        self.working.release()
        self.go_on.wait(20)
        start_response("204 No Content", [])
        return []

    def ask(self, project: str | None, *roles: str, path: str = "/usages"
            ) -> tuple[str, dict, bytes]:
        answer: list = []
        environ = {
            "PATH_INFO": path, "REQUEST_METHOD": "GET",
            "HTTP_OPENSTACK_API_VERSION": "placement 1.36",
            ENVIRON_KEY: Identity("somebody", project, roles)}
        body = b"".join(self.share(environ, lambda *given: answer.extend(given)))
        return answer[0], dict(answer[1]), body

    def begin(self, *who: str | None) -> threading.Thread:
        thread = threading.Thread(target=self.ask, args=who, daemon=True)
        thread.start()
        self.assertTrue(self.working.acquire(timeout=20))
        return thread

    def test_a_third_is_refused(self) -> None:
        threads = [self.begin("one", "member") for _ in range(2)]
        for path in ("/usages", "/v3/limits", "/v1/leases", "/capacity/v1/quota"):
            status, headers, body = self.ask("one", "member", path=path)
            self.assertEqual("429 Too Many Requests", status)
            self.assertEqual("1", headers["Retry-After"])
            self.assertIn("application/json", headers["Content-Type"])
            if path in ("/usages", "/capacity/v1/quota"):
                self.assertEqual(
                    "placement.undefined_code", json.loads(body)["errors"][0]["code"])
        # Others have their own share, and services work for everybody.
        threads += [self.begin("two", "member"), self.begin("one", "service"),
                    self.begin(None, "reader")]
        self.go_on.set()
        for thread in threads:
            thread.join(20)
        self.assertEqual("204 No Content", self.ask("one", "member")[0])


class TestConfiguredShare(http_base.HttpTestCase):
    options = {("api", "max_concurrent_requests_per_project"): 1}

    def insist(self, answers: list[int]) -> None:
        """Write until that is not refused: a read may have been in the way."""
        status = 429
        while status == 429:
            status = self.ask("PUT", "/traits/CUSTOM_A", token="admin:one").status_int
        answers.append(status)

    def test_while_one_waits_for_the_database(self) -> None:
        writer = self.parts[0].database.writer.connect()
        self.addCleanup(writer.close)
        answers: list[int] = []
        with writer.begin():
            waiting = threading.Thread(target=self.insist, args=(answers,), daemon=True)
            waiting.start()
            deadline = time.monotonic() + 20
            while self.ask("GET", "/traits", token="admin:one").status_int != 429:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            self.assertEqual(200, self.ask("GET", "/traits", token="admin:two").status_int)
        waiting.join(20)
        self.assertEqual([201], answers)
        self.assertEqual(200, self.ask("GET", "/traits", token="admin:one").status_int)
