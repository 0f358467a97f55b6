"""Processes of a test's own, each with a log, that end with it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

_SECONDS_TO_START = 180
_SECONDS_TO_END = 15


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A program that can be started and stopped again and again.

    :ivar log: what it printed, of all its lives.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: pathlib.Path,
        environment: Mapping[str, str], *, port: int | None = None,
    ) -> None:
        """Prepare it.

        :param port: where it answers HTTP once it has started.
        """
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._folder = folder
        self._environment = dict(environment)
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs, and do not wait."""
        if self._process is not None:
            return
        with self.log.open("ab") as log:
            # Its input is never written to: it is closed when this process is gone.
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdin=subprocess.PIPE,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self) -> None:
        """Wait until it answers, where it is known how it does."""
        deadline = time.monotonic() + _SECONDS_TO_START
        while self._port is not None and not self._answers():
            self.require_running()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not answer:\n{self.tail()}")
            time.sleep(0.2)

    def require_running(self) -> None:
        """Raise RuntimeError if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended:\n{self.tail()}")

    def stop(self, sent: int = signal.SIGTERM) -> None:
        """End it and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def tail(self, lines: int = 40) -> str:
        """Return the end of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/", timeout=10):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
