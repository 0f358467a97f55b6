"""What is written meanwhile: by another copy, or by a transaction whose COMMIT was lost."""

from __future__ import annotations

import types
import uuid

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.takeover import (
    blazar_targets,
    cell_targets,
    origins,
    placement_targets,
    records,
    targets,
)
from placement_core.takeover.copier import Copier
from placement_core.takeover.records import Item, Outcome, Record
from placement_core.takeover.targets import Writer
from tests import base, databases
from tests.functional.db.test_lost_commit import put_proxy_before

_SOURCE = "somewhere"
_INSTANCE = {"project_id": "web", "user_id": "ann", "cell": None, "queued_for_delete": False}
_PROVIDER = {
    "name": "{id}", "generation": 3, "parent": None, "inventories": {}, "traits": (),
    "aggregates": ()}


def _make_records(kind: str, *fields: dict) -> list[Record]:
    ids = [str(uuid.uuid4()) for _ in fields]
    return [Record(kind, id_, id_, {
        name: value.format(id=id_) if isinstance(value, str) else value
        for name, value in of_one.items()}) for id_, of_one in zip(ids, fields, strict=True)]


def _make_items(new: list[Record], outcome: Outcome = Outcome.CREATE) -> list[Item]:
    return [Item(record.kind, record.id, record.name, outcome, record=record) for record in new]


def _make_instances(number: int) -> list[Record]:
    return _make_records(records.INSTANCE, *[_INSTANCE] * number)


class CopierTestCase(base.DatabaseTestCase):
    def copier(self, ctx: Context | None = None) -> Copier:
        """Return one of a copy that has compared before anything was copied."""
        return Copier(ctx or self.context(), _SOURCE, None, dict.fromkeys(
            (records.REGION, records.PROVIDER, records.HOST_PROPERTY, records.INSTANCE), ()))

    def copy(self, target: Writer, items: list[Item], copier: Copier | None = None) -> list[str]:
        """Copy records; return what became of each."""
        copier = copier or self.copier()
        outcomes = [item.outcome.value for item in copier.copy_all(target, items)]
        copier.adopt(target, items)
        return outcomes

    def list_copied(self, kind: str) -> set[str]:
        return origins.list_copied(self.ctx, _SOURCE, [kind])[kind]


@databases.on_each_database
class TestAnotherCopy(CopierTestCase):
    def find_target(self, kind: str) -> Writer:
        catalog, model = types.SimpleNamespace(local=True), types.SimpleNamespace(max_depth=None)
        [target] = [target for target in (
            *targets.list_targets(catalog, model), *placement_targets.list_targets(None),
            *blazar_targets.list_targets(), cell_targets.Instances()) if target.kind == kind]
        return target

    def list_cases(self) -> list[tuple[str, list[Record], str]]:
        """Return (kind, records, what becomes of each when another copy was faster)."""
        region = {"parent_region_id": None, "description": ""}
        return [
            (kind, _make_records(kind, fields, fields), outcome) for kind, fields, outcome in (
                (records.REGION, region, "equal"),
                (records.HOST_PROPERTY, {"name": "{id}", "private": False}, "equal"),
                (records.INSTANCE, _INSTANCE, "equal"),
                # They are made what they are to be, whoever has made them.
                (records.PROVIDER, _PROVIDER, "create"))]

    def test_that_was_faster(self) -> None:
        for kind, new, outcome in self.list_cases():
            target, items = self.find_target(kind), _make_items(new)
            self.assertEqual(["create"] * 2, self.copy(target, items), kind)
            self.assertEqual([outcome] * 2, self.copy(target, items), kind)
            self.assertEqual({record.id for record in new}, self.list_copied(kind))

    def test_that_wrote_something_else(self) -> None:
        """What differs here all the same is refused, with the reason."""
        target = self.find_target(records.HOST_PROPERTY)
        new = _make_records(records.HOST_PROPERTY, {"name": "{id}", "private": False})
        self.copy(target, _make_items(new))
        other = [Record(new[0].kind, new[0].id, "", {**new[0].fields, "private": True})]
        [item] = self.copier().copy_all(target, _make_items(other))
        self.assertEqual(
            (Outcome.REFUSED,
             "The host property cannot be written: something here has the same key."),
            (item.outcome, item.reason))

    def test_providers_that_were_here_before_any_copy(self) -> None:
        """Those that are replaced are remembered by that, those that are equal afterwards."""
        target = self.find_target(records.PROVIDER)
        new = _make_records(records.PROVIDER, *[_PROVIDER] * 3)
        target.create(self.ctx, new)
        items = [*_make_items(new[:1], Outcome.UPDATE), *_make_items(new[1:], Outcome.EQUAL)]
        self.assertCountEqual(["update", "equal", "equal"], self.copy(target, items))
        self.assertEqual({record.id for record in new}, self.list_copied(records.PROVIDER))


@databases.on_each_database
class TestLostCommits(CopierTestCase):
    """Transactions that the change log does not know are repeated."""

    def setUp(self) -> None:
        super().setUp()
        if self.kind == "sqlite":
            self.skipTest("an SQLite database has no connection that could be lost")
        self.proxy, proxied = put_proxy_before(self.database, Journal())
        self.addCleanup(self.proxy.close)
        self.addCleanup(proxied.dispose)
        self.target = cell_targets.Instances()
        self.far = self.copier(Context(proxied))
        # The first use of a pool.
        self.copy(self.target, _make_items(_make_instances(1)), self.far)

    def test_of_what_was_created(self) -> None:
        for loss, outcome in (("cut_answer", "equal"), ("cut_request", "create")):
            new = _make_instances(3)
            self.proxy.arm(loss)
            self.assertEqual([outcome] * 3, self.copy(self.target, _make_items(new), self.far))
            self.assertTrue(self.proxy.happened.is_set())
            ids = {record.id for record in new}
            self.assertEqual(ids, self.target.read_some(self.ctx, sorted(ids)).keys())
            self.assertLess(ids, self.list_copied(records.INSTANCE))

    def test_of_what_was_adopted(self) -> None:
        new = _make_instances(3)
        self.target.create(self.ctx, new)
        self.proxy.arm("cut_answer")
        self.far.adopt(self.target, _make_items(new, Outcome.EQUAL))
        self.assertTrue(self.proxy.happened.is_set())
        self.assertLess({record.id for record in new}, self.list_copied(records.INSTANCE))
