"""The README's first five minutes happen as it says, and its links lead somewhere."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess

from tests import base, serving

README = pathlib.Path(__file__).parents[2] / "README.rst"
_SECTION = "The first five minutes"
_MARK = "--- end of output ---"


def _steps() -> list[tuple[str, list[str]]]:
    """Return the section's commands, each with the lines it is said to print."""
    section = README.read_text().split(f"{_SECTION}\n{'=' * len(_SECTION)}\n")[1]
    section = re.split(r"\n=+\n", section)[0]
    steps: list[tuple[str, list[str]]] = []
    for block in re.findall(r"\.\. code-block:: console\n\n((?:    .*\n|\n)+)", section):
        for line in (line[4:] for line in block.splitlines() if line.strip()):
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.startswith("> "):
                steps[-1] = (f"{steps[-1][0]}\n{line[2:]}", steps[-1][1])
            else:
                steps[-1][1].append(line)
    return steps


def _value(lines: list[str]) -> list[object]:
    """Return lines so that they compare as a reader would: JSON by content."""
    return [json.loads(line) if line.startswith("{") else line for line in lines]


class TestReadme(base.DatabaseTestCase):
    """The front page can be believed."""

    def test_the_first_five_minutes(self) -> None:
        """Each command prints what the README shows."""
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed")
        steps = _steps()
        self.assertGreater(len(steps), 8)
        service = self.useFixture(serving.Service(self.database.settings.connection))
        script = "".join(f"{command}\necho\necho '{_MARK}'\n" for command, _ in steps)
        script = script.replace("http://127.0.0.1:8778", service.url)
        done = subprocess.run(["sh", "-e"], input=script, capture_output=True, text=True)
        self.assertEqual("", done.stderr)
        printed = done.stdout.split(_MARK)[:-1]
        for (command, promised), lines in zip(steps, printed, strict=True):
            real = [line for line in lines.splitlines() if line]
            self.assertEqual(_value(promised), _value(real), command)

    def test_links(self) -> None:
        """Files that the README names exist."""
        named = re.findall(r"<([\w/]+\.rst)>|``((?:etc|tests|doc)/[\w./]+)``", README.read_text())
        self.assertGreater(len(named), 4)
        for path in ("".join(pair) for pair in named):
            self.assertTrue((README.parent / path).exists(), path)

    def test_two_commands(self) -> None:
        """``make serve`` and ``make test`` each stand alone in a line."""
        lines = [line.strip() for line in README.read_text().splitlines()]
        self.assertIn("make serve", lines)
        self.assertIn("make test", lines)
