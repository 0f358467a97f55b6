"""``placement-core migrate status``, and what ``migrate switch`` says before it begins."""

from __future__ import annotations

import datetime
import pathlib

import fixtures
import sqlalchemy as sa

from placement_core.shadow import state
from placement_core.shadow.modes import Mode
from placement_core.takeover import tables
from tests.functional.cli import commands, test_commands


class TestStatus(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = folder / "state"

    def insert(self, table: sa.Table, **values: object) -> None:
        with sa.create_engine(self.connection, poolclass=sa.NullPool).begin() as connection:
            connection.execute(sa.insert(table).inline(), values)

    def copied(self, source: str) -> None:
        self.insert(tables.copied_records, source=source, kind="limit", record_id="l",
                    copied_at=datetime.datetime.now())

    def compared(
        self, source: str, differences: int = 0, hours: float = 1, left_out: int | None = 0
    ) -> str:
        """Note a comparison; return when it was."""
        at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
        naive = at.replace(tzinfo=None)
        self.insert(tables.comparisons, run_id=f"{source} {hours}", source=source,
                    location=f"mysql://{source}", started_at=naive, finished_at=naive,
                    compared=13, differences=differences, left_out=left_out)
        return f"{at:%Y-%m-%d %H:%M} UTC"

    def begin(self, mode: Mode = Mode.SHADOW) -> tuple[str, str]:
        """Begin a shadow; return the option that names it."""
        with state.State(self.state) as opened:
            opened.set_mode(mode)
        return "--state", str(self.state)

    def status(self, *arguments: str) -> list[str]:
        return self.run_command("migrate", "status", *arguments).splitlines()

    def test_before_anything(self) -> None:
        self.assertEqual(
            ['Next: "migrate check", then "migrate copy --execute".'], self.status())

    def test_copied(self) -> None:
        self.copied("nova-api")
        self.assertEqual(["nova-api: copied, not compared yet",
                          'Next: "migrate diff" (nova-api: not compared).'], self.status())

    def test_equal(self) -> None:
        self.copied("keystone")
        at = self.compared("keystone")
        self.assertEqual([
            f"keystone: equal (13 records of mysql://keystone, {at})",
            'Next: "migrate shadow serve", or let clients reach ours.'], self.status())

    def test_stale_after_a_day(self) -> None:
        at = self.compared("keystone", hours=25)
        self.assertEqual([
            f"keystone: equal (13 records of mysql://keystone, {at}, stale: that was more than a "
            "day ago)",
            'Next: "migrate diff" (keystone: stale).'], self.status())

    def test_different(self) -> None:
        self.compared("blazar", hours=2)
        at = self.compared("blazar", differences=3)
        self.assertEqual([
            f"blazar: 3 differences (13 records of mysql://blazar, {at})",
            'Next: "migrate copy --execute" (blazar), then "migrate diff" again.'], self.status())

    def test_what_cannot_be_copied(self) -> None:
        at = self.compared("blazar", left_out=2)
        self.assertEqual([
            "blazar: equal but for 2 records that cannot be copied (13 records of mysql://blazar, "
            f"{at})",
            'Next: "migrate check" (blazar: 2 records cannot be copied), then "migrate shadow '
            'serve", or let clients reach ours.'], self.status())
        self.compared("keystone", left_out=1, hours=25)
        self.assertEqual(
            'Next: "migrate diff" (blazar: 2 records cannot be copied; keystone: stale, 1 record '
            "cannot be copied).", self.status()[-1])
        at = self.compared("keystone", left_out=1, differences=3)
        self.assertEqual([
            "keystone: 3 differences, and 1 record that cannot be copied (13 records of "
            f"mysql://keystone, {at})",
            'Next: "migrate copy --execute" (keystone), then "migrate diff" again.'],
            self.status()[1:])

    def test_what_an_earlier_release_compared(self) -> None:
        """It did not count what cannot be copied."""
        self.compared("blazar", left_out=None)
        self.assertEqual('Next: "migrate diff" (blazar: compared by an earlier release).',
                         self.status()[-1])

    def test_what_cannot_be_copied_in_the_shadow(self) -> None:
        """What is of Placement is compared by the switch."""
        self.compared("blazar", left_out=2)
        self.compared("placement@east", left_out=3)
        options = self.begin()
        self.assertIn('Next: "migrate check" (blazar: 2 records cannot be copied), then "migrate '
                      'switch --dry-run"', self.status(*options)[-1])
        self.run_command("migrate", "switch", *options, code=1)
        self.assertEqual(
            'The switch does not compare these (blazar: 2 records cannot be copied); "migrate '
            'diff" does.', self.stderr.splitlines()[0])

    def test_in_the_shadow(self) -> None:
        """What is of Placement is compared by the switch."""
        for source in ("placement@east", "placement@west", "keystone"):
            self.copied(source)
        self.compared("placement@west", differences=1)
        options = self.begin()
        lines = self.status(*options)
        self.assertEqual(4, len(lines))
        self.assertEqual(
            "shadow: upstream answers, ours is written second. Next: \"migrate diff\" (keystone: "
            "not compared), then \"migrate switch --dry-run\", then \"migrate switch\"; or "
            "\"migrate cancel\".", lines[-1])
        self.compared("keystone")
        self.assertIn('Next: "migrate switch --dry-run"', self.status(*options)[-1])

    def test_after_the_switch(self) -> None:
        self.compared("keystone", hours=30)
        self.assertIn('Next: "migrate complete"', self.status(*self.begin(Mode.SWITCHED))[-1])

    def test_where_our_database_is_not_known(self) -> None:
        done = commands.run("migrate", "status", *self.begin())
        self.assertEqual(0, done.returncode)
        self.assertTrue(done.stdout.startswith("shadow: "))
        self.assertIn('What "migrate diff" found last is not known here: [placement_database] '
                      "connection: expected a value", done.stderr)
        self.assertEqual(1, commands.run("migrate", "status").returncode)

    def test_the_switch_names_what_it_does_not_compare(self) -> None:
        self.compared("keystone", hours=25)
        self.copied("blazar")
        self.copied("placement@east")
        options = self.begin()
        self.run_command("migrate", "switch", *options, code=1)
        self.assertEqual(
            'The switch does not compare these (blazar: not compared; keystone: stale); "migrate '
            'diff" does.', self.stderr.splitlines()[0])
        self.compared("keystone")
        self.compared("blazar")
        self.run_command("migrate", "switch", *options, code=1)
        self.assertEqual(1, len(self.stderr.splitlines()))
