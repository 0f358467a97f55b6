"""The names of the revisions, which are asked without Alembic."""

from __future__ import annotations

import subprocess
import sys

from placement_core.migrations import revisions, upgrades
from tests import base


class TestNames(base.TestCase):
    """Alembic reads them from the files of revisions."""

    def test_equal_to_alembics(self) -> None:
        scripts = [script.revision for script in upgrades.scripts().walk_revisions()]
        self.assertEqual(max(scripts), revisions.head())
        self.assertTrue(all(map(revisions.is_known, scripts)))
        for number in range(2 * len(scripts)):
            name = f"{number:04}"
            self.assertEqual(name in scripts, revisions.is_known(name), name)

    def test_a_start_does_not_import_alembic(self) -> None:
        """Each process of the service would take a tenth longer to start."""
        process = subprocess.run(
            [sys.executable, "-c",
             "import sys, placement_core.app, placement_core.cli.manager; "
             "print('alembic' in sys.modules)"],
            capture_output=True, text=True, check=False)
        self.assertEqual(("False\n", ""), (process.stdout, process.stderr))
