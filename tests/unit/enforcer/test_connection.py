"""``Connection``: options, endpoints, and who answers."""

from __future__ import annotations

import json
import os
import signal
import threading
import typing
from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg
from oslo_limit import opts as oslo_opts

from placement_core.enforcer import Connection, Enforcer, ProjectOverLimit, SessionInitError, opts
from placement_core.enforcer.answers import CachedAnswer, CachedAnswers
from placement_core.enforcer.connection import EFFECTIVE
from placement_core.enforcer.endpoints import ServiceRegion
from tests import base
from tests.unit.enforcer.cloud import COMPUTE, ENDPOINT, Cloud


class TestOptions(base.TestCase):
    """The section of a service that used oslo.limit."""

    def test_they_are_oslo_limits(self) -> None:
        """Every option that oslo.limit has, and two."""
        ours = {one.dest for _, options in opts.list_opts() for one in options}
        theirs = {one.dest for _, options in oslo_opts.list_opts() for one in options}
        # Those of Keystone's API before v3 that nothing can use any more.
        self.assertEqual({"tenant_id", "tenant_name"} & theirs, theirs - ours)
        self.assertEqual(
            {"source", "cache_seconds", "auth_type", "auth_section"}, ours - theirs)

    def test_beside_oslo_limit(self) -> None:
        """Both may be in one process, whichever comes first."""
        conf = cfg.ConfigOpts()
        conf.register_opts(oslo_opts._options, group=opts.GROUP)
        opts.register_opts(conf)
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        conf.register_opts(oslo_opts._options, group=opts.GROUP)
        opts.register_opts(conf)

    def test_they_explain_themselves(self) -> None:
        """Help for each of ours."""
        for option in opts._OPTIONS:
            self.assertGreater(len(option.help), 30, option.name)


class ConnectionTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(Cloud())

    def connection(self, **options: Any) -> Connection:
        return Connection(self.cloud.conf(**options))

    def paths(self) -> list[str]:
        return [one.path for one in self.cloud.asked]


class TestEndpoints(ConnectionTestCase):
    """For which service and region limits count."""

    def by_service(self, **options: Any) -> Connection:
        return self.connection(**{"endpoint_id": None, **options})

    def refused(self, said: str, **options: Any) -> None:
        error = self.assertRaises(ValueError, self.by_service, **options)
        self.assertIn(said, str(error))

    def test_by_id(self) -> None:
        """Other options are not read."""
        place = ServiceRegion(COMPUTE["id"], "here")
        self.assertEqual(place, self.connection(endpoint_service_type="volume").place)
        self.cloud.endpoints[0]["region_id"] = None
        self.assertEqual(ServiceRegion(COMPUTE["id"], None), self.connection().place)

    def test_no_such_id(self) -> None:
        """Refused by name."""
        self.refused("endpoint_id = unknown", endpoint_id="unknown")

    def test_by_type_or_name(self) -> None:
        """The one endpoint of the one service."""
        self.cloud.services.append({**COMPUTE, "id": "v" * 32, "type": "volume", "name": "c"})
        for options in ({"endpoint_service_type": "compute"}, {"endpoint_service_name": "nova"},
                        {"endpoint_service_type": "compute", "endpoint_service_name": "nova",
                         "endpoint_region_name": "here", "endpoint_interface": "publicURL"}):
            self.assertEqual(
                ServiceRegion(COMPUTE["id"], "here"), self.by_service(**options).place)

    def test_by_interface_and_region(self) -> None:
        """Where a service has several endpoints."""
        self.cloud.endpoints.append({**ENDPOINT, "id": "f", "region_id": "there"})
        self.cloud.endpoints.append({**ENDPOINT, "id": "g", "interface": "admin",
                                     "region_id": None})
        self.assertEqual("there", self.by_service(
            endpoint_service_type="compute", endpoint_region_name="there").place.region_id)
        self.assertIsNone(self.by_service(
            endpoint_service_type="compute", endpoint_interface="admin").place.region_id)
        self.refused("2 endpoints", endpoint_service_type="compute")

    def test_not_found(self) -> None:
        """Refused by what was looked for."""
        self.refused("must be set")
        self.refused("0 services with type volume", endpoint_service_type="volume")
        self.refused("endpoint_region_name = nowhere", endpoint_service_type="compute",
                     endpoint_region_name="nowhere")
        self.refused("0 endpoints", endpoint_service_type="compute",
                     endpoint_region_name="there")
        self.cloud.services.append({**COMPUTE, "id": "d" * 32})
        self.refused("2 services", endpoint_service_type="compute")


