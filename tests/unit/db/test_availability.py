"""What a process says about a database that it no longer uses."""

from __future__ import annotations

import logging
import threading
import time

import fixtures

from placement_core.db.availability import Availability
from placement_core.db.failures import ConnectionLost
from tests import base


class TestDisposed(base.TestCase):
    """Nothing is said, and nobody probes, once an application has closed its database."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        # Other tests may have left databases that are still probed.
        self.others = set(threading.enumerate())
        self.probing, self.fails = threading.Event(), threading.Event()
        self.addCleanup(self.fails.set)
        self.probes = 0
        self.availability = Availability("the database", self.probe, "", 1.0, None)

    def probe(self) -> None:
        self.probes += 1
        self.probing.set()
        self.fails.wait(30)
        raise ConnectionLost

    def close_while_probing(self) -> None:
        self.assertTrue(self.probing.wait(30))
        self.availability.reset()
        self.fails.set()
        for thread in set(threading.enumerate()) - self.others:
            if thread.name == "database probe":
                thread.join(30)
                self.assertFalse(thread.is_alive())

    def test_while_an_outage_is_probed(self) -> None:
        with self.assertRaises(ConnectionLost), self.availability.connecting():
            raise ConnectionLost
        self.close_while_probing()
        self.assertEqual(("", 1), (self.log.output, self.probes))

    def test_while_a_silent_server_is_probed(self) -> None:
        self.availability.begin_use(self)
        deadline = time.monotonic() + 30
        while not self.probing.is_set() and time.monotonic() < deadline:
            self.availability.look_after()
            time.sleep(0.05)
        self.close_while_probing()
        self.assertFalse(self.availability.is_away)
        self.assertEqual(("", 1), (self.log.output, self.probes))
