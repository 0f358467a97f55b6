"""A disk that can be full."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import fixtures

from tests.server_programs import NoServerError, NotInstalledError

_BALLAST = "ballast"
_BLOCK = bytes(1 << 20)


class SmallDisk(fixtures.Fixture):
    """A file system in memory.

    :ivar path: where it is mounted.
    """

    def __init__(self, mebibytes: int, user: str | None = None) -> None:
        """Prepare a file system of a size.

        :param user: whose it is.
        """
        super().__init__()
        self._user = user
        self._mebibytes = mebibytes

    def _setUp(self) -> None:
        if os.geteuid() != 0:
            raise NotInstalledError("a small disk needs the user root")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="placement-disk-"))
        self.addCleanup(self.path.rmdir)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={self._mebibytes}m,mode=755", "tmpfs",
             str(self.path)], capture_output=True, text=True)
        if done.returncode:
            raise NoServerError(f"mount: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.path)], check=True)
        if self._user is not None:
            shutil.chown(self.path, self._user)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room on it, until the end."""
        ballast = self.path / _BALLAST
        with ballast.open("wb", buffering=0) as file:
            for block in (_BLOCK, _BLOCK[:4096]):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(block)
        try:
            yield
        finally:
            ballast.unlink()
