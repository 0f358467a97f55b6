"""GET /capacity/v1/changes: what changed, and everything."""

from __future__ import annotations

import random
from typing import Any

import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase
from tests.http.capacity_api.test_limits import CapacityTestCase
from tests.http.capacity_api.test_reservations import ReservationsTestCase
from tests.http.leases_api.cases import instance

PATH = "/capacity/v1/changes"
#: Where each kind is read by itself: (path, name of the list, name of its ids).
_LISTS = {
    "provider": ("/capacity/v1/providers", "providers", "uuid"),
    "consumer": ("/capacity/v1/consumers", "consumers", "uuid"),
    "claim": ("/capacity/v1/claims", "claims", "consumer_uuid"),
    "project_usage": ("/capacity/v1/usages", "usages", "project_id"),
    "user_limit": ("/capacity/v1/limits/users", "user_limits", "id"),
}


class ChangesTestCase(HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ctx = self.parts[0].context()
        self.host = factories.provider(self.ctx, inventory={"VCPU": 1000}, name="host").uuid

    def get(self, status: int = 200, *, headers: Any = None, **query: Any) -> Any:
        text = "&".join(f"{name}={value}" for name, value in query.items())
        response = self.ask("GET", f"{PATH}?{text}", version=None, **(headers or {}))
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def now(self) -> str:
        return str(self.get(after="now")["next"])

    def since(self, token: str, **query: Any) -> set[tuple[str, str, bool]]:
        """Return what changed since a token, as (kind, id, deleted)."""
        answer = self.get(after=token, **query)
        self.assertFalse(answer["more"])
        changes = [(each["kind"], each["id"], each["deleted"]) for each in answer["changes"]]
        self.assertEqual(len(changes), len(set(changes)))
        return set(changes)

    def put(
        self, project: str = "web", uuid: str | None = None, generation: int | None = None,
        amount: int = 1,
    ) -> str:
        uuid = uuid or factories.new_uuid()
        response = self.ask("PUT", f"/allocations/{uuid}", {
            "allocations": {self.host: {"resources": {"VCPU": amount}}} if amount else {},
            "project_id": project, "user_id": "jane", "consumer_type": "INSTANCE",
            "consumer_generation": generation})
        self.assertEqual(204, response.status_int, response.text)
        return uuid


@databases.on_each_database
class TestChanges(ChangesTestCase):
    def test_an_object_once_in_its_present_state(self) -> None:
        token = self.now()
        consumer = self.put()
        self.put(uuid=consumer, generation=1, amount=3)
        self.assertEqual({("consumer", consumer, False), ("provider", self.host, False),
                          ("project_usage", "web", False)}, self.since(token))
        answer = self.get(after=token, include="document")
        documents = {each["kind"]: each["document"] for each in answer["changes"]}
        self.assertEqual({self.host: {"resources": {"VCPU": 3}}},
                         documents["consumer"]["allocations"])
        self.assertEqual({"VCPU": 3}, documents["project_usage"]["resources"])
        self.assertEqual(3, documents["provider"]["inventories"]["VCPU"]["used"])
        self.assertEqual({answer["revision"]}, {each["revision"] for each in answer["changes"]})
        self.assertEqual(set(), self.since(answer["next"]))

    def test_what_was_deleted_has_its_name(self) -> None:
        consumer = self.put()
        token = self.now()
        self.put(uuid=consumer, generation=1, amount=0)
        self.assertEqual(204, self.ask("DELETE", f"/resource_providers/{self.host}").status_int)
        self.assertEqual({("consumer", consumer, True), ("provider", self.host, True),
                          ("project_usage", "web", True)}, self.since(token))
        [host] = self.get(after=token, kinds="provider", include="document")["changes"]
        self.assertEqual("host", host["name"])
        self.assertNotIn("document", host)

    def test_what_was_created_again_is_there(self) -> None:
        """Also for a reader of small pages, who meets the deletion last."""
        token = self.now()
        for _ in range(3):
            self.assertEqual(
                204, self.ask("DELETE", f"/resource_providers/{self.host}").status_int)
            factories.provider(self.ctx, inventory={"VCPU": 9}, name="host", uuid=self.host)
        self.assertEqual({("provider", self.host, False)}, self.since(token, kinds="provider"))
        while True:
            answer = self.get(after=token, limit=1)
            self.assertEqual({False}, {each["deleted"] for each in answer["changes"]} or {False})
            token = answer["next"]
            if not answer["more"]:
                break

    def test_names(self) -> None:
        token = self.now()
        for path in ("/resource_classes/CUSTOM_A", "/traits/CUSTOM_A", "/traits/CUSTOM_B"):
            self.assertEqual(201, self.ask("PUT", path).status_int)
        self.assertEqual({("resource_class", "CUSTOM_A", False), ("trait", "CUSTOM_A", False),
                          ("trait", "CUSTOM_B", False)}, self.since(token))
        for path in ("/resource_classes/CUSTOM_A", "/traits/CUSTOM_A"):
            self.assertEqual(204, self.ask("DELETE", path).status_int)
        self.assertEqual({("resource_class", "CUSTOM_A", True), ("trait", "CUSTOM_A", True),
                          ("trait", "CUSTOM_B", False)}, self.since(token))

    def test_claims(self) -> None:
        def claim() -> str:
            response = self.ask("POST", "/capacity/v1/claims", {"claim": {
                "allocations": {self.host: {"resources": {"VCPU": 1}}}, "project_id": "web",
                "user_id": "jane", "consumer_type": "INSTANCE", "hold_seconds": 60}})
            self.assertEqual(201, response.status_int, response.text)
            return str(response.json["claim"]["consumer_uuid"])

        token = self.now()
        confirmed, released, taken_over = claim(), claim(), claim()
        self.assertEqual({("claim", uuid, False) for uuid in (confirmed, released, taken_over)},
                         self.since(token, kinds="claim"))
        token = self.now()
        self.ask("POST", f"/capacity/v1/claims/{confirmed}/confirm")
        self.assertEqual({("claim", confirmed, True)}, self.since(token))
        token = self.now()
        self.ask("DELETE", f"/capacity/v1/claims/{released}")
        self.assertEqual({("claim", released, True), ("consumer", released, True)},
                         self.since(token, kinds="claim,consumer"))
        token = self.now()
        self.put(uuid=taken_over, generation=1)
        self.assertEqual({("claim", taken_over, True), ("consumer", taken_over, False)},
                         self.since(token, kinds="claim,consumer"))
        other = self.put()
        self.assertNotIn(("claim", other, True), self.since(token, kinds="claim"))

    def test_who_changes_hands_leaves_the_old_project(self) -> None:
        consumer, other = self.put("old"), self.put("else")
        token = self.now()
        self.put("new", consumer, generation=1)
        self.put("else", other, generation=1)
        self.assertEqual({("consumer", consumer, True), ("project_usage", "old", True)},
                         self.since(token, project_id="old"))
        self.assertEqual({("consumer", consumer, False), ("project_usage", "new", False)},
                         self.since(token, project_id="new"))
        self.assertEqual({("consumer", consumer, False), ("consumer", other, False)},
                         self.since(token, kinds="consumer"))

    def test_a_transaction_is_never_split(self) -> None:
        token = self.now()
        uuids = sorted(factories.new_uuid() for _ in range(5))
        response = self.ask("POST", "/allocations", {uuid: {
            "allocations": {self.host: {"resources": {"VCPU": 1}}}, "project_id": "web",
            "user_id": "jane", "consumer_type": "INSTANCE", "consumer_generation": None,
        } for uuid in uuids})
        self.assertEqual(204, response.status_int, response.text)
        answer = self.get(after=token, limit=1, kinds="consumer")
        self.assertEqual(uuids, sorted(each["id"] for each in answer["changes"]))

    def test_the_token_moves_although_the_filter_hides_everything(self) -> None:
        token = self.now()
        self.put()
        answer = self.get(after=token, kinds="trait")
        self.assertEqual([], answer["changes"])
        self.assertNotEqual(token, answer["next"])
        self.assertEqual(set(), self.since(answer["next"]))

    def test_a_token_is_too_old(self) -> None:
        token = self.now()
        self.put()
        seen = self.now()
        self.put()
        with self.parts[0].database.writer.begin() as connection:
            connection.execute(sa.delete(tables.changes).where(
                tables.changes.c.serial < sa.select(tables.change_heads.c.serial).where(
                    tables.change_heads.c.slot == tables.changes.c.slot).scalar_subquery() - 1))
        error = self.get(410, after=token)["errors"][0]
        self.assertEqual("capacity.changes.removed", error["code"])
        self.assertIn("oldest_at", error)
        self.since(error["oldest"])
        self.since(seen)

    def test_a_restored_database_is_recognized(self) -> None:
        """With fewer transactions than the token has seen, with as many, and with more."""
        before = self.now()
        self.put()
        token = self.now()
        heads, changes = tables.change_heads, tables.changes
        with self.parts[0].database.writer.begin() as connection:
            [row] = connection.execute(
                sa.select(heads).where(heads.c.serial > 0).order_by(heads.c.serial.desc())
                .limit(1))
            connection.execute(sa.delete(changes).where(
                changes.c.slot == row.slot, changes.c.serial == row.serial))
            [earlier] = connection.execute(sa.select(changes.c.txn).where(
                changes.c.slot == row.slot, changes.c.serial == row.serial - 1).limit(1))
            connection.execute(sa.update(heads).where(heads.c.slot == row.slot).values(
                serial=row.serial - 1, txn=earlier.txn))
        for _ in range(3):
            error = self.get(410, after=token)["errors"][0]
            self.assertEqual("capacity.changes.restored", error["code"])
            self.get(after=before)
            self.put()

    def test_revisions_never_fall(self) -> None:
        revisions = []
        for _ in range(5):
            revisions.append(self.get(after="now")["revision"])
            self.put()
        self.assertEqual(sorted(set(revisions)), revisions)

    def test_tokens_that_are_none(self) -> None:
        good = self.now()
        for token in ("x", "later", good[:-4], good + "AA", "%C3%A4", "A" * 4000):
            self.assertEqual("capacity.changes.invalid_token",
                             self.get(400, after=token)["errors"][0]["code"])

    def test_queries_that_are_none(self) -> None:
        for query in ({"wait": 31}, {"wait": -1}, {"kinds": "host"}, {"kinds": ""},
                      {"kinds": "provider", "project_id": "web"}, {"include": "all"},
                      {"limit": 0}, {"after": ""}, {"since": 1}):
            self.get(400, **query)


@databases.on_each_database
class TestMirror(ChangesTestCase):
    """A mirror that is built from pages and changes has what the database has."""

    def follow(self, mirror: dict[tuple[str, str], Any], token: str | None, **query: Any) -> str:
        while True:
            if token is not None:
                query["after"] = token
            answer = self.get(include="document", **query)
            for each in answer["changes"]:
                if each["deleted"]:
                    mirror.pop((each["kind"], each["id"]), None)
                else:
                    mirror[each["kind"], each["id"]] = each["document"]
            token = str(answer["next"])
            if not answer["more"]:
                return token

    def read_all(self) -> dict[tuple[str, str], Any]:
        documents = {}
        for kind, (path, name, id_) in _LISTS.items():
            for document in self.ask("GET", path, version=None).json[name]:
                documents[kind, document[id_]] = document
        return documents

    def change(self, draw: random.Random, consumers: dict[str, int]) -> None:
        action = draw.randrange(5)
        if action < 2 or not consumers:
            consumers[self.put(draw.choice("abc"))] = 1
        elif action == 2:
            uuid = draw.choice(sorted(consumers))
            self.put(draw.choice("abc"), uuid, consumers[uuid], draw.randint(1, 3))
            consumers[uuid] += 1
        elif action == 3:
            uuid = draw.choice(sorted(consumers))
            del consumers[uuid]
            self.ask("DELETE", f"/allocations/{uuid}")
        else:
            host = factories.provider(self.ctx, inventory={"VCPU": 1}, traits=["CUSTOM_X"])
            if draw.random() < 0.5:
                self.ask("DELETE", f"/resource_providers/{host.uuid}")

    def test_while_pages_are_read(self) -> None:
        draw = random.Random(7)
        consumers: dict[str, int] = {}
        for _ in range(10):
            self.change(draw, consumers)
        mirror: dict[tuple[str, str], Any] = {}
        answer = self.get(include="document", limit=3)
        token = ""
        while True:
            for each in answer["changes"]:
                if each["deleted"]:
                    mirror.pop((each["kind"], each["id"]), None)
                else:
                    mirror[each["kind"], each["id"]] = each["document"]
            token = answer["next"]
            if not answer["more"]:
                break
            if len(mirror) % 3 == 0 and len(consumers) < 40:
                self.change(draw, consumers)
            # Standard classes and traits are many; they need not be read one by one.
            few = 3 if any(kind == "provider" for kind, _ in mirror) else 500
            answer = self.get(after=token, include="document", limit=few)
        for _ in range(20):
            self.change(draw, consumers)
            token = self.follow(mirror, token, limit=draw.randint(1, 5))
        self.assertEqual(
            self.read_all(), {key: document for key, document in mirror.items()
                              if key[0] in _LISTS})


class TestLimits(CapacityTestCase):
    def test_limits(self) -> None:
        def changed(token: str, query: str = "") -> Any:
            return self.ask(
                "GET", f"{PATH}?after={token}&include=document{query}", version=None).json

        token = changed("now")["next"]
        registered = self.registered()
        limit = self.limit(self.top, 5)
        of_user = self.user_limit()
        answer = changed(token)
        documents = {each["kind"]: each["document"] for each in answer["changes"]}
        self.assertEqual({"registered_limit", "limit", "user_limit"}, set(documents))
        self.assertEqual((5, 3), (documents["limit"]["resource_limit"],
                                  documents["user_limit"]["resource_limit"]))
        self.assertEqual(registered["id"], documents["registered_limit"]["id"])
        for query, seen in ((f"&project_id={self.top}", 2), ("&project_id=other", 0)):
            self.assertEqual(seen, len(changed(token, query)["changes"]))
        everything = self.ask("GET", f"{PATH}?kinds=limit,user_limit", version=None).json
        self.assertEqual({limit["id"], of_user["id"]},
                         {each["id"] for each in everything["changes"]})
        self.capacity("DELETE", f"/users/{of_user['id']}", status=204)
        [gone] = changed(answer["next"], f"&project_id={self.top}")["changes"]
        self.assertEqual(("user_limit", of_user["id"], "cores", True),
                         (gone["kind"], gone["id"], gone["name"], gone["deleted"]))


class TestLeases(ReservationsTestCase):
    def test_leases(self) -> None:
        def changed(query: str) -> Any:
            return self.ask("GET", f"{PATH}?include=document&kinds=lease{query}",
                            version=None).json

        token = changed("&after=now")["next"]
        lease = self.lease(instance())
        answer = changed(f"&after={token}")
        [change] = answer["changes"]
        document = self.shown(lease)
        self.assertEqual((document, lease["name"], lease["project_id"], False), (
            change["document"], change["name"], change["project_id"], change["deleted"]))
        self.assertEqual([document], [each["document"] for each in changed("")["changes"]])
        self.assertEqual([], changed(f"&after={token}&project_id=other")["changes"])
        self.ask("DELETE", f"/v1/leases/{lease['id']}", version=None, token="jane:demo",
                 headers={"X-Roles": "member"})
        [gone] = changed(f"&after={answer['next']}&project_id={lease['project_id']}")["changes"]
        self.assertEqual((lease["id"], lease["name"], True),
                         (gone["id"], gone["name"], gone["deleted"]))
        self.assertEqual([], changed("")["changes"])


class TestPolicy(ChangesTestCase):
    def read(self, project: str, roles: str, query: str, status: int = 200) -> Any:
        response = self.ask("GET", f"{PATH}?{query}", version=None, token=f"jane:{project}",
                            headers={"X-Roles": roles})
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def test_readers_of_a_project(self) -> None:
        """They see what it owns, and not on which hosts."""
        consumer = self.put("web")
        self.put("data")
        for roles, query in (("reader", ""), ("reader", "project_id=data"), ("", "project_id=web"),
                             ("reader", "kinds=consumer")):
            self.read("web", roles, query, 403)
        changes = self.read("web", "reader", "project_id=web&include=document")["changes"]
        self.assertEqual({("consumer", consumer), ("project_usage", "web")},
                         {(each["kind"], each["id"]) for each in changes})
        self.assertNotIn(self.host, str(changes))
        documents = {each["kind"]: each["document"] for each in changes}
        self.assertEqual({"VCPU": 1}, documents["consumer"]["resources"])
        self.assertIn(self.host, str(self.read("ops", "service", "include=document")))
