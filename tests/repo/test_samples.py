"""What is made from the code is current: ``make samples`` would change nothing."""

from __future__ import annotations

import pathlib
import re
import tempfile
from importlib import metadata

from doc import samples
from placement_core import conf
from placement_core.cli import main as commands
from placement_core.http.placement_api import microversions
from tests import base


class TestSamples(base.TestCase):
    """The files in etc/placement, and the history of the API."""

    def _made(self, *command: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "sample")
            self.assertEqual(0, commands.main([*command, "--output-file", str(path)]))
            return path.read_text()

    def test_configuration(self) -> None:
        """Our own groups; those of libraries change with the libraries."""
        groups = {group.name for group, _ in conf.list_opts() if group is not None}
        self.assertIn("placement_database", groups)
        made = _sections(self._made("config", "sample"))
        kept = _sections(samples.CONFIGURATION.read_text())
        for group in sorted(groups):
            self.assertEqual(made[group], kept[group], f"[{group}]: run make samples")
        self.assertEqual(set(made), set(kept))

    def test_every_plugin(self) -> None:
        """Each option of each plugin that comes with the service, under its group."""
        kept = _sections(samples.CONFIGURATION.read_text())
        count = 0
        for entry in metadata.entry_points(group="oslo.config.opts"):
            if not entry.name.startswith("placement_plugins."):
                continue
            for group, options in entry.load()():
                name = getattr(group, "name", group)
                self.assertIn(name, kept, entry.name)
                for option in options:
                    self.assertRegex(
                        kept[name], rf"(?m)^#?{re.escape(option.dest)} =", f"[{name}]")
                    count += 1
        self.assertGreater(count, 20)

    def test_policy(self) -> None:
        """Every rule with its default."""
        made = self._made("policy", "sample")
        self.assertEqual(made, samples.POLICY.read_text(), "run make samples")

    def test_history(self) -> None:
        """The history of microversions."""
        self.assertEqual(microversions.render_history(), samples.HISTORY.read_text())

    def test_no_machine_in_them(self) -> None:
        """A default must not be a path of the machine that made the sample."""
        for path in (samples.CONFIGURATION, samples.POLICY):
            self.assertNotIn(str(samples.ROOT), path.read_text())


def _sections(sample: str) -> dict[str, str]:
    parts = re.split(r"^\[(\w+)\]$", sample, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
