"""Completion, in the shells themselves."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess

import fixtures

from tests import base
from tests.functional.cli import commands

#: Asks a shell what completes the last word of a line; what is there already is before it.
_ASK = {
    "bash": """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_placement_core
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": """
source {script}
complete --do-complete {line}
""",
}


#: What a terminal does not print.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\x08]")


def _list_in_zsh(script: pathlib.Path, line: str, environment: dict[str, str]) -> str:
    """Return what zsh lists where a person types a line, and asks for its choices (Ctrl-D)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=script.parent,
        start_new_session=True, env={**environment, "TERM": "xterm", "COLUMNS": "200"},
    ) as process:
        os.close(theirs)
        os.write(ours, b"PS1=; LISTMAX=9999; unsetopt prompt_sp; autoload -Uz compinit; "
                 b"compinit -u -D; " + f"source {script}; echo rea''dy\n".encode())
        # Then it reads keys, not lines.
        _read(ours, 10, until=re.compile(r"ready\r\n.*\x1b\[\?2004h", re.DOTALL))
        os.write(ours, line.encode() + b"\x04")
        listed = _read(ours, 1)
        process.kill()
    os.close(ours)
    return _CONTROLS.sub("", listed).replace(line.strip(), "")


def _read(terminal: int, seconds: float, until: re.Pattern[str] | None = None) -> str:
    """Read until a text comes, or nothing for so long."""
    text = ""
    with contextlib.suppress(OSError):
        while select.select([terminal], [], [], seconds)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
            if until is not None and until.search(text):
                break
    return text


class TestCompletion(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def complete(self, shell: str, line: str) -> set[str]:
        """Return what a shell offers for the last word of a line."""
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        script = self.folder / shell
        if not script.exists():
            done = commands.run("completion", shell)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            script.write_text(done.stdout)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TERM": "dumb"}
        if shell == "zsh":
            return set(_list_in_zsh(script, line, environment).split())
        words = line.split(" ")
        done_ = subprocess.run(
            [shell, "-c", _ASK[shell].format(
                script=script, line=shlex.quote(line), count=len(words),
                words=" ".join(map(shlex.quote, words)))],
            capture_output=True, text=True, check=False, timeout=60, cwd=self.folder,
            env=environment)
        self.assertEqual((0, ""), (done_.returncode, done_.stderr))
        return set(done_.stdout.split())

    def check(self, shell: str) -> None:
        (self.folder / "a-file").touch()
        for line, some, others in (
            ("placement-core ", {"leases", "db", "serve", "--config-file"}, {"list", "complete"}),
            ("placement-core le", {"leases"}, {"limits"}),
            ("placement-core db ", {"sync", "version", "online-data-migrations"}, {"db"}),
            ("placement-core leases create --phy", {"--physical-reservation"}, {"--project"}),
            ("placement-core leases list -f ", {"json", "table"}, {"--format"}),
            ("placement-core leases list -f json --st", {"--status"}, {"json"}),
            ("placement-core leases list --status ", {"ACTIVE", "PENDING"}, {"json"}),
            ("placement-core --config-file x catalog region ", {"add", "list"}, {"region"}),
            ("placement-core completion ", {"bash", "zsh", "fish"}, {"json"}),
        ):
            offered = self.complete(shell, line)
            self.assertEqual((some, set()), (some & offered, others & offered), line)

    def test_bash(self) -> None:
        self.check("bash")
        # Nothing is offered where files can be, and bash completes them then.
        self.assertEqual(set(), self.complete("bash", "placement-core --config-file "))

    def test_zsh(self) -> None:
        self.check("zsh")
        self.assertIn("a-file", self.complete("zsh", "placement-core --config-file "))

    def test_fish(self) -> None:
        self.check("fish")
        self.assertIn("a-file", self.complete("fish", "placement-core --config-file "))

    def test_scripts_are_sound(self) -> None:
        """The shells themselves find no mistake in them."""
        for shell in ("bash", "zsh", "fish"):
            script = commands.run("completion", shell).stdout
            if shutil.which(shell) is not None:
                done = subprocess.run([shell, "-n"], input=script, capture_output=True,
                                      text=True, check=False)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
