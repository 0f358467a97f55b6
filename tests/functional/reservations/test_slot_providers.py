"""The providers of slots of earlier versions: protected by an online migration."""

from __future__ import annotations

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.placement import errors, providers
from placement_core.reservations import tables
from placement_core.reservations.hosts import host_copies
from placement_core.reservations.provisioning import slot_providers
from placement_core.reservations.records import Host
from tests import databases
from tests.functional.reservations.pool_cases import PoolTestCase


@databases.on_each_database
class TestProtection(PoolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.reservations"))
        self.one, self.two = self.host("one"), self.host("two")

    def migrate(self, max_count: int = 10) -> tuple[int, int]:
        return slot_providers.protect(self.context(), max_count)

    def waiting(self) -> int:
        return slot_providers.count_unprotected(self.context())

    def test_new_hosts_need_none(self) -> None:
        self.assertEqual((0, (0, 0)), (self.waiting(), self.migrate()))

    def test_one_after_the_other(self) -> None:
        for host in (self.one, self.two):
            self.unprotect_child(host)
        child = self.child(self.one)
        self.assertEqual([(2, (1, 1)), (1, (1, 1)), (0, (0, 0))], [
            (self.waiting(), self.migrate(1)) for _ in range(3)])
        self.assertEqual(child, self.child(self.one))
        for host in (self.one, self.two):
            self.check_protected(host)
            self.pool.remove(self.context(), str(host.id))
        self.assertEqual("", self.log.output)

    def test_one_that_was_deleted(self) -> None:
        before = self.child(self.one)
        self.lose_child(self.one)
        self.assertEqual(((1, 1), 0), (self.migrate(), self.waiting()))
        child = providers.get(self.ctx, self.child(self.one))
        self.assertNotEqual(before, child.uuid)
        self.assertEqual(("reservation_one", self.one.provider_uuid),
                         (child.name, child.parent_uuid))
        self.assertIn("was deleted, and is made anew", self.log.output)

    def test_one_whose_name_is_taken(self) -> None:
        """It stays as it is, and keeps nobody from the others."""
        self.lose_child(self.one)
        providers.create(self.context(), name="reservation_one")
        self.unprotect_child(self.two)
        self.assertEqual(((2, 1), 1), (self.migrate(), self.waiting()))
        self.assertIn("none can be made", self.log.output)

    def name_child_of_another(self, host: Host, other: Host) -> None:
        """Have a host name another one's provider, as if that had got the id of one it lost."""
        hosts = tables.computehosts
        self.lose_child(host)
        with db.write(self.ctx) as session:
            child_id = session.execute(sa.select(hosts.c.reservation_provider_id).where(
                hosts.c.id == other.id)).scalar_one()
            session.execute(sa.update(hosts).where(hosts.c.id == host.id).values(
                reservation_provider_id=child_id))

    def check_protected(self, host: Host) -> None:
        self.assertRaises(errors.ProviderReserved, providers.delete, self.context(),
                          self.child(host))

    def test_one_whose_id_another_has_by_now(self) -> None:
        self.name_child_of_another(self.one, self.two)
        self.assertEqual((1, (1, 1), 0), (self.waiting(), self.migrate(), self.waiting()))
        self.assertNotEqual(self.child(self.one), self.child(self.two))
        self.assertEqual(self.one.provider_uuid,
                         providers.get(self.ctx, self.child(self.one)).parent_uuid)

    def test_a_host_that_goes_leaves_those_of_others(self) -> None:
        self.name_child_of_another(self.one, self.two)
        self.pool.remove(self.context(), str(self.one.id))
        self.check_protected(self.two)
        providers.delete(self.context(), self.one.provider_uuid)

    def test_a_copy_that_goes_leaves_those_of_others(self) -> None:
        self.name_child_of_another(self.one, self.two)
        host_copies.remove(self.context(), self.one.id)
        self.check_protected(self.two)
        providers.delete(self.context(), self.one.provider_uuid)

    def test_another_process_is_first(self) -> None:
        self.unprotect_child(self.one)
        read = slot_providers._read_unprotected

        def read_too_early(ctx):
            hosts = read(ctx)
            for host in hosts:
                slot_providers._protect(self.context(), host.id)
            return hosts

        self.useFixture(fixtures.MonkeyPatch(
            f"{slot_providers.__name__}._read_unprotected", read_too_early))
        self.assertEqual((1, 0), self.migrate())
