"""``placement-core claims find``: what it claims, what it prints, and why it refuses."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.placement import allocations
from placement_core.testing import factories
from tests.functional.cli import test_commands

_RACKS = "aggregate:name=rack-"


class TestFindClaims(test_commands.CommandTestCase):
    """Two racks, each of two hosts with 8 VCPU; members want 2."""

    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.ctx = Context(database)
        self.hosts: dict[str, str] = {}
        for rack, hosts in (("rack-1", ("host-1", "host-3")), ("rack-2", ("host-2", "host-4"))):
            aggregate = factories.new_uuid()
            factories.provider(self.ctx, rack, aggregates=[aggregate])
            for host in hosts:
                self.hosts[host] = factories.provider(
                    self.ctx, host, inventory={"VCPU": 8}, aggregates=[aggregate]).uuid

    def run_find(self, *arguments: str, code: int = 0) -> str:
        return self.run_command(
            "claims", "find", "resources=VCPU:2", "--project", "lab", "--user", "alice",
            *arguments, code=code)

    def find(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the rows of what is claimed."""
        return json.loads(self.run_find(*arguments, "-f", "json"))

    def list_held(self) -> list[dict[str, Any]]:
        return json.loads(self.run_command("claims", "list", "-f", "json"))

    def test_claims_are_held(self) -> None:
        rows = self.find("--members", "3", "--hold", "600", "--within", _RACKS,
                         "--spread-by", "host")
        self.assertEqual(1, len({row["domains"][_RACKS] for row in rows}))
        self.assertEqual([1, 2], sorted(Counter(row["host"] for row in rows).values()))
        for row in rows:
            self.assertEqual(row["host"], row["domains"]["host"])
            self.assertEqual({self.hosts[row["host"]]: {"VCPU": 2}}, row["allocations"])
        held = self.list_held()
        self.assertEqual(
            {row["consumer_uuid"]: row["allocations"] for row in rows},
            {claim["consumer_uuid"]: claim["allocations"] for claim in held})
        self.assertEqual({("lab", "alice", "held")}, {
            (claim["project_id"], claim["user_id"], claim["state"]) for claim in held})
        self.assertEqual(1, len({claim["expires_at"] for claim in held}))

    def test_claims_for_good(self) -> None:
        """As many as there is room for, if these are enough."""
        rows = self.find("--members", "20", "--min-members", "16")
        self.assertEqual(16, len({row["consumer_uuid"] for row in rows}))
        self.assertEqual([], self.list_held())
        for row in rows:
            held = allocations.list_for_consumer(self.ctx, row["consumer_uuid"])
            assert held is not None
            self.assertEqual(row["allocations"], {
                uuid: each.resources for uuid, each in held.providers.items()})
        (shown,) = json.loads(self.run_command(
            "claims", "show", rows[0]["consumer_uuid"], "-f", "json"))
        self.assertEqual(("confirmed", None), (shown["state"], shown["expires_at"]))

    def test_levels(self) -> None:
        spread = ("--members", "4", "--spread-by", "host", "--dry-run")
        for order, numbers in (((), (1, 2, 3, 4)), (("--order-by", _RACKS), (1, 3, 2, 4))):
            self.assertEqual([f"host-{number}" for number in numbers],
                             [row["host"] for row in self.find(*spread, *order)])
        packed = self.find("--members", "5", "--pack-by", _RACKS, "--max-per-host", "3",
                           "--dry-run")
        self.assertEqual(1, len({row["domains"][_RACKS] for row in packed}))
        self.assertEqual([2, 3], sorted(Counter(row["host"] for row in packed).values()))
        self.assertEqual({None}, {row["consumer_uuid"] for row in packed})

    def test_a_table(self) -> None:
        printed = self.run_find("--members", "1", "--within", _RACKS)
        self.assertRegex(printed, rf"\| {_RACKS}: rack-[12] +\| host-\d: 2 VCPU +\|")

    def test_refusals_say_why(self) -> None:
        for arguments, words in (
                (["--members", "9", "--within", _RACKS],
                 rf"9 members do not fit: the largest {_RACKS} \(rack-[12]\) holds 8 of 9; "
                 r"the largest host \(host-\d\) holds 4 of 9; there is room for 16 in total\."),
                (["--members", "20", "--min-members", "17"],
                 r"20 members \(at least 17\) do not fit: .*there is room for 16 in total\."),
                (["--members", "2", "--min-members", "3"],
                 r"min_members \(3\) is more than members \(2\)\."),
                (["--members", "2", "--pack-by", "host", "--spread-by", "host"],
                 "pack_by and spread_by exclude each other."),
                (["--members", "2", "--within", "aggregate:trait=CUSTOM_NEVER"],
                 "There is no trait CUSTOM_NEVER, which is to mark aggregates.")):
            self.assertEqual("", self.run_find(*arguments, code=1))
            self.assertTrue(re.fullmatch(f"{words}\n", self.stderr), self.stderr)
        self.run_find("--members", "2", "--within", "rack", code=2)
        self.assertIn("argument --within: There is no level 'rack': expected host, ", self.stderr)
        self.assertEqual([], json.loads(self.run_command("consumers", "list", "-f", "json")))
