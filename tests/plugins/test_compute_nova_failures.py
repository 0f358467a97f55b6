"""The driver of Nova when requests fail, and the errors that it raises."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator
from typing import Any

import fixtures

from placement_core import errors
from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    ComputeDriver,
    ComputeRefused,
    ComputeUnavailable,
)
from placement_core.testing.compute import (
    HOST,
    LEASE,
    OTHER_LEASE,
    PROJECT,
)
from placement_plugins.compute.nova import NovaCompute
from tests.plugins.nova_cases import SERVICES, NovaTestCase

#: What is done on the way through a network that fails.
Step = Callable[[ComputeDriver], object]


def _until_gone(delete: Callable[[], int]) -> None:
    """Delete servers as the manager does: until none is left."""
    while delete():
        pass


def _slots() -> Iterator[Step]:
    """Yield the steps of an instance reservation up to its start."""
    yield lambda driver: driver.add_to_freepool(HOST)
    yield lambda driver: driver.put_flavor(
        LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=True, resource_class="CUSTOM_X")
    yield lambda driver: driver.put_slot_aggregate(LEASE, PROJECT)
    yield lambda driver: driver.add_host(LEASE, HOST)
    yield lambda driver: driver.grant_flavor(LEASE, PROJECT)


def _slots_end() -> Iterator[Step]:
    yield lambda driver: driver.revoke_flavor(LEASE, PROJECT)
    yield lambda driver: _until_gone(lambda: driver.delete_flavor_servers(LEASE))
    yield lambda driver: driver.remove_aggregate(LEASE)
    yield lambda driver: driver.remove_flavor(LEASE)
    yield lambda driver: driver.remove_server_group(LEASE)


def _whole() -> Iterator[Step]:
    """Yield the steps of a host reservation up to its start."""
    yield lambda driver: driver.add_to_freepool(HOST)
    yield lambda driver: driver.put_host_aggregate(LEASE, PROJECT)
    yield lambda driver: driver.delete_preemptible_servers(HOST)
    yield lambda driver: driver.add_host(LEASE, HOST)
    yield lambda driver: driver.remove_from_freepool(HOST)


def _whole_end() -> Iterator[Step]:
    yield lambda driver: driver.snapshot_host_servers(LEASE, HOST)
    yield lambda driver: _until_gone(lambda: driver.delete_host_servers(LEASE, HOST))
    yield lambda driver: driver.add_to_freepool(HOST)
    yield lambda driver: driver.remove_aggregate(LEASE)


class TestFailures(NovaTestCase):
    """Requests and answers that get lost: what was made is there once, and goes."""

    def setUp(self) -> None:
        super().setUp()
        self.driver = self._driver()

    def _go(self, steps: Iterator[Step], driver: NovaCompute | None = None) -> int:
        """Make each step until it comes through; return how often one did not."""
        failures = 0
        for step in steps:
            while True:
                try:
                    step(driver or self.driver)
                    break
                except ComputeUnavailable:
                    failures += 1
                    self.assertLess(failures, 200)
        return failures

    def _summary(self) -> object:
        """Return what there is without ids that are new each time."""
        world = self.nova.world()
        return (
            world["flavors"],
            {each["name"]: (each["hosts"], each["metadata"])
             for each in world["aggregates"].values()},
            sorted(each["name"] for each in world["servers"].values()),
            sorted(each["name"] for each in world["images"].values()))

    def _life(
        self, start: Callable[[], Iterator[Step]], end: Callable[[], Iterator[Step]], *faults: Any
    ) -> tuple[object, object, int]:
        """Return what there was between start and end, what was left, and the failures."""
        self.nova.reset(hosts=SERVICES)
        self.nova.fail(*faults)
        failures = self._go(start())
        self.nova.boot(SERVICES[HOST], project=PROJECT, name="web", flavor=LEASE)
        before = self._summary()
        failures += self._go(end())
        self.assertEqual([], self.nova.violations())
        return before, self._summary(), failures

    def test_each_request(self) -> None:
        """Whichever request of a life fails, and how: it makes no difference."""
        for start, end in ((_slots, _slots_end), (_whole, _whole_end)):
            before, after, _ = self._life(start, end)
            sent = [each for each in self.nova.requests() if "/v2.1/" in each]
            self.assertGreater(len(sent), 20)
            for how in ("lost", "twice"):
                for number, request in enumerate(sent):
                    if how == "twice" and request.startswith("GET"):
                        continue
                    was, left, failures = self._life(start, end, {"how": how, "skip": number})
                    self.assertEqual((before, after), (was, left), (how, request))
                    if how == "lost":
                        # A read is sent again at once, on another connection.
                        self.assertEqual(not request.startswith("GET"), failures, request)

    def test_many_requests(self) -> None:
        """A third of all requests fails in one way or another."""
        _, after, _ = self._life(_slots, _slots_end)
        for seed in range(8):
            _, left, failures = self._life(_slots, _slots_end, {
                "rate": 0.3, "seed": seed,
                "how": [500, 502, 503, 429, "lost", "500 after", "twice", "page", "404 page"]})
            self.assertEqual(after, left, seed)
            self.assertGreater(failures, 2)

    def test_made_after_all(self) -> None:
        """A request that was given up, and arrives after the next attempt's."""
        driver = self._driver(timeout=1)
        self.nova.fail({"how": "late", "seconds": 2.5, "on": "POST .*flavors "},
                       {"how": "late", "seconds": 2.5, "on": "POST .*os-aggregates "})

        def put() -> Iterator[Step]:
            yield lambda driver: driver.put_flavor(
                LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=True,
                resource_class="CUSTOM_X")
            yield lambda driver: driver.put_slot_aggregate(LEASE, PROJECT)

        self.assertEqual(2, self._go(put(), driver))
        time.sleep(3)
        self._go(put(), driver)
        world = self.nova.world()
        self.assertEqual((1, 1), (len(world["flavors"]), len(world["aggregates"])))
        self._go(_slots_end(), driver)
        world = self.nova.world()
        self.assertEqual(({}, {}), (world["flavors"], world["aggregates"]))

    def test_made_after_the_end(self) -> None:
        """What arrives after everything was removed is found, and removed."""
        driver = self._driver(timeout=1)
        self.nova.fail({"how": "late", "seconds": 2, "on": "POST .*flavors "})
        self.assertRaises(ComputeUnavailable, lambda: driver.put_flavor(
            LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=False))
        self._go(_slots_end(), driver)
        self.assertEqual({}, dict(driver.made()))
        deadline = time.monotonic() + 30
        while not driver.made() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual({LEASE: frozenset({FLAVOR})}, dict(driver.made()))
        self._go(_slots_end(), driver)
        self.assertEqual({}, dict(driver.made()))

    def test_many_at_once(self) -> None:
        """Eight that do the same at the same time, each twice: there is one of each."""
        self.nova.set(latency=0.005)
        drivers = [self.driver, self._driver()]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: self._go(_slots(), drivers[number % 2]), range(8)))
        self._go(_slots())
        world = self.nova.world()
        self.assertEqual((1, 2), (len(world["flavors"]), len(world["aggregates"])))
        self.assertEqual({LEASE: frozenset({FLAVOR, AGGREGATE})}, dict(self.driver.made()))
        self.assertEqual([PROJECT], world["flavors"][LEASE]["projects"])
        self.assertEqual({HOST}, self._hosts_of(LEASE))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: self._go(_slots_end(), drivers[number % 2]), range(8)))
        self.assertEqual({}, dict(self.driver.made()))


