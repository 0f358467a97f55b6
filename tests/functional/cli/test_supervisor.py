"""The parent of the service's processes: signals find it, and it keeps and ends its children."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import fixtures

from benchmarks import processes
from placement_core.cli import fork_server, supervisor
from tests import base, threads
from tests.functional.cli import orphans, stubborn

_PATIENCE_SECONDS = 60

#: Signals come while the main thread enters and leaves its wait, again and again.
_SCRIPT = """
import signal, threading
from placement_core.cli import supervisor

interrupt, ended = supervisor.Interrupt(), False

def send():
    global ended
    for _ in range(200_000):
        interrupt.set()
    ended = True
    interrupt.set()

signal.signal(signal.SIGALRM, lambda *_: interrupt.set())
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
threading.Thread(target=send, daemon=True).start()
while not ended:
    interrupt.wait()
    interrupt.clear()
signal.setitimer(signal.ITIMER_REAL, 0)
print("ended")
"""


class TestInterrupt(base.TestCase):
    def test_signals_while_it_waits(self) -> None:
        done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(("ended\n", ""), (done.stdout, done.stderr))


class TestOrphan(base.TestCase):
    def test_one_that_hangs_as_it_ends(self) -> None:
        """Else it would be there for ever, and nobody would know of it."""
        spawning = multiprocessing.get_context("spawn")
        receiver, sender = spawning.Pipe(duplex=False)
        parent = spawning.Process(target=orphans.start_child, args=(sender,))
        parent.start()
        self.assertTrue(receiver.poll(_PATIENCE_SECONDS))
        pid = receiver.recv()
        self.addCleanup(self.kill, pid)
        parent.kill()
        parent.join()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while processes.is_alive(pid):
            self.assertLess(time.monotonic(), deadline, "it is still there")
            time.sleep(0.1)

    @staticmethod
    def kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class TestStubbornChild(base.TestCase):
    """A child that goes on after SIGTERM is killed when its time is over."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(supervisor.LOG.name))
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.child = supervisor.Child(
            "manager", functools.partial(stubborn.run, self.folder), stop_seconds=0.2)
        self.addCleanup(self.child.end)
        self.child.start()
        self.wait_for_processes(1)

    def wait_for_processes(self, count: int) -> None:
        """Wait until so many processes have begun, one after the other."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(os.listdir(self.folder)) < count:
            self.assertLess(time.monotonic(), deadline, self.log.output)
            time.sleep(0.02)

    def test_another_one_takes_its_place(self) -> None:
        self.child.renew()
        self.wait_for_processes(2)
        self.assertIn("is killed", self.log.output)

    def test_the_end_without_another_thread(self) -> None:
        with threads.NoThread():
            self.child.end()
        self.assertIn("is not killed if it does not end", self.log.output)
        self.assertEqual([], multiprocessing.active_children())

    def test_the_end(self) -> None:
        self.child.end()
        self.child.end()
        self.assertEqual(1, self.log.output.count("is killed"))
        self.assertNotIn("is started again", self.log.output)


class TestChild(base.TestCase):
    """Starts are counted, and nothing is started: the processes are stand-ins."""

    SECONDS = 30.0

    def setUp(self) -> None:
        super().setUp()
        self.started: queue.SimpleQueue[FakeProcess] = queue.SimpleQueue()
        self.failures: list[Exception] = []
        self.useFixture(fixtures.MockPatchObject(
            fork_server, "Process", side_effect=lambda *_, **__: FakeProcess(self)))
        self.child = supervisor.Child("manager", print, stop_seconds=5)
        self.addCleanup(self.child.end)

    def test_one_that_cannot_be_started_is_tried_again(self) -> None:
        self.useFixture(fixtures.MockPatchObject(supervisor, "_FIRST_PAUSE_SECONDS", 0))
        self.failures.append(BlockingIOError(11, "Resource temporarily unavailable"))
        with self.assertLogs("placement_core.cli.supervisor", "WARNING") as logs:
            self.child.start()
            self.started.get(timeout=self.SECONDS)
        self.assertIn("the manager could not be started ([Errno 11] ", logs.output[0])

    def test_renewals_do_not_count_as_deaths(self) -> None:
        """Else a few reloads would keep the manager away for a minute."""
        self.useFixture(fixtures.MockPatchObject(supervisor, "_FIRST_PAUSE_SECONDS", 3600))
        with self.assertNoLogs("placement_core.cli.supervisor", "WARNING"):
            self.child.start()
            for _ in range(4):
                self.started.get(timeout=self.SECONDS).is_watched.wait(self.SECONDS)
                self.child.renew()


class FakeProcess:
    """A process that ends as soon as it is told to."""

    exitcode = 0

    def __init__(self, test: TestChild) -> None:
        self._test = test
        self._ended = threading.Event()
        self.sentinel, self._end = multiprocessing.Pipe(duplex=False)
        self.is_watched = threading.Event()

    def start(self) -> None:
        if self._test.failures:
            raise self._test.failures.pop()
        self._test.started.put(self)

    def join(self) -> None:
        self.is_watched.set()
        self._ended.wait()

    def terminate(self) -> None:
        self._end.close()
        self._ended.set()

    kill = terminate
