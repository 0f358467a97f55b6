"""The base of tests of the outbox."""

import fixtures
import sqlalchemy as sa

from placement_core.db import clock, transactions
from placement_core.reservations import tables
from placement_core.reservations.provisioning import outbox
from placement_core.testing.fakes import MemoryCompute
from tests.functional.reservations.provisioner_cases import ProvisionerTestCase


class Killed(BaseException):
    """A worker dies at this moment."""


class LostCommit(fixtures.Fixture):
    """The next COMMIT is made, and its answer is lost."""

    def _setUp(self):
        commit = transactions._commit

        def lose(*arguments):
            transactions._commit = commit
            commit(*arguments)
            return sa.exc.OperationalError("COMMIT", {}, ConnectionResetError())

        self.useFixture(fixtures.MonkeyPatch(f"{transactions.__name__}._commit", lose))


class OutboxTestCase(ProvisionerTestCase):
    """A test with a compute service in memory."""

    design = "aggregate"
    acts = True

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.reservations"))
        self.one, self.two = self.host("one"), self.host("two")
        self.compute = MemoryCompute(["one", "two"])
        self.compute.freepool = {"one", "two"}
        self.compute.calls.clear()

    def work(self, owner="worker", most=100, patience_seconds=600, driver=None):
        return outbox.make_calls(
            self.context(), driver or self.compute, owner, most,
            patience_seconds=patience_seconds)

    def pass_time(self, **values):
        """Let every pause and deadline be over."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.outbox).values(
                next_at=clock.now(), deadline_at=clock.now(), **values))

    def give_up(self):
        """Let it be too late for what has a time."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.outbox).where(
                tables.outbox.c.give_up_at.is_not(None)).values(give_up_at=clock.now()))

    def work_until_done(self):
        for _ in range(20):
            self.work()
            if not self.waiting():
                return
            self.pass_time()
        self.fail(f"There is no end of calls: {outbox.list_(self.ctx)}")

    def names(self):
        """Return the names of the calls so far, and forget them."""
        found = [call[0] for call in self.compute.calls]
        self.compute.calls.clear()
        return found

    def failing(self, name, error, times=1, of=None):
        """Let a call fail some times; only of one reservation, if that is given."""
        left = [times]

        def before(*call):
            if call[0] == name and left[0] and of in (None, call[1]):
                left[0] -= 1
                raise error

        self.compute.before = before
