"""A play of a minute on each kind of cluster; ``make soak`` plays longer."""

from __future__ import annotations

import os
import pathlib
import random

import fixtures
from testtools import content

from tests import base
from tests.faults import running
from tests.faults.play import Length
from tests.server_programs import NotInstalledError

_SECONDS = 60
#: Other tests run on the same processors.
_RECOVERY_SECONDS = 60
#: Plays a test again as it was.
_SEED = "PLACEMENT_TEST_FAULTS_SEED"


class TestPlays(base.TestCase):

    def play(self, kind: str) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        seed = int(os.environ.get(_SEED, random.randrange(10_000)))
        try:
            report = running.run(
                kind, Length(_SECONDS), seed, folder, recovery=_RECOVERY_SECONDS)
        except NotInstalledError as error:
            self.skipTest(str(error))
        self.addDetail("report", content.text_content(report.write_text()))
        self.assertEqual([], report.wrong, f"{_SEED}={seed}")
        self.assertGreater(report.writes["done"], 100)
        self.assertGreater(sum(report.happened.values()), 0)

    def test_sqlite(self) -> None:
        self.play("sqlite")

    def test_postgresql(self) -> None:
        self.play("postgresql")

    def test_patroni(self) -> None:
        self.play("patroni")

    def test_galera(self) -> None:
        self.play("galera")
