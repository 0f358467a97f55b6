"""Domains as the database says them, against those of a snapshot."""

from __future__ import annotations

import random

from placement_core import db
from placement_core.placement.gangs import level_queries, levels
from placement_core.placement.gangs.levels import Domains
from placement_core.placement.index import CapacityIndex
from placement_core.testing import factories
from tests import base, databases

_LEVELS = ("aggregate:trait=CUSTOM_RACK", "aggregate:name=rack", "aggregate:name=rack-1",
           "aggregate:trait=CUSTOM_NONE", "aggregate:name=%")


@databases.on_each_database
class TestReadDomainNames(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.index = CapacityIndex(self.database)

    def find(self, level: str) -> dict[str, str]:
        """Return the name of each root's domain, by the root's name."""
        with db.read(self.ctx) as session:
            names = level_queries.read_domain_names(session, levels.parse(level))
        snapshot = self.index.snapshot(self.ctx)
        return {snapshot.entry(snapshot.layout.row_of_id[id_]).provider.name: name
                for id_, name in names.items()}

    def test_names(self) -> None:
        one, two = factories.new_uuid(), factories.new_uuid()
        host = factories.provider(self.ctx, "one", aggregates=[one], inventory={"VCPU": 1})
        factories.provider(self.ctx, "two", aggregates=[two], inventory={"VCPU": 1})
        factories.provider(self.ctx, "none", inventory={"VCPU": 1})
        factories.provider(self.ctx, "device", parent=host, aggregates=[two])
        factories.provider(self.ctx, "rack-1", aggregates=[one], traits=["CUSTOM_RACK"])
        factories.provider(self.ctx, "rack-2", aggregates=[two], traits=["CUSTOM_RACK"])
        factories.sharing_provider(
            self.ctx, "rack-disk", aggregates=[two], inventory={"DISK_GB": 1})
        racks = {"one": "rack-1", "rack-1": "rack-1", "two": "rack-2", "rack-2": "rack-2",
                 "rack-disk": "rack-2"}
        self.assertEqual(racks, self.find("aggregate:trait=CUSTOM_RACK"))
        self.assertEqual({name: {"rack-2": "rack-2, rack-disk"}.get(rack, rack)
                          for name, rack in racks.items()}, self.find("aggregate:name=rack"))
        self.assertEqual({}, self.find("aggregate:name=one"))
        self.assertEqual({}, self.find("aggregate:name=Rack"))

    def test_as_a_snapshot_says(self) -> None:
        chance = random.Random(5)
        uuids = [factories.new_uuid() for _ in range(5)]
        factories.provider(self.ctx, "somebody", traits=["CUSTOM_NONE"])
        for number in range(40):
            parent = factories.provider(
                self.ctx, f"{chance.choice(('host', 'rack', 'Rack', 'r%ck'))}-{number}",
                inventory={"VCPU": 1} if chance.random() < 0.6 else None,
                aggregates=chance.sample(uuids, chance.choice((0, 1, 1, 2))),
                traits=[trait for trait in ("CUSTOM_RACK", "MISC_SHARES_VIA_AGGREGATE")
                        if chance.random() < 0.3])
            if chance.random() < 0.3:
                factories.provider(self.ctx, f"rack-device-{number}", parent=parent,
                                   aggregates=chance.sample(uuids, 1))
        found = 0
        for text in _LEVELS:
            level, snapshot = levels.parse(text), self.index.snapshot(self.ctx)
            domains = Domains(snapshot, level)
            expected = {}
            for row, entry in enumerate(snapshot.entries):
                if (entry is not None and snapshot.layout.root[row] == row
                        and domains.numbers[row] >= 0):
                    expected[entry.provider.name] = domains.name(domains.numbers[row])
            self.assertEqual(expected, self.find(text), text)
            found += len(expected)
        self.assertTrue(found > 30, found)

    def test_equal_names(self) -> None:
        """What marks two aggregates does not make them one."""
        first, second = sorted(factories.new_uuid() for _ in range(2))
        factories.provider(self.ctx, "rack", aggregates=[first, second], traits=["CUSTOM_RACK"])
        factories.provider(self.ctx, "one", aggregates=[first], inventory={"VCPU": 1})
        factories.provider(self.ctx, "two", aggregates=[second], inventory={"VCPU": 1})
        found = self.find("aggregate:trait=CUSTOM_RACK")
        self.assertEqual((f"rack ({first})", f"rack ({second})"), (found["one"], found["two"]))
