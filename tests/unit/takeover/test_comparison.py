"""What a copy would make of each record."""

from __future__ import annotations

from placement_core.takeover import comparison, records
from placement_core.takeover.comparison import Rules
from placement_core.takeover.records import Contents, Item, Outcome, Record
from tests import base

_DOMAIN = {"name": "sales", "enabled": True}


class TestCompare(base.TestCase):
    def compare(
        self, *wanted, present=None, copied=None, left=(), obstacles=None, pads_texts=False,
    ):
        items = comparison.compare(
            Contents(wanted, left), present or {}, copied or {},
            Rules(obstacles or {}, pads_texts=pads_texts))
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

    def test_names_that_differ_in_blanks_at_the_end(self):
        """MySQL takes them for equal."""
        records_there = [self.domain("b", name="sales "), self.domain("c", name="new"),
                         self.domain("d", name="new  "), self.domain("e", name=" new")]
        present = {records.DOMAIN: {"a": _DOMAIN}}
        created = [(id_, Outcome.CREATE, "") for id_ in "bcde"]
        self.assertEqual(created, self.compare(*records_there, present=present))
        self.assertEqual(
            [("b", Outcome.REFUSED, "a is here already, with the same sales "), created[1],
             ("d", Outcome.REFUSED, "c comes before it, with the same new  "), created[3]],
            self.compare(*records_there, present=present, pads_texts=True))

    def test_what_is_gone(self):
        present = {records.DOMAIN: {"a": _DOMAIN, "b": _DOMAIN, "c": _DOMAIN, "ours": _DOMAIN}}
        left = [Item(records.DOMAIN, "b", "", Outcome.REFUSED, "it is odd"),
                Item(records.DOMAIN, "c", "", Outcome.SKIPPED, "it means nothing")]
        self.assertEqual(
            [("b", Outcome.REFUSED, "it is odd"), ("c", Outcome.SKIPPED, "it means nothing"),
             ("a", Outcome.GONE, ""), ("c", Outcome.GONE, "")],
            self.compare(present=present, left=left,
                         copied={records.DOMAIN: ["a", "b", "c", "deleted here"]}))

    def test_the_deepest_that_are_gone_come_last(self):
        """They are deleted from the end."""
        for kind, parent in ((records.REGION, "parent_region_id"),
                             (records.PROJECT, "parent_id"), (records.PROVIDER, "parent")):
            present = {kind: {
                id_: {"name": id_, "domain_id": "top", parent: above}
                for id_, above in (("c", "top"), ("b", "c"), ("a", "b"), ("d", "top"))}}
            self.assertEqual(
                ["c", "d", "b", "a"],
                [id_ for id_, _, _ in self.compare(
                    present=present, copied={kind: ["a", "b", "c", "d"]})], kind)

    def test_kinds_that_are_refused_as_a_whole(self):
        """Nothing of them is gone."""
        present = {kind: {"a": _DOMAIN} for kind in (records.DOMAIN, records.SERVICE)}
        self.assertEqual(
            [("", Outcome.REFUSED, "nobody knows"), ("a", Outcome.GONE, "")],
            self.compare(present=present, copied={kind: ["a"] for kind in present}, left=[
                Item(records.DOMAIN, "", "", Outcome.REFUSED, "nobody knows")]))

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

    def test_a_number_that_another_host_has_here(self):
        """What is on it there is not on it here, also if it was copied so."""
        present = {records.HOST: {"5": {"name": "a"}}, records.LEASE: {"l": {"name": "l"}}}
        leases = [Record(records.LEASE, id_, id_, {"name": id_}, references=[(records.HOST, "5")])
                  for id_ in "lm"]
        for name, outcome, reasons in (
                ("b", Outcome.REFUSED, ["here, it is a", *["its host 5 is refused"] * 2]),
                ("a", Outcome.EQUAL, [""] * 3)):
            items = comparison.compare(
                Contents([Record(records.HOST, "5", name, {"name": name}), *leases], ()), present,
                {}, Rules(change_obstacles={
                    records.HOST: lambda ours, changes: f"here, it is {ours['name']}"}))
            self.assertEqual(reasons, [item.reason for item in items])
            self.assertEqual(outcome, items[1].outcome)
        self.assertEqual(Outcome.CREATE, items[2].outcome)


class TestComparePlacement(base.TestCase):
    def provider(self, id_, name, parent=None):
        return Record(records.PROVIDER, id_, name, {"name": name, "parent": parent})

    def consumer(self, id_, *providers):
        return Record(records.CONSUMER, id_, id_, {
            "allocations": {provider: {"VCPU": 1} for provider in providers}})

    def compare(self, *wanted, present=(), owners=None, left=(), copied=None):
        items = comparison.compare(
            Contents(wanted, left),
            {records.PROVIDER: {each.id: each.fields for each in present}}, copied or {},
            Rules(owners={records.PROVIDER: owners or {}}))
        return [(item.id, item.outcome, item.reason) for item in items]

    def test_notes_go_with_their_record(self):
        odd = Record(records.PROVIDER, "a", "a", {"name": "a", "parent": None}, ["it is odd"])
        for present, outcome in (((), Outcome.CREATE), ((odd,), Outcome.EQUAL),
                                 ((self.provider("a", "b"),), Outcome.UPDATE)):
            self.assertEqual([("a", outcome, "it is odd")], self.compare(odd, present=present))

    def test_what_was_copied_from_another_source(self):
        self.assertEqual(
            [("a", Outcome.REFUSED, "it was copied from east, and is never merged"),
             ("c", Outcome.REFUSED, "its resource provider a is refused"),
             ("d", Outcome.CREATE, "")],
            self.compare(self.provider("a", "a"), self.consumer("c", "b", "a"),
                         self.consumer("d", "b"), present=[self.provider("a", "a")],
                         owners={"a": "east", "b": "east"}))

    def test_what_belongs_to_one_that_is_refused_there(self):
        left = [Item(records.PROVIDER, "a", "", Outcome.REFUSED, "it has no name")]
        self.assertEqual(
            [("b", Outcome.REFUSED, "its parent a is refused"),
             ("c", Outcome.REFUSED, "its resource provider b is refused"),
             ("a", Outcome.REFUSED, "it has no name")],
            self.compare(self.provider("b", "b", "a"), self.consumer("c", "b"), left=left))

    def test_a_name_that_is_free_once_its_provider_is_renamed(self):
        self.assertEqual(
            [("b", Outcome.CREATE, ""), ("a", Outcome.UPDATE, "")],
            self.compare(self.provider("b", "host"), self.provider("a", "old"),
                         present=[self.provider("a", "host")]))
