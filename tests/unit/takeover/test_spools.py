"""Records that wait in a file."""

from __future__ import annotations

from placement_core.takeover.records import INSTANCE, Record
from placement_core.takeover.spools import Spool
from tests import base


class TestSpool(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.spool = Spool(INSTANCE)
        self.addCleanup(self.spool.close)

    def test_what_was_added_comes_back_in_its_order(self) -> None:
        added = [(Record(INSTANCE, f"id{number}", "käfer", {
            "user_id": None, "members": ["b", "a"], "queued_for_delete": number % 2 == 0}),
            "" if number % 3 else "odd") for number in range(2500, 0, -1)]
        self.spool.add(added[:7])
        self.spool.add(added[7:])
        chunks = list(self.spool.read_chunks())
        self.assertEqual([1000, 1000, 500], [len(chunk) for chunk in chunks])
        self.assertEqual(added, [entry for chunk in chunks for entry in chunk])
        self.assertEqual(2500, len(self.spool))

    def test_in_the_order_of_ids(self) -> None:
        """As texts of Python are ordered; from any id on, there or not."""
        ids = ["b", "B", "a", "\u00e4", "z", "\N{SNOWMAN}", "a0"]
        self.spool.add([(Record(INSTANCE, id_, "", {}), f"odd {id_}") for id_ in ids])
        for after in ("", "a", "b0", "z", "\N{SNOWMAN}"):
            rest = [id_ for id_ in sorted(ids) if id_ > after]
            chunks = list(self.spool.read_sorted(after, 3))
            self.assertEqual(
                [(id_, f"odd {id_}") for id_ in rest],
                [(record.id, obstacle) for chunk in chunks for record, obstacle in chunk])
            self.assertTrue(all(len(chunk) == 3 for chunk in chunks[:-1]))
            self.assertEqual(len(ids) - len(rest), self.spool.count_until(after))

    def test_an_empty_one(self) -> None:
        self.assertEqual(([], 0), (list(self.spool.read_chunks()), len(self.spool)))
        self.assertEqual(["a"], self.spool.list_missing(["a"]))

    def test_what_is_missing(self) -> None:
        self.spool.add([(Record(INSTANCE, id_, "", {}), "") for id_ in ("a", "b")])
        self.assertEqual(["c", "A", ""], self.spool.list_missing(["a", "c", "A", "b", ""]))
        self.assertEqual([], self.spool.list_missing([]))
