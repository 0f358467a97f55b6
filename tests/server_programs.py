"""Throw-away servers of Debian's packages, on loopback, that do not run as root."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

SECONDS_TO_START = 60
#: Names the root folder of a suite of Debian (``tests.suites``) whose programs come first.
VARIABLE = "PLACEMENT_TEST_PROGRAMS"
_SECONDS_TO_STOP = 30


class NoServerError(Exception):
    """There is no server of this kind to be had: why."""


class NotInstalledError(NoServerError):
    """A program is missing, or a right that its set-up needs."""


def find(name: str, package: str, folders: str = "/usr/bin") -> str:
    """Return a program's path; install its package when it is missing and we may.

    :param folders: where the package puts it, a pattern.
    :raises NotInstalledError: it is not there.
    """
    path = _find(name, folders)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install(package)
        path = _find(name, folders)
    if path is None:
        raise NotInstalledError(f"{name} is not installed (Debian: {package})")
    return path


def install(package: str) -> None:
    """Install a Debian package, whose services are not started."""
    print(f"Installing {package}.", flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    for command in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        subprocess.run(
            ["apt-get", "--quiet", *command], env=environment, stdout=subprocess.DEVNULL
        )


def _find(name: str, folders: str) -> str | None:
    # The folder of Debian's package first: a link elsewhere may have no neighbours.
    for root in (os.environ.get(VARIABLE, ""), ""):
        if paths := sorted(glob.glob(f"{root}{folders}/{name}")):
            return paths[-1]
    return shutil.which(name)


@contextlib.contextmanager
def folder(user: str) -> Iterator[tuple[str, str | None]]:
    """Yield a temporary folder and the user it belongs to: the servers refuse to be root."""
    with tempfile.TemporaryDirectory(prefix="placement-ci-", ignore_cleanup_errors=True) as path:
        if os.geteuid() != 0:
            yield path, None
            return
        try:
            identity = pwd.getpwnam(user)
        except KeyError:
            user, identity = "nobody", pwd.getpwnam("nobody")
        os.chown(path, identity.pw_uid, identity.pw_gid)
        yield path, user


def find_free_port() -> int:
    """Return a port of the loopback interface that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run(command: Sequence[str], user: str | None) -> None:
    """Run a program to its end.

    :raises NoServerError: it fails.
    """
    done = subprocess.run(
        command,
        user=user,
        group=_group(user),
        extra_groups=_none(user),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise NoServerError(f"{command[0]} failed: {done.stdout[-1000:]}")


class Program:
    """A server process that may be stopped, killed and started again.

    :ivar log: what it says.
    """

    def __init__(
        self, command: Sequence[str], user: str | None, answers: Callable[[], bool],
        log: pathlib.Path, *, end: signal.Signals = signal.SIGTERM,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start nothing yet.

        :param answers: says whether it serves.
        :param end: what ends it at once and in order.
        :param environment: in place of this process's own.
        """
        self._command = list(command)
        self._user = user
        self._answers = answers
        self.log = log
        self._end = end
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the number of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *more: str) -> None:
        """Start it, and wait until it serves.

        :param more: arguments for this time.
        """
        self.begin(*more)
        self.wait()

    def begin(self, *more: str, environment: Mapping[str, str] | None = None) -> None:
        """Start it, and do not wait.

        :param more: arguments for this time.
        :param environment: what is added to it for this time.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *more],
                user=self._user,
                group=_group(self._user),
                extra_groups=_none(self._user),
                cwd="/",
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**(os.environ if self._environment is None else self._environment),
                     **(environment or {})},
            )

    def wait(self, seconds: float = SECONDS_TO_START) -> None:
        """Wait until it serves.

        :raises NoServerError: it does not.
        """
        deadline = time.monotonic() + seconds
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace")[-1000:]
                raise NoServerError(f"{self._command[0]} does not serve: {said}")
            time.sleep(0.1)

    def has_ended(self) -> bool:
        """Say whether it was started, and runs no more."""
        return self._process is not None and self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to its processes."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def join(self) -> None:
        """Wait until it has ended."""
        if self._process is not None:
            self._process.wait(SECONDS_TO_START)

    def kill(self) -> None:
        """Kill it and its processes at once."""
        self.send(signal.SIGKILL)
        self.join()

    def stop(self) -> None:
        """End it in order; kill it if it does not."""
        if self._process is None or self._process.poll() is not None:
            return
        self.send(signal.SIGCONT)
        # To the first process alone: its own end of the others is in order, too.
        self._process.send_signal(self._end)
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.kill()


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _none(user: str | None) -> list[str] | None:
    return None if user is None else []
