"""Claims with ``find``: what clients send and get."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from placement_core.db import clock
from placement_core.placement import tables as placement_tables
from placement_core.quota import tables
from placement_core.testing import factories
from tests import databases
from tests.http.limits_api.cases import LimitsTestCase

_PATH = "/capacity/v1/claims"
_RACKS = "aggregate:name=rack-"


class GangsTestCase(LimitsTestCase):
    """Three racks of hosts with 8 VCPU: of three hosts, two and one; 40 VCPU are allowed."""

    options = {("limits", "enforcement_model"): "tree"}

    def fill(self) -> None:
        super().fill()
        self.registered("class:VCPU", 40, region_id=None)
        self.limit(self.top, 40, region_id=None, resource_name="class:VCPU")
        self.ctx = self.services.context()
        self.hosts: dict[str, str] = {}
        self.aggregates: dict[str, str] = {}
        for rack, count in (("rack-1", 3), ("rack-2", 2), ("rack-10", 1)):
            aggregate = self.aggregates[rack] = factories.new_uuid()
            factories.provider(self.ctx, rack, aggregates=[aggregate])
            for number in range(count):
                name = f"{rack}-host-{number}"
                self.hosts[name] = factories.provider(
                    self.ctx, name, inventory={"VCPU": 8}, aggregates=[aggregate]).uuid

    def find(
        self, members: int, vcpus: int = 2, *, status: int = 201, claim: Any = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Claim members, and return the claim or the error."""
        response = self.ask("POST", _PATH, {"claim": {
            "project_id": self.middle, "user_id": "bob", "consumer_type": "INSTANCE",
            "find": {"members": members, "resources": {"VCPU": vcpus}, **fields},
            **(claim or {})}}, version=None)
        self.assertEqual(status, response.status_int, response.text)
        return response.json["claim"] if status < 400 else response.json["errors"][0]

    def count(self, table: sa.Table) -> int:
        with self.services.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(table))


def list_hosts(claim: dict[str, Any]) -> list[str]:
    return [member["host"] for member in claim["members"]]