class TestWhoAnswers(ConnectionTestCase):
    """placement_core or a Keystone."""

    def test_found_out(self) -> None:
        """One question at start; a Keystone is asked for its model, too."""
        self.assertTrue(self.connection().one_question)
        self.assertEqual(2, len(self.cloud.asked))
        self.cloud.capacity = False
        self.cloud.asked.clear()
        self.assertFalse(self.connection().one_question)
        self.assertEqual(3, len(self.cloud.asked))

    def test_told(self) -> None:
        """Spares the question."""
        self.assertTrue(self.connection(source="capacity").one_question)
        self.assertEqual(1, len(self.cloud.asked))
        self.cloud.asked.clear()
        self.assertFalse(self.connection(source="keystone").one_question)
        self.assertEqual(["/v3/endpoints/" + ENDPOINT["id"], "/v3/limits/model"], self.paths())

    def test_wherever_it_is(self) -> None:
        """The endpoint with its version, without it, with a slash, or instead of the catalog's."""
        url = self.cloud.url
        for endpoint in (url, url + "/", url.removesuffix("/v3"), url.removesuffix("v3")):
            self.assertTrue(self.connection(endpoint=endpoint).one_question)
        self.assertTrue(self.connection(
            endpoint="http://127.0.0.1:1/v3", endpoint_override=url).one_question)

    def test_a_keystone_with_a_hierarchy(self) -> None:
        """Refused: nobody would tell what is above a project."""
        self.cloud.capacity = False
        self.cloud.model = "strict_two_level"
        self.assertIn("strict_two_level", str(self.assertRaises(ValueError, self.connection)))

    def test_a_model_that_is_not_installed(self) -> None:
        """Refused with those that are."""
        self.cloud.model = "garden"
        self.cloud.parents = {"d": None, "p": "d"}
        enforcer = Enforcer(lambda project, names: {"cores": 0}, connection=self.connection())
        error = self.assertRaises(ValueError, enforcer.enforce, "p", {"cores": 1})
        self.assertIn("garden", str(error))
        self.assertIn("strict_two_level", str(error))

    def test_nobody_can_be_asked(self) -> None:
        """Said so; the next attempt starts anew."""
        for options in ({"auth_type": None}, {"auth_type": "magic"},
                        {"auth_type": "password"}, {"endpoint": "http://127.0.0.1:1/v3"},
                        {"endpoint": None}):
            error = self.assertRaises(SessionInitError, self.connection, **options)
            self.assertIn("[oslo_limit]", str(error))

    def test_no_answer_later(self) -> None:
        """keystoneauth's exception, and no verdict from what was known."""
        enforcer = Enforcer(lambda project, names: {"cores": 0}, connection=self.connection())
        self.cloud.registered = {"cores": 1}
        enforcer.enforce("p", {"cores": 1})
        self.patch(self.cloud, "answer", lambda path, query: None)
        self.assertRaises(exceptions.NotFound, enforcer.enforce, "p", {"cores": 1})


