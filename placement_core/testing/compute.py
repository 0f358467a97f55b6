"""The contract of compute drivers, as tests for their authors.

Write ``class TestX(ComputeContract, unittest.TestCase)`` with ``given`` and the methods after it,
which look at the compute service without the driver. If the driver does not act
(``ComputeDriver.acts``), ``given`` is enough.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    SERVER_GROUP,
    ComputeDriver,
    ComputeRefused,
)

#: Names of hosts, some of which are parts of others.
HOSTS = ("node1.example", "node10.example", "x-node1.example")
HOST, OTHER_HOST, THIRD_HOST = HOSTS
LEASE = "0d4bf6f6-4ab9-4b41-8fd5-0f5f9d2a5f01"
OTHER_LEASE = "0d4bf6f6-4ab9-4b41-8fd5-0f5f9d2a5f02"
PROJECT = "b0" * 16
OTHER_PROJECT = "b1" * 16

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class ComputeContract(_Mixin):
    """Tests that every compute driver has to pass."""

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

    def server_group(self, lease: str) -> None:
        """Create a server group of a reservation, as earlier releases did."""
        raise NotImplementedError

    def setUp(self) -> None:
        """Create the driver."""
        super().setUp()
        self.driver = self.given(HOSTS)

    def _twice(self, call: Callable[..., object], *values: object, **named: object) -> None:
        """Make a call twice; both have to return the same."""
        self.assertEqual(call(*values, **named), call(*values, **named))

    def _expect(self, expected: object, found: Callable[[], object]) -> None:
        """Compare the state of the compute service, if the driver acts."""
        if self.driver.acts:
            self.assertEqual(expected, found())

    def _made(self, **expected: Collection[str]) -> None:
        leases = {"lease": LEASE, "other_lease": OTHER_LEASE}
        self.assertEqual(
            {leases[name]: frozenset(kinds) for name, kinds in expected.items()}
            if self.driver.acts else {}, dict(self.driver.made()))

    def _put_flavor(self, lease: str = LEASE, vcpus: int = 2) -> str | None:
        return self.driver.put_flavor(
            lease, vcpus=vcpus, memory_mb=1024, disk_gb=10, in_aggregate=True)

    def _until_none(self, call: Callable[..., int], *values: object) -> None:
        for _ in range(20):
            if not call(*values):
                return
        self.fail("There is no end of servers.")

    def test_nothing(self) -> None:
        """Deleting what does not exist is no error, and there are no servers."""
        self._made()
        driver = self.driver
        for call in (
            lambda: driver.remove_flavor(LEASE), lambda: driver.remove_server_group(LEASE),
            lambda: driver.remove_aggregate(LEASE), lambda: driver.remove_host(LEASE, HOST),
            lambda: driver.revoke_flavor(LEASE, PROJECT),
            lambda: driver.remove_from_freepool(HOST), lambda: driver.remove_from_freepool("no"),
        ):
            self._twice(call)
        counts: tuple[Callable[[], int], ...] = (
            lambda: driver.delete_flavor_servers(LEASE),
            lambda: driver.delete_host_servers(LEASE, HOST),
            lambda: driver.snapshot_host_servers(LEASE, HOST),
            lambda: driver.delete_preemptible_servers(HOST),
        )
        for count in counts:
            self.assertEqual((0, 0), (count(), count()))
        self._made()

    def test_freepool(self) -> None:
        """Hosts are added to the freepool and removed, which does not affect reservations."""
        self.assertEqual(frozenset(), self.driver.freepool_hosts())
        self._twice(self.driver.add_to_freepool, HOST)
        self._twice(self.driver.add_to_freepool, THIRD_HOST)
        self._expect({HOST, THIRD_HOST}, self.freepool)
        self._expect(frozenset({HOST, THIRD_HOST}), self.driver.freepool_hosts)
        self._twice(self.driver.remove_from_freepool, HOST)
        self._twice(self.driver.remove_from_freepool, OTHER_HOST)
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
            self._twice(self.driver.grant_flavor, LEASE, project)
        self._put_flavor(vcpus=4)
        self._expect({PROJECT, OTHER_PROJECT}, lambda: self.users(LEASE))
        self._twice(self.driver.revoke_flavor, LEASE, PROJECT)
        self._expect({OTHER_PROJECT}, lambda: self.users(LEASE))
        self._twice(self.driver.remove_flavor, LEASE)
        self._made()

    def test_server_group(self) -> None:
        """Server groups of earlier releases are deleted."""
        if self.driver.acts:
            for lease in (LEASE, LEASE, OTHER_LEASE):
                self.server_group(lease)
        self._made(lease={SERVER_GROUP}, other_lease={SERVER_GROUP})
        self._twice(self.driver.remove_server_group, LEASE)
        self._made(other_lease={SERVER_GROUP})

    def test_aggregates(self) -> None:
        """Hosts are added to both kinds of aggregates, and may be in the freepool, too."""
        self.driver.add_to_freepool(HOST)
        self._twice(self.driver.put_slot_aggregate, LEASE, PROJECT)
        self._twice(self.driver.put_host_aggregate, OTHER_LEASE, PROJECT)
        for lease, host in ((LEASE, HOST), (LEASE, OTHER_HOST), (OTHER_LEASE, THIRD_HOST)):
            self._twice(self.driver.add_host, lease, host)
        self._made(lease={AGGREGATE}, other_lease={AGGREGATE})
        self._expect({HOST, OTHER_HOST}, lambda: self.hosts(LEASE))
        self._expect({THIRD_HOST}, lambda: self.hosts(OTHER_LEASE))
        self._expect({HOST}, self.freepool)
        self._twice(self.driver.remove_host, LEASE, HOST)
        self._expect({OTHER_HOST}, lambda: self.hosts(LEASE))
        for lease in (LEASE, OTHER_LEASE):
            self._twice(self.driver.remove_aggregate, lease)
        self._made()
        self._expect({HOST}, self.freepool)

    def test_what_is_not_there(self) -> None:
        """Calls for hosts, aggregates and flavors that do not exist raise ComputeRefused."""
        if not self.driver.acts:
            return
        self.driver.put_slot_aggregate(LEASE, PROJECT)
        for call in (
            lambda: self.driver.add_host(LEASE, "node"),
            lambda: self.driver.add_host(OTHER_LEASE, HOST),
            lambda: self.driver.add_to_freepool("example"),
            lambda: self.driver.grant_flavor(LEASE, PROJECT),
        ):
            self.assertRaises(ComputeRefused, call)
        self._expect((set(), set()), lambda: (self.hosts(LEASE), self.freepool()))

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
            self.assertLess(0, self.driver.delete_flavor_servers(LEASE))
        self._until_none(self.driver.delete_flavor_servers, LEASE)
        self._expect(set(stays), self.servers)

    def test_servers_of_a_host(self) -> None:
        """Servers on a host are deleted only while the reservation has the host."""
        self.driver.put_host_aggregate(LEASE, PROJECT)
        for host in (HOST, THIRD_HOST):
            self.driver.add_host(LEASE, host)
        stays = set()
        if self.driver.acts:
            for _ in range(4):
                self.boot(HOST, project_id=PROJECT)
            stays = {self.boot(host, project_id=PROJECT) for host in HOSTS[1:]}
            self.assertEqual(4, self.driver.snapshot_host_servers(LEASE, HOST))
            self.driver.snapshot_host_servers(LEASE, HOST)
        self._expect(4, lambda: len(self.images()))
        self._expect(4, lambda: len(set(self.images())))
        self._until_none(self.driver.delete_host_servers, LEASE, HOST)
        self._expect(stays, self.servers)
        self.assertEqual(0, self.driver.delete_host_servers(OTHER_LEASE, THIRD_HOST))
        self.driver.remove_host(LEASE, HOST)
        if self.driver.acts:
            stays.add(self.boot(HOST, project_id=OTHER_PROJECT))
        self.assertEqual(0, self.driver.delete_host_servers(LEASE, HOST))
        self.assertEqual(0, self.driver.snapshot_host_servers(LEASE, HOST))
        self._expect(stays, self.servers)
        self._expect(4, lambda: len(self.images()))

    def test_servers_of_others_on_a_host(self) -> None:
        """Servers of other projects on a reserved host are not deleted."""
        self.driver.put_host_aggregate(LEASE, PROJECT)
        self.driver.add_host(LEASE, HOST)
        stays = set()
        if self.driver.acts:
            stays.add(self.boot(HOST, project_id=OTHER_PROJECT))
            self.boot(HOST, project_id=PROJECT)
            self.assertEqual(1, self.driver.snapshot_host_servers(LEASE, HOST))
        self._until_none(self.driver.delete_host_servers, LEASE, HOST)
        self._expect(stays, self.servers)

    def test_preemptible_servers(self) -> None:
        """Only the preemptible servers on the host are deleted."""
        stays = set()
        if self.driver.acts:
            stays = {self.boot(HOST, project_id=PROJECT),
                     self.boot(OTHER_HOST, project_id=PROJECT, preemptible=True)}
            self.boot(HOST, project_id=PROJECT, preemptible=True)
        self._until_none(self.driver.delete_preemptible_servers, HOST)
        self._expect(stays, self.servers)

    def test_a_life_of_slots(self) -> None:
        """The calls of an instance reservation, most of them repeated, leave no objects."""
        for host in HOSTS:
            self.driver.add_to_freepool(host)
        self._twice(
            self.driver.put_flavor, LEASE, vcpus=1, memory_mb=512, disk_gb=0,
            in_aggregate=True, resource_class="CUSTOM_RESERVATION_X")
        self._twice(self.driver.put_slot_aggregate, LEASE, PROJECT)
        self._twice(self.driver.add_host, LEASE, HOST)
        self._twice(self.driver.grant_flavor, LEASE, PROJECT)
        self._made(lease={FLAVOR, AGGREGATE})
        if self.driver.acts:
            self.boot(HOST, project_id=PROJECT, lease=LEASE)
        self._twice(self.driver.revoke_flavor, LEASE, PROJECT)
        self._until_none(self.driver.delete_flavor_servers, LEASE)
        self._twice(self.driver.remove_aggregate, LEASE)
        self._twice(self.driver.remove_flavor, LEASE)
        self._twice(self.driver.remove_server_group, LEASE)
        self._made()
        self._expect((set(), set(HOSTS)), lambda: (self.servers(), self.freepool()))

    def test_a_life_of_hosts(self) -> None:
        """The calls of a host reservation, most of them repeated, leave no objects."""
        for host in HOSTS:
            self.driver.add_to_freepool(host)
        self._twice(self.driver.put_host_aggregate, LEASE, PROJECT)
        if self.driver.acts:
            self.boot(HOST, project_id=OTHER_PROJECT, preemptible=True)
        for host in (HOST, THIRD_HOST):
            self._until_none(
                self.driver.delete_preemptible_servers, host)
            self._twice(self.driver.add_host, LEASE, host)
            self._twice(self.driver.remove_from_freepool, host)
        self._expect(({HOST, THIRD_HOST}, {OTHER_HOST}),
                     lambda: (self.hosts(LEASE), self.freepool()))
        if self.driver.acts:
            self.boot(THIRD_HOST, project_id=PROJECT)
        for host in (HOST, THIRD_HOST):
            self._until_none(self.driver.delete_host_servers, LEASE, host)
            self._twice(self.driver.add_to_freepool, host)
        self._twice(self.driver.remove_aggregate, LEASE)
        self._made()
        self._expect((set(), set(HOSTS)), lambda: (self.servers(), self.freepool()))
