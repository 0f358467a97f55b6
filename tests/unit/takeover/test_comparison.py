"""What a copy would make of each record."""

from __future__ import annotations

from placement_core.takeover import comparison, records
from placement_core.takeover.records import Contents, Item, Outcome, Record
from tests import base

_DOMAIN = {"name": "sales", "enabled": True}


class TestCompare(base.TestCase):
    def compare(self, *wanted, present=None, copied=None, left=()):
        items = comparison.compare(Contents(wanted, left), present or {}, copied or {})
        return [(item.id, item.outcome, item.reason) for item in items]

    def domain(self, id_, **fields):
        return Record(records.DOMAIN, id_, "sales", {**_DOMAIN, **fields})

    def project(self, id_, domain_id, parent_id):
        return Record(records.PROJECT, id_, id_, {
            "name": id_, "domain_id": domain_id, "parent_id": parent_id})

    def test_outcomes(self):
        present = {records.DOMAIN: {"a": _DOMAIN, "b": {**_DOMAIN, "name": "b"}}}
        self.assertEqual(
            [("a", Outcome.EQUAL, ""), ("b", Outcome.UPDATE, ""), ("c", Outcome.CREATE, "")],
            self.compare(self.domain("a"), self.domain("b", name="b", enabled=False),
                         self.domain("c", name="c"), present=present))

    def test_a_name_that_is_taken(self):
        self.assertEqual(
            [("b", Outcome.REFUSED, "a is here already, with the same sales"),
             ("p", Outcome.REFUSED, "its domain b is refused"),
             ("q", Outcome.REFUSED, "its domain b is refused")],
            self.compare(self.domain("b"), self.project("p", "b", "b"),
                         self.project("q", "b", "p"),
                         present={records.DOMAIN: {"a": _DOMAIN}}))

    def test_what_is_gone(self):
        present = {records.DOMAIN: {"a": _DOMAIN, "b": _DOMAIN, "c": _DOMAIN, "ours": _DOMAIN}}
        left = [Item(records.DOMAIN, "b", "", Outcome.REFUSED, "it is odd"),
                Item(records.DOMAIN, "c", "", Outcome.SKIPPED, "it means nothing")]
        self.assertEqual(
            [("b", Outcome.REFUSED, "it is odd"), ("c", Outcome.SKIPPED, "it means nothing"),
             ("a", Outcome.GONE, ""), ("c", Outcome.GONE, "")],
            self.compare(present=present, left=left,
                         copied={records.DOMAIN: ["a", "b", "c", "deleted here"]}))
