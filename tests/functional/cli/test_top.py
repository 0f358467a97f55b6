"""``placement-core top``: what other commands say in detail, on one screen."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from placement_core import services
from placement_core.testing import factories
from tests import serving
from tests.functional.cli import commands, test_commands
from tests.http import base as http_base

_BY_PLACEMENT = {"OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true"}


class TestTop(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_command("db", "sync")

    def read(self, *arguments: str, **more: str):
        return json.loads(self.run_command(*arguments, "-f", "json", **{**_BY_PLACEMENT, **more}))

    def test_it_says_what_other_commands_say(self) -> None:
        self.run_command("demo")
        document = self.read("top")
        self.assertEqual([], document["troubles"])
        self.assertEqual(
            {row["resource_class"]: row["free"] for row in self.read("capacity", "room")},
            {name: room["free"] for name, room in document["rooms"].items()})
        quotas = {(row["project_id"], row["resource_name"]): (row["used"], row["free"])
                  for row in self.read("quota", "list")
                  if row["used"] and row["free"] not in (None, "unlimited")}
        limits = document["tight_limits"]
        self.assertEqual(min(len(quotas), 20), len(limits))
        for limit in limits:
            self.assertEqual(quotas.pop((limit["project_id"], limit["resource_name"])),
                             (limit["used"], limit["free"]))
        shares = [limit["share"] for limit in limits]
        self.assertEqual(sorted(shares, reverse=True), shares)
        # What is not among them is not tighter.
        self.assertTrue(all(used / (used + free) <= shares[-1] + 1e-4
                            for used, free in quotas.values()))
        leases = {lease["name"]: lease for lease in self.read("leases", "list")}
        moments = [event["at"] for event in document["next_events"]]
        self.assertEqual(sorted(moments), moments)
        self.assertGreater(len(moments), 1)
        for event in document["next_events"]:
            expected = leases[event["lease_name"]][f"{event['what']}_at"]
            self.assertEqual(datetime.datetime.fromisoformat(event["at"]).replace(tzinfo=None),
                             datetime.datetime.fromisoformat(expected).replace(tzinfo=None))
        self.assertEqual(len(leases), sum(document["backlog"]["leases"].values()))

    def test_people_read_it(self) -> None:
        self.run_command("demo")
        text = self.run_command("top", **_BY_PLACEMENT, COLUMNS="200")
        questions = [line for line in text.splitlines() if line.startswith("Is there room?")]
        self.assertEqual(1, len(questions), text)
        self.assertRegex(questions[0], "Is there room\\?.*May I\\?.*When\\?")
        self.assertRegex(text, r"(?m)^VCPU +[#+=.]{20}")
        self.assertIn("0 managers", text)
        narrow = self.run_command("top", **_BY_PLACEMENT, COLUMNS="70")
        self.assertTrue(all(len(line) <= 70 for line in narrow.splitlines()), narrow)
        for question in ("Is there room?", "May I?", "When?"):
            self.assertRegex(narrow, f"(?m)^{question[:-1]}\\?")

    def test_nothing(self) -> None:
        text = self.run_command("top", **_BY_PLACEMENT, COLUMNS="200")
        for sentence in ("no inventory", "no limit binds what is used",
                         "no lease begins or ends"):
            self.assertIn(sentence, text)

    def test_names_are_only_text(self) -> None:
        """Nothing in the name of a lease is a command to the terminal."""
        self.run_command("demo")
        self.execute("UPDATE leases SET name = '[bold]' || char(27) || '[2J:boom:'")
        text = self.run_command("top", **_BY_PLACEMENT, COLUMNS="200")
        self.assertNotIn("\x1b", text)
        self.assertIn("[bold]", text)

    def test_limits_that_cannot_be_read(self) -> None:
        """The rest is good without them."""
        self.run_command("demo")
        away = {"OS_LIMITS__DRIVER": "keystone", "OS_KEYSTONE_CLIENT__AUTH_TYPE": "none",
                "OS_KEYSTONE_CLIENT__ENDPOINT_OVERRIDE": "http://127.0.0.1:1"}
        document = json.loads(self.run_away("-f", "json", **away))
        self.assertIsNone(document["tight_limits"])
        self.assertEqual(1, len(document["troubles"]), document["troubles"])
        self.assertIn("VCPU", document["rooms"])
        self.assertIn("not known now", self.run_away(**away))

    def run_away(self, *arguments: str, **more: str) -> str:
        """Run it where the log may say that another service is away."""
        done = commands.run(
            "top", *arguments, connection=self.connection, **_BY_PLACEMENT, **more)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_bad_interval(self) -> None:
        for text in ("0", "-1", "nan", "x", "1e9"):
            self.run_command("top", "--interval", text, code=2)


class TestLive(test_commands.CommandTestCase):
    """On a terminal."""

    def test_a_change_appears(self) -> None:
        self.run_command("db", "sync")
        parts = services.build(http_base.configuration(self.connection))
        self.addCleanup(parts.database.dispose)
        factories.provider(parts.context(), "host1", inventory={"VCPU": 8})
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "placement_core", "top", "--interval", "0.2"],
            env=commands.environment(self.connection, TERM="xterm", **_BY_PLACEMENT),
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_for(ours, r"VCPU +\.{20} +8 ")
        factories.provider(parts.context(), "host2", inventory={"VCPU": 34})
        self.wait_for(ours, r"VCPU +\.{20} +42 ")
        process.send_signal(signal.SIGINT)
        self.wait_for(ours, re.escape("\x1b[?1049l"))  # the screen as it was before
        self.assertEqual(0, process.wait(serving.SECONDS_TO_START))

    def wait_for(self, terminal: int, pattern: str) -> None:
        """Read what a terminal gets until it has a pattern."""
        text = ""
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while not re.search(pattern, text):
            self.assertLess(time.monotonic(), deadline, text[-2000:])
            if select.select([terminal], [], [], 1)[0]:
                try:
                    text += os.read(terminal, 65536).decode()
                except OSError:  # Linux says so when the other end is closed.
                    self.fail(text[-2000:])
