"""Mirrors of what changes, while 64 clients write through eight workers and things fail.

``MIRROR_RUNS=50`` plays as many runs on the same deployment; ``make soak`` does, too, on each
kind of database.
"""

from __future__ import annotations

import os
import pathlib
import random

import fixtures
from testtools import content

from tests import base, databases
from tests.mirrors.play import play

_RUNS = int(os.environ.get("MIRROR_RUNS", "1"))
_SECONDS = 4
#: Plays a test again as it was.
_SEED = "PLACEMENT_TEST_MIRRORS_SEED"


class TestMirrors(base.TestCase):
    #: Where transactions commit in another order than they got their numbers.
    kind = "postgresql" if "postgresql" in databases.KINDS else "sqlite"

    def test_mirrors(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        seed = int(os.environ.get(_SEED, random.randrange(10_000)))
        reports = play(self.kind, _RUNS, seconds=_SECONDS, seed=seed, results=folder)
        self.addDetail("runs", content.text_content("\n".join(map(str, reports))))
        for path in sorted(folder.iterdir()):
            self.addDetail(path.name, content.text_content(path.read_text()))
        self.assertEqual([], reports[-1].wrong, f"{_SEED}={seed}")
        self.assertEqual(_RUNS, len(reports))
        self.assertGreater(sum(report.writes["done"] for report in reports), 30)
