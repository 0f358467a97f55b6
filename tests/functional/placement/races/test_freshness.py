import pathlib
import tempfile
import threading
import time

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.placement import allocations
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims
from tests.functional.placement.races import processes

#: How long the readers read.
_SECONDS = 2.5


class _LateJournal(Journal):
    """Holds each COMMIT back for a while, with everything else written."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds

    def append(self, session):
        super().append(session)
        time.sleep(self._seconds)


@databases.on_each_database
class TestFreshness(claims.ClaimsTestCase):

    def test_another_process_sees_every_acknowledged_write(self):
        hosts = [self.provider(VCPU=100000) for _ in range(4)]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        board = pathlib.Path(folder.name, "board")
        board.write_bytes(bytes(8 * 2 * len(hosts)))
        begun, acknowledged = processes.boards(str(board), len(hosts))
        # One writer's COMMITs come seconds late; SQLite lets nobody else write then.
        late = Database(self.database.settings,
                        _LateJournal(0.2 if self.kind == "sqlite" else 1.2), retries=30)
        self.addCleanup(late.dispose)
        contexts = [self.context() for _ in hosts[1:]] + [Context(late)]
        done = threading.Event()
        failures = []

        def write(place, ctx):
            consumer, used = factories.new_uuid(), 0
            try:
                while not done.is_set():
                    used += 1
                    begun[place] = used
                    allocations.replace(ctx, [
                        self.write({hosts[place]: {"VCPU": used}}, consumer=consumer)])
                    acknowledged[place] = used
            except Exception as error:
                failures.append(error)

        readers = [
            processes.Process(processes.read_fresh, self.database, board=str(board), threads=2,
                              seconds=_SECONDS, providers=[host.id for host in hosts])
            for _ in range(2)]
        for reader in readers:
            self.addCleanup(reader.kill)
            reader.ready()
        writers = [threading.Thread(target=write, args=item) for item in enumerate(contexts)]
        for writer in writers:
            writer.start()
        try:
            said = processes.run(*readers, ready=True)
        finally:
            done.set()
            for writer in writers:
                writer.join()
        self.assertEqual([], failures)
        for (answer,) in said:
            self.assertEqual([], answer["stale"])
            self.assertEqual([], answer["missed"])
            self.assertGreater(answer["asked"], 0)
        # Not each of them: SQLite's queue for the one writer's place is not fair.
        self.assertGreater(acknowledged.max(), 0)
