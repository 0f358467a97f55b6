"""An SQLite file on a small disk, with two API processes on it."""

from __future__ import annotations

import fixtures

from tests.faults.clusters.disks import SmallDisk
from tests.faults.disturbances import Disturbance

_MEBIBYTES = 100


class Cluster(fixtures.Fixture):
    """A file.

    :ivar urls: of the database, one for each API process.
    """

    #: Whoever is stopped in a transaction keeps the file, and the clock is each process's own.
    has_server = False

    def _setUp(self) -> None:
        self._disk = self.useFixture(SmallDisk(_MEBIBYTES))
        url = f"sqlite:///{self._disk.path}/placement.sqlite"
        self.urls = [url, url]

    def list_disturbances(self) -> list[Disturbance]:
        """Return what may happen to the file."""
        return [Disturbance("the disk is full", self._disk.full, 4)]