@databases.on_each_database
class TestGangs(GangsTestCase):

    def test_members_are_consumers(self) -> None:
        names = [factories.new_uuid() for _ in range(3)]
        claim = self.find(3, within=_RACKS, spread_by="host", consumer_uuids=names)
        self.assertEqual(("confirmed", None), (claim["state"], claim["expires_at"]))
        self.assertEqual(names, [member["consumer_uuid"] for member in claim["members"]])
        self.assertEqual([f"rack-1-host-{number}" for number in range(3)], list_hosts(claim))
        for member in claim["members"]:
            self.assertEqual({_RACKS: "rack-1", "host": member["host"]}, member["domains"])
            held = self.ask("GET", f"/allocations/{member['consumer_uuid']}").json
            self.assertEqual(
                {self.hosts[member["host"]]: {"VCPU": 2}},
                {uuid: each["resources"] for uuid, each in held["allocations"].items()})
            self.assertEqual(
                {uuid: {"resources": each["resources"]}
                 for uuid, each in held["allocations"].items()}, member["allocations"])
        again = self.find(3, consumer_uuids=names, status=409)
        self.assertEqual("claim.exists", again["code"])

    def test_topology(self) -> None:
        self.assertEqual(["rack-10-host-0"] * 3, list_hosts(self.find(3, within=_RACKS)))
        packed = self.find(8, pack_by=_RACKS)
        self.assertEqual({"rack-2"}, {each["domains"][_RACKS] for each in packed["members"]})
        spread = self.find(4, vcpus=1, spread_by="host", max_per_host=1, order_by=_RACKS)
        self.assertEqual(4, len(set(list_hosts(spread))))
        self.assertEqual(list_hosts(spread), sorted(
            list_hosts(spread), key=lambda name: (int(name.split("-")[1]), name)))

    def test_order_of_names(self) -> None:
        spread = self.find(6, spread_by=_RACKS)
        self.assertEqual(["rack-1", "rack-1", "rack-2", "rack-2", "rack-10", "rack-10"],
                         [each["domains"][_RACKS] for each in spread["members"]])

    def test_no_room_is_explained(self) -> None:
        error = self.find(13, within=_RACKS, status=409)
        self.assertEqual("gang.no_room", error["code"])
        self.assertIn(
            f"13 members do not fit: the largest {_RACKS} (rack-1) holds 12 of 13; the largest "
            "host", error["detail"])
        self.assertIn("there is room for 24 in total", error["detail"])
        self.assertEqual(24, error["holds"])
        self.assertEqual({"level": _RACKS, "name": "rack-1", "holds": 12}, error["largest"][0])
        self.assertEqual(12, len(self.find(13, within=_RACKS, min_members=5)["members"]))

    def test_limits_bind(self) -> None:
        error = self.find(12, vcpus=4, status=403)
        self.assertEqual("placement.quota.exceeded", error["code"])
        self.assertEqual({(40, 48)}, {(each["limit"], each["asked"])
                                      for each in error["excesses"]})
        self.assertEqual(0, self.count(placement_tables.allocations))
        self.assertEqual(10, len(self.find(12, vcpus=4, min_members=8)["members"]))
        self.find(1, status=403)

    def test_dry_run(self) -> None:
        claim = self.find(4, claim={"dry_run": True, "hold_seconds": 60}, status=200)
        self.assertEqual((None, None, 4), (
            claim["state"], claim["expires_at"], len(claim["members"])))
        self.assertEqual("placement.quota.exceeded", self.find(
            12, vcpus=4, claim={"dry_run": True}, status=403)["code"])
        for table in (placement_tables.allocations, placement_tables.consumers,
                      tables.held_claims):
            self.assertEqual(0, self.count(table))

    def test_held_ones(self) -> None:
        claim = self.find(3, claim={"hold_seconds": 600})
        names = [member["consumer_uuid"] for member in claim["members"]]
        self.assertEqual("held", claim["state"])
        listed = self.ask("GET", _PATH).json["claims"]
        self.assertEqual({claim["expires_at"]}, {each["expires_at"] for each in listed})
        self.assertEqual(set(names), {each["consumer_uuid"] for each in listed})
        for _ in range(2):
            response = self.ask("POST", f"{_PATH}/confirm", {"consumer_uuids": names})
            self.assertEqual((200, names), (
                response.status_int, response.json["consumer_uuids"]))
        self.assertEqual([], self.ask("GET", _PATH).json["claims"])
        other = factories.new_uuid()
        self.assert_refused(404, other, self.ask(
            "POST", f"{_PATH}/confirm", {"consumer_uuids": [*names, other]}), "claim.not_found")
        response = self.ask("POST", f"{_PATH}/release", {"consumer_uuids": [*names, other]})
        self.assertEqual(sorted(names), response.json["consumer_uuids"])
        self.assertEqual(0, self.count(placement_tables.allocations))

    def test_late_ones_are_not_confirmed(self) -> None:
        first, second = (self.find(2, claim={"hold_seconds": 600}) for _ in range(2))
        names = [member["consumer_uuid"] for claim in (first, second)
                 for member in claim["members"]]
        self.expire(names[2:])
        self.assert_refused(409, names[2], self.ask(
            "POST", f"{_PATH}/confirm", {"consumer_uuids": names[:3]}), "claim.expired")
        self.assertEqual("held", self.ask("GET", f"{_PATH}/{names[0]}").json["claim"]["state"])

    def test_claims_that_are_due_make_room(self) -> None:
        held = self.find(24, vcpus=1, claim={"hold_seconds": 600})
        names = [member["consumer_uuid"] for member in held["members"]]
        self.find(6, vcpus=8, status=409)
        self.expire(names)
        self.find(5, vcpus=8)

    def expire(self, names: list[str]) -> None:
        with self.services.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.held_claims).where(
                tables.held_claims.c.consumer_uuid.in_(names)).values(
                    expires_at=clock.in_seconds(sa.literal(-1))))


