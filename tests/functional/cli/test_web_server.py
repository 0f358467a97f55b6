"""The parent of the workers, where a process or a thread cannot be started."""

from __future__ import annotations

import multiprocessing
import socket
import threading

import fixtures

from placement_core.cli import web_server
from tests import base

_NO_MORE = BlockingIOError(11, "Resource temporarily unavailable")


class TestShortage(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.server = web_server.WebServer(
            "placement", [listener], threads=1, connections=1, head_seconds=1, stop_seconds=5,
            check_reload=lambda: 1)
        self.server._ipc = {0: (None, None)}

    def test_no_process_for_a_new_worker(self) -> None:
        """A reload leaves the workers that there are."""
        self.useFixture(fixtures.MockPatch(
            "multiprocessing.process.BaseProcess.start", side_effect=_NO_MORE))
        self.check_reload()

    def test_no_thread_for_a_new_worker(self) -> None:
        """Its process has started by then, and nobody would end it."""
        self.useFixture(fixtures.MockPatch(
            "granian.server.common.AbstractWorker._watch", side_effect=RuntimeError(
                "can't start new thread")))
        self.check_reload()
        self.assertEqual([], multiprocessing.active_children())

    def check_reload(self) -> None:
        before = self.server.wrks = [object()]
        with self.assertLogs("placement_core.cli.web_server", "ERROR") as logs:
            self.server._reload(do_nothing, do_nothing)
        self.assertIs(before[0], self.server.wrks[0])
        self.assertIn("a new worker could not be started", logs.output[0])

    def test_the_service_ends_if_a_worker_cannot_be_replaced(self) -> None:
        """Alone, the other workers would go on, and nobody could end them."""
        stopped = threading.Event()
        self.server.on_stop(stopped.set)
        self.useFixture(fixtures.MockPatchObject(self.server, "startup"))
        self.useFixture(fixtures.MockPatchObject(
            self.server, "_respawn_workers", side_effect=_NO_MORE))
        self.useFixture(fixtures.MockPatchObject(self.server, "_stop_ipc"))
        self.server.interrupt_children.append(0)
        self.server.main_loop_interrupt.set()
        with self.assertLogs("placement_core.cli.web_server", "CRITICAL") as logs:
            error = self.assertRaises(SystemExit, self.server._serve, do_nothing, do_nothing)
        self.assertEqual(1, error.code)
        self.assertTrue(stopped.is_set())
        self.assertIn("the service ends", logs.output[0])


def do_nothing(*_: object) -> None:
    """Stand for what a worker does."""
