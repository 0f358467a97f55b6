"""``placement-core watch``: what changes, as it changes."""

from __future__ import annotations

import json
import pathlib
from unittest import mock

import fixtures

from placement_core import services
from placement_core.placement import providers
from placement_core.testing import factories
from tests.functional.cli import test_commands
from tests.http import base as http_base


class TestWatch(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        parts = services.build(http_base.configuration(self.connection))
        self.addCleanup(parts.database.dispose)
        self.ctx = parts.context()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = str(self.folder / "token")

    def watch(self, *arguments: str, code: int = 0) -> list[str]:
        return self.run_command("watch", "--once", *arguments, code=code).splitlines()

    def test_from_now_on(self) -> None:
        first = factories.provider(self.ctx, name="before")
        self.assertEqual([], self.watch("--token-file", self.file))
        second = factories.provider(self.ctx, name="after")
        providers.delete(self.ctx, first.uuid)
        self.assertEqual(
            {f"provider {second.uuid} after", f"provider {first.uuid} before deleted"},
            set(self.watch("--token-file", self.file)))
        self.assertEqual([], self.watch("--token-file", self.file))

    def test_everything(self) -> None:
        provider = factories.provider(self.ctx, name="host", inventory={"VCPU": 4})
        [line] = self.watch("--all", "--kind", "provider", "-f", "json")
        document = json.loads(line)
        self.assertEqual((provider.uuid, "host", 4), (
            document["id"], document["name"],
            document["document"]["inventories"]["VCPU"]["total"]))

    def test_a_name_is_no_line(self) -> None:
        provider = factories.provider(self.ctx, name="host\nprovider\x1b[2J")
        self.assertEqual([f"provider {provider.uuid} host\\nprovider\\x1b[2J"],
                         self.watch("--all", "--kind", "provider"))

    def test_a_command_for_each_change(self) -> None:
        """One that fails gets the change again."""
        self.watch("--token-file", self.file)
        provider = factories.provider(self.ctx, name="host")
        output = self.folder / "output"
        script = self.folder / "script"
        script.write_text(f"cat > {output}; test -e {self.folder}/works\n")
        arguments = ("--token-file", self.file, "--exec", f"sh {script}")
        self.watch(*arguments, code=1)
        self.assertIn("--exec sh: failed (1) for provider", self.stderr)
        self.assertEqual(provider.uuid, json.loads(output.read_text())["id"])
        output.unlink()
        (self.folder / "works").touch()
        self.watch(*arguments)
        self.assertEqual(provider.uuid, json.loads(output.read_text())["document"]["uuid"])
        output.unlink()
        self.watch(*arguments)
        self.assertFalse(output.exists())

    def test_an_end_before_the_first_look_has_ended(self) -> None:
        """What changes meanwhile is for the next call."""
        with fixtures.MonkeyPatch(
                "placement_core.cli.watch.Watch._read", mock.Mock(side_effect=KeyboardInterrupt)):
            self.run_command("watch", "--token-file", self.file)
        provider = factories.provider(self.ctx, name="host")
        self.assertEqual([f"provider {provider.uuid} host"],
                         self.watch("--token-file", self.file))

    def test_refusals(self) -> None:
        for arguments, text in (
            (("--kind", "host"), "argument --kind: invalid choice"),
            (("--project", "web", "--kind", "provider"), "belongs to a project"),
            (("--exec", ""), "argument --exec: expected a command"),
            (("--exec", "/nonexistent/command", "--all", "--kind", "trait"), "No such file"),
        ):
            self.watch(*arguments, code=2 if "argument" in text else 1)
            self.assertIn(text, self.stderr)
        pathlib.Path(self.file).write_text("nonsense")
        self.watch("--token-file", self.file, code=1)
        self.assertIn("no token of this service", self.stderr)
