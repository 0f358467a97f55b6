"""What a copy would make of each record."""

from __future__ import annotations

from placement_core.takeover import comparison, records
from placement_core.takeover.records import Contents, Item, Outcome, Record
from tests import base

_DOMAIN = {"name": "sales", "enabled": True}


class TestCompare(base.TestCase):
    def compare(self, *wanted, present=None, copied=None, left=(), obstacles=None):
        items = comparison.compare(
            Contents(wanted, left), present or {}, copied or {}, obstacles or {})
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

    def test_a_value_that_cannot_be_ours(self):
        """It is refused, created or updated; so is what belongs to it."""
        present = {records.DOMAIN: {"b": _DOMAIN}}
        obstacles = {records.DOMAIN: lambda record, others: (
            f"not {record.fields['name']} beside {sorted(others)}"
            if record.fields["name"] == "odd" else "")}
        self.assertEqual(
            [("a", Outcome.CREATE, ""),
             ("b", Outcome.REFUSED, "not odd beside ['a', 'b']"),
             ("c", Outcome.REFUSED, "not odd beside ['a', 'b']"),
             ("p", Outcome.REFUSED, "its domain c is refused"), ("q", Outcome.CREATE, "")],
            self.compare(self.domain("a", name="a"), self.domain("b", name="odd"),
                         self.domain("c", name="odd"), self.project("p", "c", "c"),
                         self.project("q", "b", "b"), present=present, obstacles=obstacles))

    def test_what_our_service_fills(self):
        """A user that nova does not know is no difference; a cell that it does not know is."""
        ours = {"project_id": "p", "user_id": "ann", "cell": "c1", "queued_for_delete": False}
        for changes, outcome in (
                ({"user_id": None, "queued_for_delete": None}, Outcome.EQUAL),
                ({"user_id": "bob"}, Outcome.UPDATE), ({"cell": None}, Outcome.UPDATE)):
            record = Record(records.INSTANCE, "i", "", {**ours, **changes})
            self.assertEqual(
                [("i", outcome, "")],
                self.compare(record, present={records.INSTANCE: {"i": ours}}))

    def test_what_refers_to_what_is_refused(self):
        resource = {"service_id": "s", "region_id": None, "resource_name": "ram"}
        odd = {kind: lambda record, others: "odd" if record.id == "odd" else ""
               for kind in (records.SERVICE, records.REGISTERED_LIMIT)}
        self.assertEqual(
            [("odd", Outcome.REFUSED, "odd"),
             ("e", Outcome.REFUSED, "its service odd is refused"),
             ("odd", Outcome.REFUSED, "odd"),
             ("l", Outcome.REFUSED, "its registered limit odd is refused"),
             ("u", Outcome.CREATE, "")],
            self.compare(
                Record(records.SERVICE, "odd", "", {}),
                Record(records.ENDPOINT, "e", "", {"service_id": "odd", "region_id": None}),
                Record(records.REGISTERED_LIMIT, "odd", "", resource),
                Record(records.LIMIT, "l", "", {
                    **resource, "project_id": "p", "domain_id": None}),
                Record(records.USER_LIMIT, "u", "", {
                    **resource, "resource_name": "other", "project_id": "p", "user_id": "u"}),
                obstacles=odd))