class TestRequests(GangsTestCase):

    def test_shapes_as_in_candidates(self) -> None:
        claim = self.find(2, required=["!CUSTOM_GONE_TRAIT"], status=400)
        self.assertIn("CUSTOM_GONE_TRAIT", claim["detail"])
        uuid = self.hosts["rack-2-host-1"]
        self.assertEqual(["rack-2-host-1"] * 2, list_hosts(self.find(2, in_tree=uuid)))
        grouped = self.ask("POST", _PATH, {"claim": {
            "project_id": self.middle, "user_id": "bob", "consumer_type": "INSTANCE",
            "find": {"members": 1, "group_policy": "none", "groups": {
                "_A": {"resources": {"VCPU": 1}}, "_B": {"resources": {"VCPU": 2}}}}}})
        self.assertEqual([{"VCPU": 3}], [
            each["resources"] for member in grouped.json["claim"]["members"]
            for each in member["allocations"].values()])

    def test_aggregates_of_hosts(self) -> None:
        rack_1, rack_2, rack_10 = self.aggregates.values()
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({"member_of": [rack_2]}, {"rack-2"}),
            ({"member_of": [f"in:{rack_1},{rack_10}"]}, {"rack-1", "rack-10"}),
            ({"member_of": [f"!{rack_1}"]}, {"rack-2", "rack-10"}),
            ({"member_of": [f"in:{rack_1},{rack_10}", f"!{rack_1}"]}, {"rack-10"}),
            ({"groups": {"_A": {"resources": {"VCPU": 1}, "member_of": [rack_2]}}}, {"rack-2"})]
        for fields, racks in cases:
            claim = self.find(9, vcpus=3, min_members=1, claim={"dry_run": True}, status=200,
                              **fields)
            self.assertEqual(
                {name for name in self.hosts if name.rpartition("-host-")[0] in racks},
                set(list_hosts(claim)), fields)

    def test_traits_mark_levels(self) -> None:
        level = "aggregate:trait=CUSTOM_ROW"
        for row, rack in (("row-a", "rack-1"), ("row-b", "rack-2")):
            factories.provider(
                self.ctx, row, traits=["CUSTOM_ROW"], aggregates=[self.aggregates[rack]])
        spread = self.find(4, spread_by=level)
        self.assertEqual(
            [("row-a", "rack-1"), ("row-a", "rack-1"), ("row-b", "rack-2"), ("row-b", "rack-2")],
            [(each["domains"][level], each["host"].rpartition("-host-")[0])
             for each in spread["members"]])
        error = self.find(11, within=level, status=409)
        self.assertEqual({"level": level, "name": "row-a", "holds": 10}, error["largest"][0])

    def test_what_makes_no_sense(self) -> None:
        for fields, words in (
                ({"within": "rack"}, "expected host, aggregate:trait=TRAIT"),
                ({"within": "aggregate:trait=CUSTOM_NEVER"}, "CUSTOM_NEVER"),
                ({"pack_by": "host", "spread_by": "host"}, "exclude each other"),
                ({"min_members": 3}, "min_members (3) is more than members (2)"),
                ({"consumer_uuids": [factories.new_uuid()]}, "names 1 consumers; expected one"),
                ({"resources": {"CUSTOM_NOTHING": 1}}, "CUSTOM_NOTHING"),
                ({"members": 0}, "less than the minimum"),
                ({"required": ["in:"]}, "")):
            error = self.find(**{"members": 2, **fields}, status=400)  # type: ignore[arg-type]
            self.assertIn(words, error["detail"])
        for more in ({"allocations": {}}, {"consumer_uuid": factories.new_uuid()}):
            self.find(2, claim=more, status=400)
        self.assertEqual(400, self.ask("POST", _PATH, {"claim": {
            "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}}).status_int)
        self.assertEqual(0, self.count(placement_tables.allocations))

    def test_nothing_of_that_kind(self) -> None:
        error = self.find(2, vcpus=9, status=409)
        self.assertIn("2 members do not fit: ", error["detail"])
        self.assertIn("VCPU", error["detail"])
        self.assertEqual(0, error["holds"])


class TestPartsOfHosts(GangsTestCase):
    """Two hosts, each with a disk and two NUMA nodes with 4 PCPU and, below, a GPU.

    The names of nodes begin with their sides, and the first by name was made last.
    """

    def fill(self) -> None:
        super().fill()
        self.names: dict[str, str] = {}
        traits = {"numa-9": ["CUSTOM_WATERED"], "right-of-numa-9": ["CUSTOM_FAST", "CUSTOM_HOT"],
                  "right-of-numa-10": ["CUSTOM_FAST"]}
        for host in ("numa-10", "numa-9"):
            root = self.add(host, {"DISK_GB": 100}, traits=traits.get(host, []))
            for side in ("right", "left"):
                name = f"{side}-of-{host}"
                node = self.add(name, {"PCPU": 4}, parent=root, traits=traits.get(name, []))
                self.add(f"gpu-{name}", {"CUSTOM_GPU": 1}, parent=node)

    def add(self, name: str, inventory: dict[str, int], **fields: Any) -> str:
        provider = factories.provider(self.ctx, name, inventory=inventory, **fields)
        self.names[provider.uuid] = name
        return provider.uuid

    def try_out(
        self, members: int, resources: dict[str, int], *, status: int = 200, **fields: Any
    ) -> Any:
        """Return the names of what each member would use, or the error."""
        answer = self.find(members, resources=resources, status=status,
                           claim={"dry_run": True}, **fields)
        return answer if status >= 400 else [
            {self.names[uuid] for uuid in member["allocations"]} for member in answer["members"]]

    def test_order_by_parts(self) -> None:
        """Ranks follow the nodes, also where members use the host's disk."""
        places = [(f"{side}-of-{host}", host) for host in ("numa-9", "numa-10")
                  for side in ("left", "right") for _ in range(4)]
        nodes = [{node} for node, _ in places]
        self.assertEqual(nodes, self.try_out(16, {"PCPU": 1}, order_by="tree:1"))
        self.assertEqual(
            [{*place} for place in places],
            self.try_out(16, {"PCPU": 1, "DISK_GB": 1}, order_by="tree:1"))
        self.assertEqual(
            nodes, self.try_out(16, {"PCPU": 1}, order_by="tree:1", spread_by="tree:1"))

    def test_hosts_without_parts(self) -> None:
        """Members go there, too, and come where the name of the host does."""
        self.add("numa-9-flat", {"PCPU": 2})
        claim = self.find(18, resources={"PCPU": 1}, order_by="tree:1")
        self.assertEqual(["numa-9"] * 8 + ["numa-9-flat"] * 2 + ["numa-10"] * 8, list_hosts(claim))
        self.assertEqual([{}] * 18, [member["domains"] for member in claim["members"]])

    def test_levels_of_trees(self) -> None:
        spread = self.try_out(4, {"PCPU": 1}, spread_by="tree:1")
        self.assertEqual(
            [{f"{side}-of-{host}"} for host in ("numa-9", "numa-10")
             for side in ("left", "right")], spread)
        self.assertIn(
            "the largest tree:1 (", self.try_out(5, {"PCPU": 1}, within="tree:1", status=409)[
                "detail"])
        self.assertIn(
            "no tree:3 has room for one",
            self.try_out(1, {"PCPU": 1}, within="tree:3", status=409)["detail"])
        packed = self.find(4, resources={"PCPU": 1}, pack_by="tree:1")["members"]
        node = packed[0]["domains"]["tree:1"]
        for member in packed:
            self.assertEqual([node], [self.names[uuid] for uuid in member["allocations"]])
            self.assertEqual({"tree:1": node}, member["domains"])
        (one,) = self.find(1, resources={"CUSTOM_GPU": 1}, within="tree:2")["members"]
        self.assertEqual(
            {"tree:2": self.names[next(iter(one["allocations"]))]}, one["domains"])

    def test_same_subtree(self) -> None:
        """Each GPU is below the node of the member's PCPU."""
        members = self.try_out(
            4, {"DISK_GB": 1}, group_policy="none", same_subtree=[["_CPU", "_GPU"]], groups={
                "_CPU": {"resources": {"PCPU": 1}}, "_GPU": {"resources": {"CUSTOM_GPU": 1}}})
        self.assertEqual(
            sorted([host, f"{side}-of-{host}", f"gpu-{side}-of-{host}"]
                   for host in ("numa-10", "numa-9") for side in ("left", "right")),
            sorted(sorted(names, key=lambda name: (name.count("-"), name)) for names in members))

    def test_traits(self) -> None:
        """Of what members use, and of the roots of their hosts; all room is used."""
        group = {"_CPU": {"resources": {"PCPU": 1}, "required": ["CUSTOM_HOT"]}}
        of_9, of_10 = ({f"left-of-{host}", f"right-of-{host}"} for host in ("numa-9", "numa-10"))
        cases: list[tuple[dict[str, int], dict[str, Any], set[str]]] = [
            ({"PCPU": 1}, {"required": ["CUSTOM_FAST"]}, {"right-of-numa-9", "right-of-numa-10"}),
            ({"PCPU": 1}, {"required": ["CUSTOM_FAST", "!CUSTOM_HOT"]}, {"right-of-numa-10"}),
            ({"PCPU": 1}, {"required": ["CUSTOM_FAST", "CUSTOM_HOT"]}, {"right-of-numa-9"}),
            ({"PCPU": 1}, {"required": ["in:CUSTOM_HOT,CUSTOM_WATERED"]}, {"right-of-numa-9"}),
            ({"DISK_GB": 1}, {"groups": group}, {"numa-9", "right-of-numa-9"}),
            ({"PCPU": 1}, {"root_required": ["CUSTOM_WATERED"]}, of_9),
            ({"PCPU": 1}, {"root_required": ["!CUSTOM_WATERED"]}, of_10),
            ({"PCPU": 1}, {"root_required": ["CUSTOM_WATERED", "!CUSTOM_HOT"]}, of_9)]
        for resources, fields, used in cases:
            members = self.try_out(20, resources, min_members=1, **fields)
            self.assertEqual(used, set().union(*members), fields)
            self.assertEqual(4 * len([name for name in used if "-of-" in name]), len(members))
        self.try_out(1, {"PCPU": 1}, root_required=["CUSTOM_WATERED", "CUSTOM_HOT"], status=409)
