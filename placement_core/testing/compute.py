"""The contract of compute drivers, as tests for their authors.

Write ``class TestX(ComputeContract, unittest.TestCase)`` with ``given`` and the methods after it,
which look at the compute service without the driver. If the driver does not act
(``ComputeDriver.acts``), ``given`` is enough.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from placement_core.plugin_api import loader
from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    SERVER_GROUP,
    ComputeDriver,
    ComputeRefused,
    check_result,
)

#: Names of hosts, some of which are parts of others.
HOSTS = ("node1.example", "node10.example", "x-node1.example")
HOST, OTHER_HOST, THIRD_HOST = HOSTS
LEASE = "0d4bf6f6-4ab9-4b41-8fd5-0f5f9d2a5f01"
OTHER_LEASE = "0d4bf6f6-4ab9-4b41-8fd5-0f5f9d2a5f02"
PROJECT = "b0" * 16
OTHER_PROJECT = "b1" * 16
RESOURCE_CLASS = "CUSTOM_RESERVATION_CONTRACT"

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class ComputeContract(_Mixin):
    """Tests that every compute driver has to pass.

    They name the arguments of every call, as the manager does.
    """

    driver: ComputeDriver

    def given(self, hosts: Collection[str]) -> ComputeDriver:
        """Return a driver for a compute service that has these hosts, and nothing else."""
        raise NotImplementedError

    def boot(
        self, host: str, *, project_id: str, lease: str | None = None, preemptible: bool = False
    ) -> str:
        """Create a server on a host, without the scheduler; return its id.

        :param lease: the reservation whose flavor the server has.
        """
        raise NotImplementedError

    def servers(self) -> set[str]:
        """Return the ids of all servers."""
        raise NotImplementedError

    def images(self) -> list[str]:
        """Return the id of the server of each image."""
        raise NotImplementedError

    def finish_images(self) -> None:
        """Finish all images, if that takes time after the call that creates them."""

    def freepool(self) -> set[str]:
        """Return the hosts in the freepool."""
        raise NotImplementedError

    def hosts(self, lease: str) -> set[str]:
        """Return the hosts in the aggregate of a reservation."""
        raise NotImplementedError

    def size(self, lease: str) -> tuple[int, int, int]:
        """Return VCPUs, MiB and GiB of a reservation's flavor."""
        raise NotImplementedError

    def users(self, lease: str) -> set[str]:
        """Return the projects that may use a reservation's flavor."""
        raise NotImplementedError

    def flavor_class(self, lease: str) -> str | None:
        """Return the resource class of which a server with a reservation's flavor takes 1.

        :returns: None: it takes none of a class of its own.
        """
        raise NotImplementedError

    def flavor_in_aggregate(self, lease: str) -> bool:
        """Say whether servers with a reservation's flavor go to hosts of its aggregate only."""
        raise NotImplementedError

    def slot_project(self, lease: str) -> str | None:
        """Return the project whose servers may use the hosts of an instance reservation.

        :returns: None: any project.
        """
        raise NotImplementedError

    def server_group(self, lease: str) -> None:
        """Create a server group of a reservation, as earlier releases did."""
        raise NotImplementedError

    def setUp(self) -> None:
        """Create the driver."""
        super().setUp()
        self.driver = self.given(HOSTS)

    def _twice(self, call: Callable[..., object], /, **arguments: object) -> None:
        """Make a call twice; both have to return the same."""
        self.assertEqual(call(**arguments), call(**arguments))

    def _expect(self, expected: object, found: Callable[[], object]) -> None:
        """Compare the state of the compute service, if the driver acts."""
        if self.driver.acts:
            self.assertEqual(expected, found())

    def _made(self, **expected: Collection[str]) -> None:
        leases = {"lease": LEASE, "other_lease": OTHER_LEASE}
        self.assertEqual(
            {leases[name]: frozenset(kinds) for name, kinds in expected.items()}
            if self.driver.acts else {}, dict(self.driver.made()))

    def _put_flavor(
        self, lease: str = LEASE, vcpus: int = 2, *, in_aggregate: bool = True,
        resource_class: str = RESOURCE_CLASS,
    ) -> str | None:
        return self.driver.put_flavor(
            reservation_id=lease, vcpus=vcpus, memory_mb=1024, disk_gb=10,
            in_aggregate=in_aggregate, resource_class=resource_class)

    def _until_none(self, call: Callable[..., int], /, **arguments: object) -> None:
        for _ in range(20):
            if not call(**arguments):
                return
        self.fail("There is no end of servers.")

    def test_version(self) -> None:
        """The class of the driver has its own ``api_version``, which is the present one."""
        self.assertIsNone(loader.find_mismatch("the driver", type(self.driver), ComputeDriver))

    def test_nothing(self) -> None:
        """Deleting what does not exist is no error, and there are no servers."""
        self._made()
        driver = self.driver
        for call in (
            lambda: driver.remove_flavor(reservation_id=LEASE),
            lambda: driver.remove_server_group(reservation_id=LEASE),
            lambda: driver.remove_aggregate(reservation_id=LEASE),
            lambda: driver.remove_host(reservation_id=LEASE, host=HOST),
            lambda: driver.revoke_flavor(reservation_id=LEASE, project_id=PROJECT),
            lambda: driver.remove_from_freepool(host=HOST),
            lambda: driver.remove_from_freepool(host="no"),
        ):
            self._twice(call)
        counts: tuple[Callable[[], int], ...] = (
            lambda: driver.delete_flavor_servers(reservation_id=LEASE),
            lambda: driver.delete_host_servers(reservation_id=LEASE, host=HOST),
            lambda: driver.snapshot_host_servers(reservation_id=LEASE, host=HOST),
            lambda: driver.delete_preemptible_servers(host=HOST),
        )
        for count in counts:
            self.assertEqual((0, 0), (count(), count()))
        self._made()

    def test_freepool(self) -> None:
        """Hosts are added to the freepool and removed, which does not affect reservations."""
        self.assertEqual(frozenset(), self.driver.freepool_hosts())
        self._twice(self.driver.add_to_freepool, host=HOST)
        self._twice(self.driver.add_to_freepool, host=THIRD_HOST)
        self._expect({HOST, THIRD_HOST}, self.freepool)
        self._expect(frozenset({HOST, THIRD_HOST}), self.driver.freepool_hosts)
        self._twice(self.driver.remove_from_freepool, host=HOST)
        self._twice(self.driver.remove_from_freepool, host=OTHER_HOST)
        self._expect({THIRD_HOST}, self.freepool)
        self._made()

    def test_flavor(self) -> None:
        """A flavor has the size of the last call, and the projects with access."""
        self._twice(self._put_flavor)
        self.assertEqual(self.driver.acts, self._put_flavor() is not None)
        self._made(lease={FLAVOR})
        self._expect((2, 1024, 10), lambda: self.size(LEASE))
        self._expect(set(), lambda: self.users(LEASE))
        self._put_flavor(vcpus=4)
        self._expect((4, 1024, 10), lambda: self.size(LEASE))
        for project in (PROJECT, OTHER_PROJECT):
            self._twice(self.driver.grant_flavor, reservation_id=LEASE, project_id=project)
        self._put_flavor(vcpus=4)
        self._expect({PROJECT, OTHER_PROJECT}, lambda: self.users(LEASE))
        self._twice(self.driver.revoke_flavor, reservation_id=LEASE, project_id=PROJECT)
        self._expect({OTHER_PROJECT}, lambda: self.users(LEASE))
        self._twice(self.driver.remove_flavor, reservation_id=LEASE)
        self._made()

    def test_where_servers_of_a_flavor_go(self) -> None:
        """The resource class and the aggregate of a flavor are those of the last call.

        The design can be another one when a reservation starts than when it was made.
        """
        for in_aggregate, resource_class in (
            (False, RESOURCE_CLASS), (True, RESOURCE_CLASS), (False, RESOURCE_CLASS),
            (False, "CUSTOM_RESERVATION_OTHER"),
        ):
            self._twice(
                self._put_flavor, in_aggregate=in_aggregate, resource_class=resource_class)
            self._expect(
                (resource_class, in_aggregate),
                lambda: (self.flavor_class(LEASE), self.flavor_in_aggregate(LEASE)))

    def test_results(self) -> None:
        """Calls return what their docstrings say: the service refuses anything else."""
        driver = self.driver
        for name, call in (
            ("put_flavor", self._put_flavor),
            ("put_slot_aggregate", lambda: driver.put_slot_aggregate(
                reservation_id=LEASE, project_id=PROJECT)),
            ("put_host_aggregate", lambda: driver.put_host_aggregate(
                reservation_id=OTHER_LEASE, project_id=PROJECT)),
            ("add_host", lambda: driver.add_host(reservation_id=LEASE, host=HOST)),
            ("delete_flavor_servers", lambda: driver.delete_flavor_servers(reservation_id=LEASE)),
            ("delete_preemptible_servers", lambda: driver.delete_preemptible_servers(host=HOST)),
            ("snapshot_host_servers", lambda: driver.snapshot_host_servers(
                reservation_id=OTHER_LEASE, host=HOST)),
            ("delete_host_servers", lambda: driver.delete_host_servers(
                reservation_id=OTHER_LEASE, host=HOST)),
        ):
            check_result(name, call())

    def test_server_group(self) -> None:
        """Server groups of earlier releases are deleted."""
        if self.driver.acts:
            for lease in (LEASE, LEASE, OTHER_LEASE):
                self.server_group(lease)
        self._made(lease={SERVER_GROUP}, other_lease={SERVER_GROUP})
        self._twice(self.driver.remove_server_group, reservation_id=LEASE)
        self._made(other_lease={SERVER_GROUP})

    def test_aggregates(self) -> None:
        """Hosts are added to both kinds of aggregates, and may be in the freepool, too."""
        self.driver.add_to_freepool(host=HOST)
        self._twice(self.driver.put_slot_aggregate, reservation_id=LEASE, project_id=PROJECT)
        self._twice(self.driver.put_host_aggregate, reservation_id=OTHER_LEASE, project_id=PROJECT)
        for lease, host in ((LEASE, HOST), (LEASE, OTHER_HOST), (OTHER_LEASE, THIRD_HOST)):
            self._twice(self.driver.add_host, reservation_id=lease, host=host)
        self._made(lease={AGGREGATE}, other_lease={AGGREGATE})
        self._expect({HOST, OTHER_HOST}, lambda: self.hosts(LEASE))
        self._expect({THIRD_HOST}, lambda: self.hosts(OTHER_LEASE))
        self._expect({HOST}, self.freepool)
        self._twice(self.driver.remove_host, reservation_id=LEASE, host=HOST)
        self._expect({OTHER_HOST}, lambda: self.hosts(LEASE))
        for lease in (LEASE, OTHER_LEASE):
            self._twice(self.driver.remove_aggregate, reservation_id=lease)
        self._made()
        self._expect({HOST}, self.freepool)

    def test_an_aggregate_that_is_opened(self) -> None:
        """Without a freepool, any project may use the hosts of slots; they stay where they are."""
        self.driver.put_slot_aggregate(reservation_id=LEASE, project_id=None)
        self.driver.add_host(reservation_id=LEASE, host=HOST)
        for project in (None, PROJECT, None):
            self._twice(self.driver.put_slot_aggregate, reservation_id=LEASE, project_id=project)
            self._made(lease={AGGREGATE})
            self._expect(
                (project, {HOST}), lambda: (self.slot_project(LEASE), self.hosts(LEASE)))

    def test_what_is_not_there(self) -> None:
        """Calls for hosts, aggregates and flavors that do not exist raise ComputeRefused."""
        if not self.driver.acts:
            return
        self.driver.put_slot_aggregate(reservation_id=LEASE, project_id=PROJECT)
        for call in (
            lambda: self.driver.add_host(reservation_id=LEASE, host="node"),
            lambda: self.driver.add_host(reservation_id=OTHER_LEASE, host=HOST),
            lambda: self.driver.add_to_freepool(host="example"),
            lambda: self.driver.grant_flavor(reservation_id=LEASE, project_id=PROJECT),
        ):
            self.assertRaises(ComputeRefused, call)
        self._expect((set(), set()), lambda: (self.hosts(LEASE), self.freepool()))

    def test_a_host_that_is_gone(self) -> None:
        """A reservation is rid of a host that is gone, and its end does not wait for it."""
        self.driver.put_host_aggregate(reservation_id=LEASE, project_id=PROJECT)
        self.driver.add_host(reservation_id=LEASE, host=HOST)
        stays = {self.boot(HOST, project_id=PROJECT)} if self.driver.acts else set()
        gone = {"reservation_id": LEASE, "host": "gone.example"}
        for _ in range(2):
            self.assertEqual(0, self.driver.snapshot_host_servers(**gone))
            self.assertEqual(0, self.driver.delete_host_servers(**gone))
            self.driver.remove_host(**gone)
            self.driver.remove_from_freepool(host=gone["host"])
        self._expect((stays, {HOST}), lambda: (self.servers(), self.hosts(LEASE)))

    def test_servers_of_a_flavor(self) -> None:
        """The servers with a reservation's flavor are deleted on all hosts, and no others."""
        for lease in (LEASE, OTHER_LEASE):
            self._put_flavor(lease)
        stays = [] if not self.driver.acts else [
            self.boot(HOST, project_id=PROJECT),
            self.boot(HOST, project_id=PROJECT, lease=OTHER_LEASE)]
        if self.driver.acts:
            for number in range(5):
                self.boot(HOSTS[number % 3], project_id=PROJECT, lease=LEASE)
            self.assertLess(0, self.driver.delete_flavor_servers(reservation_id=LEASE))
        self._until_none(self.driver.delete_flavor_servers, reservation_id=LEASE)
        self._expect(set(stays), self.servers)

    def test_servers_of_a_host(self) -> None:
        """Servers on a host are deleted only while the reservation has the host."""
        self.driver.put_host_aggregate(reservation_id=LEASE, project_id=PROJECT)
        for host in (HOST, THIRD_HOST):
            self.driver.add_host(reservation_id=LEASE, host=host)
        of_host = {"reservation_id": LEASE, "host": HOST}
        stays = set()
        if self.driver.acts:
            for _ in range(4):
                self.boot(HOST, project_id=PROJECT)
            stays = {self.boot(host, project_id=PROJECT) for host in HOSTS[1:]}
            self.assertEqual(4, self.driver.snapshot_host_servers(**of_host))
            self.driver.snapshot_host_servers(**of_host)
        self._expect(4, lambda: len(self.images()))
        self._expect(4, lambda: len(set(self.images())))
        self._until_none(self.driver.delete_host_servers, **of_host)
        self._expect(stays, self.servers)
        self.assertEqual(0, self.driver.delete_host_servers(
            reservation_id=OTHER_LEASE, host=THIRD_HOST))
        self.driver.remove_host(**of_host)
        if self.driver.acts:
            stays.add(self.boot(HOST, project_id=OTHER_PROJECT))
        self.assertEqual(0, self.driver.delete_host_servers(**of_host))
        self.assertEqual(0, self.driver.snapshot_host_servers(**of_host))
        self._expect(stays, self.servers)
        self._expect(4, lambda: len(self.images()))

    def test_images_of_a_later_end(self) -> None:
        """Images that were due at another time are made again, once."""
        self.driver.put_host_aggregate(reservation_id=LEASE, project_id=PROJECT)
        self.driver.add_host(reservation_id=LEASE, host=HOST)
        if self.driver.acts:
            self.boot(HOST, project_id=PROJECT)
        for due_at, count in (
                ("2027-01-01T23:00:00Z", 1), ("2027-01-08T23:00:00Z", 2), (None, 2)):
            for _ in range(2):
                self.driver.snapshot_host_servers(
                    reservation_id=LEASE, host=HOST, due_at=due_at)
                self.finish_images()
            self._expect(count, lambda: len(self.images()))
            self.assertEqual(0, self.driver.snapshot_host_servers(
                reservation_id=LEASE, host=HOST, due_at=due_at))

    def test_servers_of_others_on_a_host(self) -> None:
        """Servers of other projects on a reserved host are not deleted."""
        self.driver.put_host_aggregate(reservation_id=LEASE, project_id=PROJECT)
        self.driver.add_host(reservation_id=LEASE, host=HOST)
        of_host = {"reservation_id": LEASE, "host": HOST}
        stays = set()
        if self.driver.acts:
            stays.add(self.boot(HOST, project_id=OTHER_PROJECT))
            self.boot(HOST, project_id=PROJECT)
            self.assertEqual(1, self.driver.snapshot_host_servers(**of_host))
        self._until_none(self.driver.delete_host_servers, **of_host)
        self._expect(stays, self.servers)

    def test_preemptible_servers(self) -> None:
        """Only the preemptible servers on the host are deleted."""
        stays = set()
        if self.driver.acts:
            stays = {self.boot(HOST, project_id=PROJECT),
                     self.boot(OTHER_HOST, project_id=PROJECT, preemptible=True)}
            self.boot(HOST, project_id=PROJECT, preemptible=True)
        self._until_none(self.driver.delete_preemptible_servers, host=HOST)
        self._expect(stays, self.servers)

    def test_a_life_of_slots(self) -> None:
        """The calls of an instance reservation, most of them repeated, leave no objects."""
        for host in HOSTS:
            self.driver.add_to_freepool(host=host)
        of_lease = {"reservation_id": LEASE}
        self._twice(
            self.driver.put_flavor, **of_lease, vcpus=1, memory_mb=512, disk_gb=0,
            in_aggregate=True, resource_class=RESOURCE_CLASS)
        self._twice(self.driver.put_slot_aggregate, **of_lease, project_id=PROJECT)
        self._twice(self.driver.add_host, **of_lease, host=HOST)
        self._twice(self.driver.grant_flavor, **of_lease, project_id=PROJECT)
        self._made(lease={FLAVOR, AGGREGATE})
        if self.driver.acts:
            self.boot(HOST, project_id=PROJECT, lease=LEASE)
        self._twice(self.driver.revoke_flavor, **of_lease, project_id=PROJECT)
        self._until_none(self.driver.delete_flavor_servers, **of_lease)
        self._twice(self.driver.remove_aggregate, **of_lease)
        self._twice(self.driver.remove_flavor, **of_lease)
        self._twice(self.driver.remove_server_group, **of_lease)
        self._made()
        self._expect((set(), set(HOSTS)), lambda: (self.servers(), self.freepool()))

    def test_a_life_of_hosts(self) -> None:
        """The calls of a host reservation, most of them repeated, leave no objects."""
        for host in HOSTS:
            self.driver.add_to_freepool(host=host)
        of_lease = {"reservation_id": LEASE}
        self._twice(self.driver.put_host_aggregate, **of_lease, project_id=PROJECT)
        if self.driver.acts:
            self.boot(HOST, project_id=OTHER_PROJECT, preemptible=True)
        for host in (HOST, THIRD_HOST):
            self._until_none(self.driver.delete_preemptible_servers, host=host)
            self._twice(self.driver.add_host, **of_lease, host=host)
            self._twice(self.driver.remove_from_freepool, host=host)
        self._expect(({HOST, THIRD_HOST}, {OTHER_HOST}),
                     lambda: (self.hosts(LEASE), self.freepool()))
        if self.driver.acts:
            self.boot(THIRD_HOST, project_id=PROJECT)
        for host in (HOST, THIRD_HOST):
            self._until_none(self.driver.delete_host_servers, **of_lease, host=host)
            self._twice(self.driver.add_to_freepool, host=host)
        self._twice(self.driver.remove_aggregate, **of_lease)
        self._made()
        self._expect((set(), set(HOSTS)), lambda: (self.servers(), self.freepool()))