class TestImages(NovaTestCase):
    """A server that takes no image does not keep others from having one: they are deleted soon."""

    def setUp(self) -> None:
        super().setUp()
        self.driver = self._driver()
        self.driver.put_host_aggregate(LEASE, PROJECT)
        self.driver.add_host(LEASE, HOST)
        for _ in range(3):
            self.nova.boot(SERVICES[HOST], project=PROJECT)

    def _count_images(self) -> int:
        return len(self.nova.world()["images"])

    def test_a_server_that_refuses(self) -> None:
        for status in (409, 403):
            self.nova.set(images={})
            self.nova.fail({"how": status, "on": "POST .*createImage"})
            self.assertRaises(
                ComputeUnavailable, self.driver.snapshot_host_servers, LEASE, HOST)
            self.assertEqual(2, self._count_images())
        self.assertEqual(3, self.driver.snapshot_host_servers(LEASE, HOST))
        self.assertEqual(3, self._count_images())

    def test_a_server_that_is_gone(self) -> None:
        self.nova.fail({"how": 404, "on": "POST .*createImage"})
        self.assertEqual(2, self.driver.snapshot_host_servers(LEASE, HOST))


class TestErrors(NovaTestCase):
    """Which failures are worth another try."""

    def test_statuses(self) -> None:
        driver = self._driver()
        for how, error in (
            (400, ComputeRefused), (404, ComputeRefused), (401, ComputeUnavailable),
            (403, ComputeUnavailable), (409, ComputeUnavailable), (413, ComputeUnavailable),
            (429, ComputeUnavailable), (500, ComputeUnavailable), (502, ComputeUnavailable),
            (503, ComputeUnavailable), (504, ComputeUnavailable), ("page", ComputeUnavailable),
            ("404 page", ComputeUnavailable), ("lost", ComputeUnavailable),
        ):
            # A token that is refused is got anew once.
            self.nova.fail(*[{"how": how, "on": "POST .*os-aggregates"}] * 2)
            refused = self.assertRaises(error, driver.put_slot_aggregate, OTHER_LEASE, PROJECT)
            self.assertIn(f"the aggregate of reservation {OTHER_LEASE}", str(refused))
            self.nova.fail()
            driver.remove_aggregate(OTHER_LEASE)

    def test_zones(self) -> None:
        """A host that is in a zone already cannot be added where it would be in two."""
        driver = self._driver()
        driver.put_host_aggregate(OTHER_LEASE, PROJECT)
        driver.add_host(OTHER_LEASE, HOST)
        driver.put_host_aggregate(LEASE, PROJECT)
        refused = self.assertRaises(ComputeUnavailable, driver.add_host, LEASE, HOST)
        self.assertIn("already in availability zone", str(refused))

    def test_one_server_that_does_not_go(self) -> None:
        """It counts as left, keeps nobody but itself, and the log says why it stays."""
        log = self.useFixture(fixtures.FakeLogger("placement_plugins.compute"))
        driver = self._driver()
        for how, status in ((409, "ACTIVE"), (400, "ACTIVE"), (500, "ERROR")):
            servers = [self.nova.boot(SERVICES[HOST], specs={"blazar:preemptible": "true"},
                                      status=status) for _ in range(4)]
            stays = min(servers)
            self.nova.fail(*[{"how": how, "on": f"POST .*{stays}"}] * 2)
            self.assertEqual([4, 1], [driver.delete_preemptible_servers(HOST) for _ in range(2)])
            self.assertEqual({stays}, set(self.nova.world()["servers"]))
            self.assertIn(stays, log.output)
            self.assertEqual([1, 0], [driver.delete_preemptible_servers(HOST) for _ in range(2)])

    def test_no_answer_about_a_server(self) -> None:
        """Nobody knows whether it goes: an outage, however long, is no reason to give it up.

        Nova answers 500 while its message bus is away, or the database of a cell.
        """
        driver = self._driver()
        for how, status in (("404 page", "ACTIVE"), ("lost", "ERROR"), (500, "ACTIVE"),
                            (403, "ERROR"), (503, "ERROR")):
            for _ in range(2):
                self.nova.boot(SERVICES[HOST], specs={"blazar:preemptible": "true"},
                               status=status)
            self.nova.fail({"how": how, "on": "POST .*forceDelete"})
            self.assertRaises(ComputeUnavailable, driver.delete_preemptible_servers, HOST)
            _until_gone(lambda: driver.delete_preemptible_servers(HOST))

    def test_servers_that_go_between_two_pages(self) -> None:
        """The second page cannot be asked for then: the next attempt begins anew."""
        driver = self._driver()
        driver.put_host_aggregate(LEASE, PROJECT)
        driver.add_host(LEASE, HOST)
        for _ in range(4):
            self.nova.boot(SERVICES[HOST], project=PROJECT)
        self.nova.fail({"how": 400, "on": "marker="})
        self.assertRaises(ComputeUnavailable, driver.delete_host_servers, LEASE, HOST)
        self.assertEqual([4, 0], [driver.delete_host_servers(LEASE, HOST) for _ in range(2)])

    def test_conflicts(self) -> None:
        """One that does not mean that it was done before is no success."""
        driver = self._driver()
        driver.put_flavor(LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=False)
        self.nova.fail({"how": 409, "on": "addTenantAccess"})
        self.assertRaises(ComputeUnavailable, driver.grant_flavor, LEASE, PROJECT)
        driver.grant_flavor(LEASE, PROJECT)
        self.assertEqual([PROJECT], self.nova.world()["flavors"][LEASE]["projects"])

    def test_nobody_there(self) -> None:
        """It is asked again when it is there again, whatever it was asked first."""
        driver = self._driver()
        self.nova.fail(*[{"how": 503, "on": "GET"}] * 20)
        for _ in range(2):
            self.assertRaises(ComputeUnavailable, driver.freepool_hosts)
        self.nova.fail()
        driver.freepool_hosts()
        nobody = self._driver(auth_url="http://127.0.0.1:9/v3")
        self.assertRaises(ComputeUnavailable, nobody.freepool_hosts)

    def test_logins(self) -> None:
        self.assertRaises(
            ComputeUnavailable, self._driver(password="wrong").freepool_hosts)
        driver = self._driver(auth_type="admin_token", token="a token", endpoint=self.nova.nova)
        self.assertIn("service_project_id", str(
            self.assertRaises(ComputeRefused, driver.add_to_freepool, HOST)))
        driver.put_host_aggregate(LEASE, PROJECT)
        self.assertEqual({LEASE: frozenset({AGGREGATE})}, dict(driver.made()))

    def test_configuration(self) -> None:
        for changes, said in (
            ({"auth_type": None}, "[nova] auth_type"),
            ({"auth_type": "nonsense"}, "[nova]: "),
        ):
            error = self.assertRaises(errors.ConfigurationError, self._driver, **changes)
            self.assertIn(said, str(error))

    def test_what_nova_would_not_take(self) -> None:
        """The stand-in speaks as nova's schemas do."""
        driver = self._driver()
        self.assertRaises(ComputeRefused, lambda: driver.put_flavor(
            LEASE, vcpus=0, memory_mb=1, disk_gb=0, in_aggregate=False))
        self.assertRaises(ComputeRefused, lambda: driver.put_flavor(
            LEASE, vcpus=1, memory_mb=2**31, disk_gb=0, in_aggregate=False))
        self.assertEqual(2, len(self.nova.violations()))
        self.nova.reset()
