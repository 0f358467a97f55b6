"""doc/operator/deployments.rst and its files: what they name is there, and commands parse."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from unittest import mock

import fixtures

from placement_core.cli import main
from tests import base

_ROOT = pathlib.Path(__file__).parents[2]
_PAGE = (_ROOT / "doc" / "operator" / "deployments.rst").read_text()
_SCRIPT = _ROOT / "etc" / "devstack" / "local.sh"
_KOLLA = json.loads((_ROOT / "etc" / "kolla" / "config.json").read_text())
#: Where commands of the openstack client are registered.
_OPENSTACK = ("openstack.identity.v3", "openstack.placement.v1")
#: What variables of the script stand for.
_VALUES = {"OS_AUTH_URL": "https://keystone.example.org/v3"}


class TestDeployments(base.TestCase):

    def test_commands(self) -> None:
        """Each exists, with these options."""
        lines = [
            *re.findall(r"localhost/placement-core (.+)$", _PAGE, flags=re.MULTILINE),
            *re.findall(r"^[^#\n]*?placement-core\"? ((?:config|db) .+)$", _SCRIPT.read_text(),
                        flags=re.MULTILINE),
            _KOLLA["command"].removeprefix("placement-core "),
            *re.findall(r"\"command\": \"placement-core (.+?)\"", _PAGE)]
        self.assertEqual(
            {"config", "db", "manager", "serve", "status"},
            {line.partition(" ")[0] for line in lines})
        app = main.PlacementCore()
        for line in lines:
            factory, name, rest = app.command_manager.find_command(shlex.split(line))
            factory(app, None).get_parser(name).parse_args(rest)

    def test_commands_of_openstack(self) -> None:
        """Each exists in the client or in osc-placement, with these options."""
        script = _SCRIPT.read_text().replace("\\\n", "").replace("$", "")
        lines = re.findall(r"^[^#\n]*?\bopenstack ([^|;>)\n]+)", script, flags=re.MULTILINE)
        lines += re.findall(r"\|\| openstack ([^|;>)\n]+)", script)
        self.assertGreater(len(lines), 5)
        entries = {
            entry.name.replace("_", " "): entry
            for group in _OPENSTACK for entry in importlib.metadata.entry_points(group=group)}
        for line in lines:
            command = max((name for name in entries if line.startswith(name)), key=len)
            words = shlex.split(line.removeprefix(command))
            entries[command].load()(mock.Mock(), None).get_parser(command).parse_args(words)

    def test_configuration(self) -> None:
        """Its options exist, and the service starts with such values."""
        blocks = re.findall(r"code-block:: ini\n\n((?:    .*\n|\n)+)", _PAGE)
        scripts = re.findall(r"<<END\n(.+?)^END$", _SCRIPT.read_text(), flags=re.M | re.S)
        self.assertEqual((1, 1), (len(blocks), len(scripts)))
        for text in (*blocks, *scripts):
            self.check_configuration(re.sub(
                r"\$(\w+)", lambda match: _VALUES.get(match[1], "SECRET"),
                re.sub("^    ", "", text, flags=re.MULTILINE)))

    def check_configuration(self, text: str) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / "placement.conf").write_text(text)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        done = subprocess.run(
            [sys.executable, "-m", "placement_core", "config", "check"], cwd=_ROOT,
            env={**environment, "OS_PLACEMENT_CONFIG_DIR": str(folder)}, capture_output=True,
            text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)

    def test_files(self) -> None:
        """Each that is named is there."""
        text = _PAGE + _SCRIPT.read_text()
        names = set(re.findall(r"(?<![/\w])etc/[\w./-]+\w", text))
        self.assertGreater(len(names), 6)
        self.assertEqual([], sorted(name for name in names if not (_ROOT / name).exists()))

    def test_script(self) -> None:
        """The shell can read it."""
        done = subprocess.run(
            ["bash", "-n", _SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(os.access(_SCRIPT, os.X_OK))

    def test_copied_files(self) -> None:
        """Kolla copies them to where the service reads them."""
        for each in _KOLLA["config_files"]:
            source, target = pathlib.Path(each["source"]), pathlib.Path(each["dest"])
            self.assertEqual(pathlib.Path("/var/lib/kolla/config_files"), source.parent)
            self.assertEqual(pathlib.Path("/etc/placement") / source.name, target)