class TestThreads(ConnectionTestCase):
    """One enforcer for all threads."""

    def test_each_sees_what_was_set_before(self) -> None:
        """Whatever the others ask meanwhile."""
        self.cloud.registered = {"cores": 0}
        enforcer = Enforcer(
            lambda project, names: dict.fromkeys(names, 0), connection=self.connection())
        wrong: list[Any] = []
        projects = 8

        def look(limits: dict[str, int]) -> None:
            for project, limit in limits.items():
                try:
                    enforcer.enforce(project, {"cores": limit})
                    enforcer.enforce(project, {"cores": limit + 1})
                    wrong.append((project, limit))
                except ProjectOverLimit as error:
                    found = [(one.limit, one.delta) for one in error.over_limit_info_list]
                    if found != [(limit, limit + 1)]:
                        wrong.append((project, limit, found))

        for turn in range(15):
            limits = {f"p{number}": turn * 100 + number for number in range(projects)}
            self.cloud.limits = {node: {"cores": value} for node, value in limits.items()}
            threads = [threading.Thread(target=look, args=(limits,)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual([], wrong)


class TestForks(ConnectionTestCase):
    """Workers that are forked after the first enforcer was made."""

    def fork(self, action: Callable[[], Any]) -> Callable[[], Any]:
        """Start a process that waits for the others; return what lets it go on to its result."""
        gate, opener = os.pipe()
        result, answer = os.pipe()
        child = os.fork()
        if not child:
            try:
                signal.alarm(20)
                os.read(gate, 1)
                os.write(answer, json.dumps(action()).encode())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(gate)
        os.close(answer)
        self.addCleanup(os.close, opener)
        self.addCleanup(os.close, result)

        def go_on() -> Callable[[], Any]:
            os.write(opener, b"!")
            return wait

        def wait() -> Any:
            os.waitpid(child, 0)
            return json.loads(os.read(result, 4096) or b"null")

        return go_on

    def test_each_has_a_connection_of_its_own(self) -> None:
        """On a shared one, each may read the answer to the other."""
        self.cloud.limits = {f"p{number}": {"cores": number} for number in range(3)}
        connection = self.connection(timeout=10)

        def read(number: int) -> Any:
            query = {"service_id": COMPUTE["id"], "region_id": "here", "project_id": f"p{number}"}
            return connection.read(EFFECTIVE, query, lambda document: document)["lineage"][0]["id"]

        read(0)
        self.cloud.asked.clear()
        starts = [self.fork(lambda number=number: read(number)) for number in (1, 2)]
        waits = [go_on() for go_on in starts]
        self.assertEqual(["p1", "p2"], [wait() for wait in waits])
        self.assertEqual("p0", read(0))
        ports = {asked.query["project_id"]: asked.port for asked in self.cloud.asked}
        self.assertEqual(3, len(set(ports.values())), ports)

    def test_nothing_is_shared_that_a_thread_may_have_locked(self) -> None:
        connection = self.connection()
        lock = typing.cast(Any, connection)._answers._lock
        with lock:
            wait = self.fork(lambda: connection.read(
                EFFECTIVE, {"service_id": COMPUTE["id"]}, lambda document: document["model"]))()
            self.assertEqual("flat", wait())


class TestCachedAnswers(base.TestCase):
    """What is kept, and for how long."""

    def answer(self, size: int) -> CachedAnswer:
        return CachedAnswer(None, None, 0.0, size)

    def test_bounded(self) -> None:
        """Those not used for longest go first; a larger answer counts as such."""
        kept = CachedAnswers(max_bytes=10)
        for name in "abc":
            kept.put(name, self.answer(3))
        kept.get("a")
        kept.put("d", self.answer(3))
        self.assertEqual([True, False, True, True], [bool(kept.get(name)) for name in "abcd"])
        kept.put("a", self.answer(6))
        self.assertEqual([True, False, False, True], [bool(kept.get(name)) for name in "abcd"])
        kept.put("b", self.answer(11))
        self.assertIsNone(kept.get("b"))

    def test_threads(self) -> None:
        """The sum stays right."""
        kept = CachedAnswers(max_bytes=100)
        def fill(salt: int) -> None:
            for number in range(2000):
                kept.put((number * salt) % 37, self.answer(number % 7))
                kept.get(number % 37)
        threads = [threading.Thread(target=fill, args=(salt,)) for salt in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        held = typing.cast(Any, kept)._entries.values()
        self.assertEqual(sum(one.size for one in held), typing.cast(Any, kept)._entries.currsize)
        self.assertLessEqual(kept._entries.currsize, 100)
