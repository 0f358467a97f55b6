"""/capacity/v1/quota/… and /capacity/v1/explain/quota."""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

import fixtures
import sqlalchemy as sa
import webob

from placement_core import app
from placement_core.cells import tables as cell_tables
from placement_core.http.leases_api import representations
from placement_core.placement import tables as placement_tables
from placement_core.quota import tables
from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase, ScopedTestCase
from tests.http.limits_api.test_bad_input import _ODD, _ODD_QUERIES, _spoilt

BIG = 2**31 - 1


class QuotaTestCase(LimitsTestCase):
    """Ten cores for every project; limits bind trees; usage is counted from placement."""

    options = {("limits", "enforcement_model"): "tree",
               ("quota", "count_usage_from_placement"): True, ("quota", "region"): "RegionOne"}

    def fill(self) -> None:
        super().fill()
        self.registered("cores", 10)
        self.registered("ram", -1)
        self.host = str(uuid.uuid4())
        self.ask("POST", "/resource_providers", {"name": "host", "uuid": self.host})
        self.ask("PUT", f"/resource_providers/{self.host}/inventories", {
            "resource_provider_generation": 0, "inventories": {"VCPU": {"total": 10**6}}})

    def use(self, project: str, cores: int, user: str = "jane") -> str:
        consumer = str(uuid.uuid4())
        response = self.ask("PUT", f"/allocations/{consumer}", {
            "allocations": {self.host: {"resources": {"VCPU": cores}}}, "project_id": project,
            "user_id": user, "consumer_generation": None, "consumer_type": "INSTANCE"})
        self.assertEqual(204, response.status_int, response.text)
        return consumer

    def quota(
        self, method: str, path: str, body: Any = None, *, status: int | None = 200,
        **options: Any,
    ) -> Any:
        """Send one request; ``path`` is below /capacity/v1."""
        response = self.ask(method, f"/capacity/v1{path}", body, version=None, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response.json if response.content_type == "application/json" else response

    def check(self, project: str, status: int = 200, **body: Any) -> Any:
        return self.quota("POST", "/quota/check", {"project_id": project, **body}, status=status)

    def seconds(self, answer: Any) -> Any:
        """Return an answer without what differs each time, and what all of them have."""
        self.assertEqual({"service_type": "compute", "service_id": self.service,
                          "region_ids": ["RegionOne"]}, answer.pop("limits_of"))
        self.assertTrue(all(took >= 0 for took in answer.pop("seconds").values()))
        return answer


@databases.on_each_database
class TestChecks(QuotaTestCase):
    def test_it_fits(self) -> None:
        self.use(self.top, 4)
        self.assertEqual({
            "project_id": self.top, "fits": True, "excesses": [], "source": "placement",
            "missing_cells": [], "unregistered": []},
            self.seconds(self.check(self.top, deltas={"cores": 6})))
        self.assertEqual({
            "project_id": self.top, "fits": True, "excesses": [], "source": None,
            "missing_cells": [], "unregistered": []},
            self.seconds(self.check(self.top, deltas={"ram": BIG})))

    def test_it_does_not(self) -> None:
        self.limit(self.top, 12)
        self.use(self.middle, 9)
        self.use(self.top, 2)
        answer = self.check(self.middle, deltas={"cores": 2, "ram": 5})
        self.assertEqual((False, [
            {"node_id": self.middle, "resource_name": "cores", "scope": "own",
             "source": "default", "limit": 10, "used": 9, "asked": 2, "user_id": None,
             "over_by": 1},
            {"node_id": self.top, "resource_name": "cores", "scope": "subtree",
             "source": "set", "limit": 12, "used": 11, "asked": 2, "user_id": None,
             "over_by": 1}]), (answer["fits"], answer["excesses"]))

    def test_of_a_user(self) -> None:
        self.ask("POST", "/capacity/v1/limits/users", {"user_limits": [
            {**self.item(self.top, 3), "user_id": "jane"}]}, version=None)
        self.use(self.top, 2)
        self.use(self.top, 4, user="joe")
        for user, fits in (("jane", False), ("joe", True), ("eve", True)):
            self.assertIs(fits, self.check(
                self.top, deltas={"cores": 2}, user_id=user)["fits"], user)
        (excess,) = self.check(self.top, deltas={"cores": 2}, user_id="jane")["excesses"]
        self.assertEqual(("user", "jane", 3, 2), tuple(
            excess[name] for name in ("scope", "user_id", "limit", "used")))

    def test_many_items(self) -> None:
        self.use(self.top, 3)
        answer = self.check(self.top, per_item={"cores": 2}, min_count=2, max_count=100)
        self.assertEqual((True, 3, [(self.top, 8)]), (
            answer["fits"], answer["count"],
            [(each["node_id"], each["asked"]) for each in answer["held_by"]]))
        answer = self.check(self.top, per_item={"cores": 2}, min_count=4, max_count=100)
        self.assertEqual((False, 3, [8]), (
            answer["fits"], answer["count"], [each["asked"] for each in answer["excesses"]]))
        answer = self.check(self.top, per_item={"cores": BIG}, min_count=1, max_count=BIG)
        self.assertEqual((False, 0), (answer["fits"], answer["count"]))

    def test_rechecks(self) -> None:
        first, second = self.use(self.top, 6), self.use(self.top, 6)
        answers = {consumer: self.check(
            self.top, deltas={"cores": 0}, recheck=True, consumers=[consumer])["fits"]
            for consumer in (second, first)}
        self.assertEqual({first: True, second: False}, answers)
        self.assert_refused(400, second, self.ask("POST", "/capacity/v1/quota/check", {
            "project_id": self.middle, "deltas": {"cores": 0}, "recheck": True,
            "consumers": [second]}, version=None), "quota.consumer.unknown")

    def test_refused(self) -> None:
        good = {"project_id": self.top, "deltas": {"cores": 1}}
        for body, code in (
            ({**good, "project_id": NOBODY}, "quota.project.unknown"),
            ({**good, "deltas": {"disk": 1}}, "quota.resource.unknown"),
            ({"project_id": self.top, "per_item": {"cores": 1}, "min_count": 3, "max_count": 2},
             "quota.count.invalid"),
        ):
            for path in ("quota/check", "explain/quota"):
                self.assert_refused(400, "", self.ask(
                    "POST", f"/capacity/v1/{path}", body, version=None), code)

    def test_no_cell_to_ask(self) -> None:
        self.conf.set_override("count_usage_from_placement", False, "quota")
        self.app = app.make_app(self.conf, apis=self.apis)
        self.assert_refused(503, "No cell", self.ask(
            "POST", "/capacity/v1/quota/check",
            {"project_id": self.top, "deltas": {"cores": 1}}, version=None), "quota.cells.none")


@databases.on_each_database
class TestShow(QuotaTestCase):
    def test_one(self) -> None:
        self.limit(self.top, 12)
        self.use(self.middle, 4)
        self.use(self.top, 3, user="joe")
        found = self.seconds(self.quota("GET", f"/quota/{self.middle}"))
        tightest = {"node_id": self.top, "scope": "subtree", "source": "set", "limit": 12,
                    "used": 7, "user_id": None}
        self.assertEqual({
            "project_id": self.middle,
            "resources": {
                "cores": {"limit": 10, "source": "default", "used": 4, "free": 5,
                          "tightest": tightest},
                "ram": {"limit": -1, "source": "default", "used": 0, "free": -1,
                        "tightest": None}},
            "source": "placement", "missing_cells": []}, found)
        found = self.quota("GET", f"/quota/{self.top}?user_id=joe")
        self.assertEqual(("joe", 3), (
            found["user"]["user_id"], found["user"]["resources"]["cores"]["used"]))
        self.quota("GET", f"/quota/{NOBODY}", status=404)

    def test_all(self) -> None:
        self.limit(self.top, 12)
        self.use(self.middle, 4)
        self.use("stranger", 3)
        found = self.seconds(self.quota("GET", "/quota"))
        self.assertEqual(
            sorted([(self.top, "top"), (self.middle, "middle"), (self.side, "side"),
                    ("stranger", None)]),
            [(each["project_id"], each["name"]) for each in found["projects"]])
        for each in found["projects"]:
            alone = self.quota("GET", f"/quota/{each['project_id']}")["resources"]
            self.assertEqual(
                {name: (share["limit"], share["source"], share["used"], share["free"],
                        share["tightest"] and share["tightest"]["node_id"])
                 for name, share in alone.items()},
                {name: tuple(share[field] for field in (
                    "limit", "source", "used", "free", "held_by"))
                 for name, share in each["resources"].items()})
        self.assertEqual({"next": None}, found["links"])

    def test_pages(self) -> None:
        everything = [each["project_id"] for each in self.quota("GET", "/quota")["projects"]]
        path, seen = "/quota?limit=2", []
        while path:
            found = self.quota("GET", path)
            self.assertLessEqual(len(found["projects"]), 2)
            seen += [each["project_id"] for each in found["projects"]]
            following = found["links"]["next"]
            path = following and following.removeprefix("/capacity/v1")
        self.assertEqual(everything, seen)
        self.assertEqual([], self.quota("GET", "/quota?marker=~")["projects"])


@databases.on_each_database
class TestExplain(QuotaTestCase):
    def explain(self, project: str, **options: Any) -> Any:
        body = options.pop("body", {"deltas": {"cores": 2}})
        return self.quota("POST", "/explain/quota", {"project_id": project, **body}, **options)

    def test_what_stops_it(self) -> None:
        self.limit(self.top, 10)
        theirs = self.use(self.top, 8)
        mine = self.use(self.middle, 1)
        found = self.explain(self.middle)
        (stop,) = found["stops"]
        self.assertEqual((False, True, [
            {"uuid": theirs, "project_id": self.top, "amount": 8}], self.top, 1), (
            found["fits"], stop["enough"], stop["consumers"], stop["node_id"], stop["over_by"]))
        self.assertEqual([stop["sentence"]], found["summary"])
        self.assertIn("project top", stop["sentence"])
        # Of what is above them, people see the limit, and not who uses how much of it.
        reader = {"token": f"eve:{self.middle}", "headers": {"X-Roles": "reader"}}
        (stop,) = self.explain(self.middle, **reader)["stops"]
        self.assertEqual((self.top, [mine]), (
            stop["node_id"], [each["uuid"] for each in stop["consumers"]]))
        self.assertNotIn(theirs, json.dumps(stop))

    def test_how_much_more_would_fit(self) -> None:
        self.use(self.top, 3)
        found = self.explain(self.top)
        self.assertEqual((True, [], 5), (
            found["fits"], found["stops"], found["more"]["cores"]["amount"]))
        found = self.explain(self.top, body={
            "per_item": {"cores": 2, "ram": 1}, "min_count": 1, "max_count": 5})
        self.assertEqual((True, 3, 3), (
            found["fits"], found["count"], found["stops"][0]["over_by"]))


@databases.on_each_database
class TestEmptyRegion(QuotaTestCase):
    """``[quota] region`` is empty, and the catalog's regions come and go."""

    options = {**QuotaTestCase.options, ("quota", "region"): "", ("quota", "guard"): "enforce"}

    def claim(self, cores: int) -> webob.Response:
        return self.ask("PUT", f"/allocations/{uuid.uuid4()}", {
            "allocations": {self.host: {"resources": {"VCPU": cores}}},
            "project_id": self.top, "user_id": "jane", "consumer_generation": None,
            "consumer_type": "INSTANCE"})

    def test_the_only_region_is_meant(self) -> None:
        answer = self.check(self.top, deltas={"cores": 11, "class:DISK_GB": 1})
        self.assertEqual((False, ["class:DISK_GB"], ["RegionOne", None]), (
            answer["fits"], answer["unregistered"], answer["limits_of"]["region_ids"]))
        self.assertEqual({"cores", "ram"},
                         set(self.quota("GET", f"/quota/{self.top}")["resources"]))
        refused = self.claim(11)
        self.assertEqual(403, refused.status_int, refused.text)
        self.assertEqual(204, self.claim(10).status_int)

    def test_a_second_region_comes_and_goes(self) -> None:
        self.make("regions", "region", id="RegionTwo")
        for path, body in (
                (f"/quota/{self.top}", None), ("/quota", None),
                ("/quota/check", {"project_id": self.top, "deltas": {"cores": 1}}),
                ("/explain/quota", {"project_id": self.top, "deltas": {"cores": 1}})):
            refused = self.quota("GET" if body is None else "POST", path, body, status=503)
            self.assertEqual("quota.region.ambiguous", refused["errors"][0]["code"])
            self.assertIn("Set [quota] region.", refused["errors"][0]["detail"])
        self.assertEqual(503, self.claim(11).status_int)
        self.v3("DELETE", "/regions/RegionTwo", status=204)
        self.assertEqual(403, self.claim(11).status_int)

    def test_the_log_names_limits_that_bind_nobody(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        app.make_app(self.conf)
        self.assertNotIn("[quota]", log.output)
        # What was registered for another region is seen by the manager, and at the next start.
        [step] = [each for each in self.services.manager(representations.LEASE)._tasks
                  if "bind nobody" in each.name]
        step.do(self.services.context())
        self.make("regions", "region", id="RegionTwo")
        for _ in range(2):
            step.do(self.services.context())
        self.assertEqual(1, log.output.count("Set [quota] region."))
        app.make_app(self.conf)
        self.assertEqual(2, log.output.count("Set [quota] region."))


@databases.on_each_database
class TestMembers(QuotaTestCase):
    def members(self, **body: Any) -> webob.Response:
        return self.ask("POST", "/capacity/v1/quota/server_group_members", {
            "project_id": self.top, "user_id": "jane", **body}, version=None)

    def test_members_and_groups(self) -> None:
        self.registered("server_group_members", 2)
        uuids = [str(uuid.uuid4()) for _ in range(3)]
        group = str(uuid.uuid4())
        with self.services.database.writer.begin() as connection:
            for number, each in enumerate(uuids):
                connection.execute(sa.insert(cell_tables.instance_mappings), {
                    "instance_uuid": each, "project_id": self.top, "queued_for_delete": False,
                    "user_id": "joe" if number else "jane"})
            connection.execute(sa.insert(cell_tables.instance_groups), {
                "id": 1, "uuid": group, "name": "web", "project_id": self.top,
                "user_id": "jane"})
            for each in uuids:
                connection.execute(sa.insert(cell_tables.instance_group_member), {
                    "group_id": 1, "instance_uuid": each})
        for named in ({"members": uuids}, {"group": "web"}, {"group": group}):
            for asked, fits in ((0, True), (1, True), (2, False)):
                found = self.seconds(self.members(**named, asked=asked).json)
                self.assertEqual({
                    "members": 1, "limit": 2, "asked": asked, "fits": fits,
                    "source": "placement", "missing_cells": []}, found)
        self.assert_refused(400, "app", self.members(group="app"))
        self.assert_refused(400, "", self.members())
        self.assert_refused(400, "", self.members(group="web", members=[]))
        self.assert_refused(400, "", self.members(members=["x"]))


class TestPolicy(QuotaTestCase):
    def test_who_may_ask_about_whom(self) -> None:
        consumer = self.use(self.top, 1)
        body = {"deltas": {"cores": 0}}
        recheck = {**body, "recheck": True, "consumers": [consumer]}
        members = {"user_id": "jane", "members": []}
        for roles, own, below, others, rechecks in (
            ("admin", 200, 200, 200, 200), ("service", 200, 200, 200, 200),
            ("reader", 200, 200, 403, 403), ("member,reader", 200, 200, 403, 403),
            ("member", 403, 403, 403, 403), ("", 403, 403, 403, 403),
        ):
            asked = {"token": f"eve:{self.top}", "headers": {"X-Roles": roles or "nothing"}}
            for project, status in (
                    (self.top, own), (self.middle, below), (self.side, others),
                    (self.domain, others)):
                self.quota("GET", f"/quota/{project}", status=status, **asked)
                for path, extra in (("/quota/check", body), ("/explain/quota", body),
                                    ("/quota/server_group_members", members)):
                    self.quota("POST", path, {"project_id": project, **extra}, status=status,
                               **asked)
            self.quota("POST", "/quota/check", {"project_id": self.top, **recheck},
                       status=rechecks, **asked)
            found = self.quota("GET", "/quota", status=own, **asked)
            if own == 200:
                self.assertEqual(
                    sorted([self.top, self.middle, *([self.side] if others == 200 else [])]),
                    [each["project_id"] for each in found["projects"]])

    def test_what_nobody_may_see_is_not_told_apart(self) -> None:
        asked = {"token": f"eve:{self.top}", "headers": {"X-Roles": "reader"}}
        self.quota("GET", f"/quota/{NOBODY}", status=403, **asked)
        self.quota("GET", "/quota/check", status=405)
        self.quota("POST", f"/quota/{self.top}", {}, status=405)
        self.quota("GET", "/quota", status=401, token=None)


class TestDomains(ScopedTestCase, QuotaTestCase):
    """Tokens for a domain, whose limits bind all projects in it."""

    def ask(self, *args: Any, headers: Any = None, **options: Any) -> webob.Response:
        if "X-User-Id" not in (headers or {}):
            headers = {"X-User-Id": "somebody", "X-Project-Id": "admins", "X-Roles": "admin",
                       **(headers or {})}
        return super().ask(*args, headers=headers, **options)

    def test_who_may_ask_about_whom(self) -> None:
        """An administrator of a domain sees the limits of others, too, but not their usage."""
        other = self.make("domains", "domain", name="other")["id"]
        far = self.make("projects", "project", name="far", domain_id=other)["id"]
        self.limit(None, 20, domain_id=self.domain)
        for project, cores in ((self.side, 3), (self.middle, 2), (far, 4)):
            self.use(project, cores)
        body = {"deltas": {"cores": 8}}
        for roles, allowed in (("reader", 200), ("member,reader", 200), ("admin", 200),
                               ("service", 200), ("member", 403), ("", 403)):
            asked = {"headers": {
                "X-User-Id": "eve", "X-Domain-Id": self.domain, "X-Roles": roles}}
            quota = self.quota("GET", "/quota", status=allowed, **asked)
            if allowed == 200:
                self.assertEqual(
                    {self.top: 0, self.middle: 2, self.side: 3},
                    {project["project_id"]: project["resources"]["cores"]["used"]
                     for project in quota["projects"]})
            for project, status in ((self.side, allowed), (self.domain, allowed), (far, 403),
                                    (other, 403), (NOBODY, 403)):
                self.quota("GET", f"/quota/{project}", status=status, **asked)
                for path, extra in (
                        ("/quota/check", body), ("/explain/quota", body),
                        ("/quota/server_group_members", {"user_id": "jane", "members": []})):
                    self.quota("POST", path, {"project_id": project, **extra}, status=status,
                               **asked)
            # What is written down, and what decides about others, stays with services.
            self.quota("POST", "/quota/check", {
                "project_id": self.side, "deltas": {"cores": 0}, "recheck": True,
                "consumers": [str(uuid.uuid4())]}, status=403, **asked)
            for path in ("/limits/effective", f"/limits/users?project_id={self.side}", "/claims"):
                self.quota("GET", path, status=403, **asked)
        reader = {"headers": {
            "X-User-Id": "eve", "X-Domain-Id": self.domain, "X-Roles": "reader"}}
        side = self.quota("GET", f"/quota/{self.side}", **reader)["resources"]["cores"]
        self.assertEqual((10, 3, 7), (side["limit"], side["used"], side["free"]))
        (stop,) = self.quota("POST", "/explain/quota", {"project_id": self.side, **body},
                             **reader)["stops"]
        self.assertEqual((self.side, [3]), (
            stop["node_id"], [holder["amount"] for holder in stop["consumers"]]))


@databases.on_each_database
class TestBadInput(QuotaTestCase):
    def rows(self) -> list[int]:
        with self.services.database.autocommit.connect() as connection:
            return [connection.scalar(sa.select(sa.func.count()).select_from(table))
                    for table in (tables.rechecked_claims, placement_tables.consumers,
                                  placement_tables.allocations, tables.limit_nodes)]

    def test_a_table_of_bodies(self) -> None:
        consumer = self.use(self.top, 1)
        before = self.rows()
        checks = {"project_id": self.top, "deltas": {"cores": 1}}
        many = {"project_id": self.top, "per_item": {"cores": 1}, "min_count": 1,
                "max_count": 2}
        recheck = {"project_id": self.top, "deltas": {"cores": 0}, "recheck": True,
                   "consumers": [consumer]}
        bad: list[Any] = [b"", b"{", b"null", b"[]", b'"x"', b"\xff", {}, {"project_id": "x"}]
        for amount in (-1, -BIG, BIG + 1, 2**63, 2**70, 1.5, "1", None, True, [], {}, 1e400):
            bad.append({**checks, "deltas": {"cores": amount}})
            bad.append({**many, "per_item": {"cores": amount}})
            bad.append({**recheck, "deltas": {"cores": amount}})
            for name in ("min_count", "max_count"):
                bad.append({**many, name: amount})
        for name in ("", " ", "x" * 256, "a\0b", "disk", "class:", "class:vcpu", "\U0001f600",
                     "server_key_pairs"):
            bad += [{**checks, "deltas": {name: 0}}, {**many, "per_item": {name: 1}},
                    {**recheck, "deltas": {name: 0}}]
        for id_ in (None, 5, True, "", " ", "a\0b", "x" * 256, [], {}):
            bad += [{**checks, "project_id": id_}, {**many, "user_id": id_}]
        for id_ in (NOBODY, "\U0001f600", "'; DROP TABLE projects; --", f"{self.top} "):
            bad.append({**checks, "project_id": id_})
        for uuids in (None, [], "x", [""], [None], [5], ["x" * 36], [consumer, consumer],
                      [str(uuid.uuid4())], [consumer + "\n"], {}, [["a"]], True,
                      [consumer, str(uuid.uuid4())]):
            bad.append({**recheck, "consumers": uuids})
        bad += [
            {**checks, "consumers": [consumer]}, {**checks, "recheck": True},
            {**recheck, "recheck": False}, {**recheck, "recheck": 1}, {**recheck, "recheck": "x"},
            {**recheck, "deltas": {"cores": 1}}, {**checks, **many}, {**many, "recheck": True},
            {**checks, "deltas": {}}, {**many, "per_item": {}}, {**checks, "more": 1},
            {**checks, "deltas": [["cores", 1]]}, {**many, "min_count": 3},
            {**many, "min_count": 0},
            {**checks, "deltas": {f"class:C{number}": 0 for number in range(501)}},
        ]
        for body in bad:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            response = self.ask("POST", "/capacity/v1/quota/check", sent, version=None)
            self.assertEqual(400, response.status_int, f"{body!r:.300}: {response.text:.300}")
            self.assertIn("code", response.json["errors"][0])
        self.assertEqual(before, self.rows())
        response = self.ask("POST", "/capacity/v1/quota/check", checks, version=None,
                            headers={"Content-Type": "text/plain"})
        self.assertEqual(415, response.status_int)

    def test_queries(self) -> None:
        for path in ("/quota", f"/quota/{self.top}"):
            for query in ("bogus=1", "limit=0", "limit=-1", "limit=x", "limit=1.5",
                          "user_id=", "marker=", f"user_id={'x' * 256}", "limit="):
                self.quota("GET", f"{path}?{query}", status=400)
            for odd in _ODD_QUERIES:
                for name in ("limit", "marker", "user_id", "x"):
                    response = self.ask(
                        "GET", f"/capacity/v1{path}?{name}={odd}", version=None)
                    self.assertLess(response.status_int, 500, (path, name, odd))
        for odd in _ODD_QUERIES:
            if odd:
                response = self.ask("GET", f"/capacity/v1/quota/{odd}", version=None)
                self.assertIn(response.status_int, (400, 404), odd)

    def test_spoilt_bodies(self) -> None:
        consumer = self.use(self.top, 1)
        before = self.rows()[1:3]
        chance = random.Random(9)
        requests = (
            ("/quota/check", {"project_id": self.top, "user_id": "jane",
                              "deltas": {"cores": 1, "ram": 0}}),
            ("/quota/check", {"project_id": self.top, "deltas": {"cores": 0}, "recheck": True,
                              "consumers": [consumer]}),
            ("/quota/check", {"project_id": self.top, "per_item": {"cores": 1},
                              "min_count": 1, "max_count": 2}),
            ("/explain/quota", {"project_id": self.top, "deltas": {"cores": 100}}),
            ("/quota/server_group_members", {
                "project_id": self.top, "user_id": "jane", "members": [consumer]}),
            ("/quota/server_group_members", {
                "project_id": self.top, "user_id": "jane", "group": "x", "asked": 1}),
        )
        for _ in range(150):
            for path, body in requests:
                spoilt = _spoilt(chance, body)
                response = self.ask(
                    "POST", f"/capacity/v1{path}", json.dumps(spoilt).encode(), version=None)
                self.assertLess(response.status_int, 500, f"{path} {spoilt!r:.300}")
        for odd in _ODD:
            # A number that has to be read the slow way lets half a character pass.
            response = self.ask(
                "POST", "/capacity/v1/quota/check", json.dumps(
                    {"project_id": odd, "user_id": odd, "deltas": {"cores": 1.0}}).encode(),
                version=None)
            self.assertLess(response.status_int, 500, f"{odd!r:.100}")
            if isinstance(odd, str) and odd:
                response = self.ask(
                    "POST", "/capacity/v1/quota/check", json.dumps(
                        {"project_id": self.top, "deltas": {odd: 1.0}}).encode(), version=None)
                self.assertEqual(400, response.status_int, f"{odd!r:.100}")
        self.assertEqual(before, self.rows()[1:3])
