"""/capacity/v1/claims: what clients send and get."""

from __future__ import annotations

import copy
import datetime
import json
import random
import uuid
from typing import Any

import sqlalchemy as sa
import webob

from placement_core.db import clock
from placement_core.placement import tables as placement_tables
from placement_core.quota import tables
from placement_core.testing import factories
from tests import databases
from tests.http.limits_api.cases import LimitsTestCase

_PATH = "/capacity/v1/claims"
_holds = tables.held_claims


class ClaimsTestCase(LimitsTestCase):
    """A host with 16 VCPU; ``top`` and what is below it may use 8 of them."""

    options = {("limits", "enforcement_model"): "tree"}

    def fill(self) -> None:
        super().fill()
        self.registered("class:VCPU", 8, region_id=None)
        self.limit(self.top, 8, region_id=None, resource_name="class:VCPU")
        self.ctx = self.services.context()
        self.host = factories.provider(self.ctx, inventory={"VCPU": 16, "MEMORY_MB": 64}).uuid

    def body(self, amount: int = 2, **fields: Any) -> dict[str, Any]:
        return {"claim": {
            "project_id": self.middle, "user_id": "bob", "consumer_type": "INSTANCE",
            "allocations": {self.host: {"resources": {"VCPU": amount}}}, **fields}}

    def claims(
        self, method: str, path: str = "", body: Any = None, *, status: int | None = None,
        **options: Any,
    ) -> webob.Response:
        """Send one request; ``path`` is below /capacity/v1/claims."""
        response = self.ask(method, f"{_PATH}{path}", body, version=None, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response

    def made(self, amount: int = 2, **fields: Any) -> dict[str, Any]:
        return self.claims("POST", "", self.body(amount, **fields), status=201).json["claim"]

    def due(self, **fields: Any) -> str:
        """Make a claim whose time is over; return its consumer."""
        consumer = self.made(hold_seconds=600, **fields)["consumer_uuid"]
        with self.services.database.autocommit.connect() as connection:
            connection.execute(sa.update(_holds).where(
                _holds.c.consumer_uuid == consumer).values(
                    expires_at=clock.in_seconds(sa.literal(-1))))
        return consumer

    def held(self, consumer: str) -> dict[str, Any]:
        return self.ask("GET", f"/allocations/{consumer}").json["allocations"]

    def rows(self) -> tuple[int, ...]:
        """Return how many rows the tables have that claims write."""
        with self.services.database.autocommit.connect() as connection:
            return tuple(
                connection.scalar(sa.select(sa.func.count()).select_from(table))
                for table in (_holds, placement_tables.allocations, placement_tables.consumers))


@databases.on_each_database
class TestClaims(ClaimsTestCase):
    def test_life_of_a_held_one(self) -> None:
        response = self.claims("POST", "", self.body(hold_seconds=600), status=201)
        claim = response.json["claim"]
        consumer = claim["consumer_uuid"]
        self.assertEqual(f"http://localhost:80{_PATH}/{consumer}", response.headers["Location"])
        left = (datetime.datetime.fromisoformat(claim["expires_at"])
                - datetime.datetime.now(datetime.UTC))
        self.assertTrue(580 < left.total_seconds() < 620, left)
        self.assertEqual({
            "consumer_uuid": str(uuid.UUID(consumer)), "project_id": self.middle,
            "user_id": "bob", "consumer_type": "INSTANCE", "state": "held",
            "expires_at": claim["expires_at"],
            "allocations": {self.host: {"resources": {"VCPU": 2}}}}, claim)
        self.assertEqual({"claim": claim}, self.claims("GET", f"/{consumer}", status=200).json)
        self.assertEqual({"claims": [claim], "links": {"next": None}},
                         self.claims("GET", status=200).json)
        self.assertEqual({"VCPU": 2}, self.held(consumer)[self.host]["resources"])
        confirmed = {"claim": {**claim, "state": "confirmed", "expires_at": None}}
        for _ in range(2):
            self.assertEqual(
                confirmed, self.claims("POST", f"/{consumer}/confirm", status=200).json)
        self.assertEqual(confirmed, self.claims("GET", f"/{consumer}", status=200).json)
        self.assertEqual([], self.claims("GET", status=200).json["claims"])
        self.claims("DELETE", f"/{consumer}", status=204)
        self.assertEqual({}, self.held(consumer))
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/confirm")):
            self.assert_refused(404, consumer, self.claims(method, f"/{consumer}{path}"),
                                "claim.not_found")
        self.assertEqual((0, 0, 0), self.rows())

    def test_for_good_and_with_a_uuid(self) -> None:
        name = factories.new_uuid()
        # In any spelling, as in PUT /allocations.
        claim = self.made(consumer_uuid=name.replace("-", "").upper())
        self.assertEqual((name, "confirmed", None),
                         (claim["consumer_uuid"], claim["state"], claim["expires_at"]))
        self.assertEqual((0, 1, 1), self.rows())
        self.assert_refused(
            409, name, self.claims("POST", "", self.body(consumer_uuid=name)), "claim.exists")

    def test_what_a_candidate_says_can_be_sent(self) -> None:
        found = self.ask("GET", "/allocation_candidates?resources=VCPU:2").json
        request = found["allocation_requests"][0]
        self.assertEqual({"allocations", "mappings"}, set(request))
        self.assertEqual("held", self.made(**request, hold_seconds=9)["state"])

    def test_refused_for_quota(self) -> None:
        """The guard of PUT /allocations is off: this route enforces all the same."""
        self.assertEqual("off", self.conf.quota.guard)
        self.made(6)
        response = self.claims("POST", "", self.body(3, hold_seconds=5))
        self.assert_refused(403, f"{self.top} and what is below it may use 8, 6 is used, 3 more",
                            response, "placement.quota.exceeded")
        [error] = response.json["errors"]
        self.assertIn((self.top, "class:VCPU", "subtree", 8, 6, 3, 1), [
            (each["node_id"], each["resource_name"], each["scope"], each["limit"], each["used"],
             each["asked"], each["over_by"]) for each in error["excesses"]])
        self.assertEqual((0, 1, 1), self.rows())
        self.made(2)

    def test_refused_for_capacity(self) -> None:
        self.made(2, allocations={self.host: {"resources": {"MEMORY_MB": 60}}})
        before = self.rows()
        for resources, said in (({"MEMORY_MB": 5}, "exceed the capacity"),
                                ({"MEMORY_MB": 2**31}, "violate inventory constraints"),
                                ({"MEMORY_MB": 1e19}, "violate inventory constraints"),
                                ({"DISK_GB": 1}, "invalid")):
            self.assert_refused(409, said, self.claims("POST", "", self.body(
                allocations={self.host: {"resources": resources}})))
        self.assertEqual(before, self.rows())

    def test_late(self) -> None:
        consumer = self.due()
        self.assert_refused(409, "expired before it was confirmed",
                            self.claims("POST", f"/{consumer}/confirm"), "claim.expired")
        self.assertEqual("expired", self.claims("GET", f"/{consumer}").json["claim"]["state"])

    def test_what_is_due_makes_room(self) -> None:
        consumer = self.due(amount=8)
        self.assertEqual("held", self.made(8, hold_seconds=60)["state"])
        claim = self.claims("GET", f"/{consumer}", status=200).json["claim"]
        self.assertEqual(("expired", {}, None),
                         (claim["state"], claim["allocations"], claim["consumer_type"]))
        self.assert_refused(409, "", self.claims("POST", f"/{consumer}/confirm"),
                            "claim.expired")
        self.assert_refused(404, "", self.claims("DELETE", f"/{consumer}"))

    def test_what_is_due_makes_room_for_put_and_post(self) -> None:
        for post in (False, True):
            self.due(allocations={self.host: {"resources": {"MEMORY_MB": 64}}})
            name, body = factories.new_uuid(), {
                "allocations": {self.host: {"resources": {"MEMORY_MB": 64}}},
                "project_id": "p", "user_id": "u", "consumer_generation": None,
                "consumer_type": "INSTANCE"}
            response = (self.ask("POST", "/allocations", {name: body}) if post
                        else self.ask("PUT", f"/allocations/{name}", body))
            self.assertEqual(204, response.status_int, response.text)
            self.ask("DELETE", f"/allocations/{name}")

    def reshape(self, consumer: str, held: dict[str, int], generation: int | None) -> int:
        """Reshape the host as nova does, with what the host's consumers hold; return a status."""
        seen = self.ask("GET", f"/resource_providers/{self.host}/inventories").json
        return self.ask("POST", "/reshaper", {
            "inventories": {self.host: {
                "inventories": seen["inventories"],
                "resource_provider_generation": seen["resource_provider_generation"]}},
            "allocations": {consumer: {
                "allocations": {self.host: {"resources": held}}, "project_id": self.middle,
                "user_id": "bob", "consumer_type": "INSTANCE",
                "consumer_generation": generation}}},
            headers={"X-Roles": "admin,service"}).status_int

    def test_a_reshape_moves_what_is_held(self) -> None:
        claim = self.made(hold_seconds=600)
        self.assertEqual(204, self.reshape(claim["consumer_uuid"], {"VCPU": 2}, 1))
        self.assertEqual({"claim": claim}, self.claims(
            "GET", f"/{claim['consumer_uuid']}", status=200).json)

    def test_what_is_due_makes_room_for_a_reshape(self) -> None:
        due = self.due(amount=2)
        self.assertEqual(204, self.reshape(factories.new_uuid(), {"VCPU": 15}, None))
        self.assertEqual({}, self.held(due))

    def test_lists(self) -> None:
        mine = [self.made(1, hold_seconds=60)["consumer_uuid"] for _ in range(3)]
        other = self.made(1, hold_seconds=60, project_id=self.side)["consumer_uuid"]
        late = self.due(amount=1)

        def listed(query: str) -> list[str]:
            found, path = [], f"?{query}"
            while path is not None:
                page = self.claims("GET", path, status=200).json
                found += [each["consumer_uuid"] for each in page["claims"]]
                following = page["links"]["next"]
                path = following and following.removeprefix(_PATH)
            return found

        for query, expected in (
            ("", [*mine, other, late]), ("limit=1", [*mine, other, late]), ("state=held&limit=2",
             [*mine, other]), ("state=expired", [late]), (f"project_id={self.side}", [other]),
            (f"project_id={self.middle}&limit=2", [*mine, late]), ("project_id=nobody", []),
            (f"project_id={self.side}&state=expired", []), ("marker=999999", []),
        ):
            self.assertEqual(expected, listed(query), query)
        for query in ("limit=0", "limit=x", "marker=x", "marker=-1", "state=confirmed", "state=",
                      "bogus=1", "project_id=", f"project_id={'x' * 256}", "%ff", "state=%00",
                      "marker=9999999999999999999"):
            self.claims("GET", f"?{query}", status=400)

    def test_who_may(self) -> None:
        consumer = self.made(hold_seconds=60)["consumer_uuid"]
        for method, path, body in (
            ("GET", "", None), ("POST", "", self.body()), ("GET", f"/{consumer}", None),
            ("POST", f"/{consumer}/confirm", None), ("DELETE", f"/{consumer}", None),
        ):
            self.claims(method, path, body, token=None, status=401)
            self.claims(method, path, body, token=f"somebody:{self.middle}", status=403)
        self.assertEqual("held", self.claims("GET", f"/{consumer}").json["claim"]["state"])

    def test_methods(self) -> None:
        for method, path in (("PUT", ""), ("PATCH", "/x"), ("GET", "/x/confirm"),
                             ("POST", "/x")):
            self.claims(method, path, {}, status=405)


@databases.on_each_database
class TestBadInput(ClaimsTestCase):
    """Whatever is sent: a refusal, and nothing is written."""

    def setUp(self) -> None:
        super().setUp()
        self.conf.set_override("longest_hold_seconds", 3600, "quota")

    def bodies(self) -> Any:
        host, unknown = self.host, factories.new_uuid()
        for amount in (0, -1, 1.5, True, False, None, "1", "", [], {}, 2**63, -(2**63), 2**70,
                       1e400):
            yield self.body(amount)
            yield self.body(1, hold_seconds=amount)
        for seconds in (3601, 2**31, 2**62, 1e19):
            yield self.body(hold_seconds=seconds)
        for allocations in (
            None, [], {}, "x", {host: {}}, {host: {"resources": {}}}, {host: None}, {host: []},
            {host: {"resources": {"vcpu": 1}}}, {host: {"resources": {"": 1}}},
            {host: {"resources": {"VCPU\0": 1}}}, {host: {"resources": {"CUSTOM_\U0001f600": 1}}},
            {host: {"resources": {"CUSTOM_NOTHING": 1}}}, {"": {"resources": {"VCPU": 1}}},
            {host: {"resources": {"VCPU": 1}, "more": 1}}, {unknown: {"resources": {"VCPU": 1}}},
            {host: {"resources": {"VCPU": 1}}, unknown: {"resources": {"VCPU": 1}}},
            {"x" * 36: {"resources": {"VCPU": 1}}}, {f"{host}\n": {"resources": {"VCPU": 1}}},
            {host: {"resources": {"A" * 300: 1}}}, [{"resource_provider": {"uuid": host},
                                                     "resources": {"VCPU": 1}}],
        ):
            yield self.body(allocations=allocations)
        for name in ("", "x", None, 1, True, [], {}, "\0", "\U0001f600", "\ud800",
                     "0" * 31, "z" * 32):
            yield self.body(consumer_uuid=name)
        for name in ("project_id", "user_id"):
            for value in ("", None, 1, True, [], {}, "\0", "a\0b", "\ud800", "x" * 256):
                yield self.body(**{name: value})
        for value in ("", "instance", "a b", None, 1, "X" * 256, "\U0001f600", "\0"):
            yield self.body(consumer_type=value)
        for value in (None, {}, [], {"": "x"}, {"1": ["x"]}):
            yield self.body(mappings=value)
        whole = self.body()["claim"]
        for name in whole:
            yield {"claim": {key: value for key, value in whole.items() if key != name}}
        yield {"claim": {**whole, "more": 1}}
        yield {"claim": {**whole, "consumer_generation": None}}
        yield {"claim": whole, "more": 1}
        yield from ({}, [], None, 1, "x", {"claim": None}, {"claim": []}, {"claim": {}}, whole)

    def test_bodies(self) -> None:
        for body in self.bodies():
            sent = json.dumps(body)
            response = self.claims("POST", "", sent.encode())
            self.assertEqual(400, response.status_int, f"{sent[:300]}: {response.text}")
            self.assertIn("code", response.json["errors"][0])
        for raw in (b"", b"{", b"\xff", b"null", b"[" * 100_000, b'{"claim": NaN}'):
            self.claims("POST", "", raw, status=400)
        self.assertEqual((0, 0, 0), self.rows())

    def test_odd_but_fine(self) -> None:
        """Names of owners are anybody's, as in PUT /allocations; 2.0 is an integer."""
        claim = self.made(2.0, project_id="größe \U0001f600", user_id="%", hold_seconds=5.0)
        self.assertEqual(("größe \U0001f600", "%"), (claim["project_id"], claim["user_id"]))
        self.assertEqual([claim], self.claims(
            "GET", "?project_id=gr%C3%B6%C3%9Fe%20%F0%9F%98%80", status=200).json["claims"])
        claim = self.made(consumer_uuid=f"urn:uuid:{{{factories.new_uuid()}}}")
        self.assertEqual(36, len(claim["consumer_uuid"]))

    def test_paths(self) -> None:
        for name in ("x", "%00", "a%00b", "%ff", "%F0%9F%98%80", "x" * 300, "'", "%25", "-1", ".",
                     factories.new_uuid(), factories.new_uuid().upper(), "%20"):
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/confirm")):
                response = self.claims(method, f"/{name}{path}")
                self.assertIn(response.status_int, (400, 404), f"{method} {name}{path}")
        self.assertEqual((0, 0, 0), self.rows())

    def test_anything_spoilt(self) -> None:
        chance = random.Random(5)
        odd = (None, True, 0, -1, 5.5, 2**31, 2**63, "", "x" * 300, "\0", "\ud800", "\U0001f600",
               [], {}, [[]], {"": ""}, factories.new_uuid())

        def spoilt(value: Any) -> Any:
            if isinstance(value, dict) and value and chance.random() < 0.85:
                key = chance.choice(list(value))
                if chance.random() < 0.15:
                    key, value = chance.choice(["", "id", "x", "\0"]), {**value, "": 1}
                return {**value, key: spoilt(value.get(key))}
            return chance.choice(odd)

        for _ in range(150):
            body = spoilt(copy.deepcopy(self.body(1, hold_seconds=5)))
            before = self.rows()
            response = self.claims("POST", "", json.dumps(body).encode())
            self.assertLess(response.status_int, 500, f"{body!r:.300}: {response.text}")
            if response.status_int >= 400:
                self.assertEqual(before, self.rows(), body)
            else:
                self.claims("DELETE", f"/{response.json['claim']['consumer_uuid']}", status=204)
