"""Signals find the parent of the service's processes at any moment."""

from __future__ import annotations

import subprocess
import sys

from tests import base

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
