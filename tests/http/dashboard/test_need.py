"""The form "I need …" of the overview, and its three answers."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import urllib.parse
from typing import Any, ClassVar

import webob

from placement_core import app
from tests import databases
from tests.functional.cli import commands
from tests.http.dashboard import browsing
from tests.http.dashboard.browsing import read

_NEED = {"count": 3, "vcpu": 4, "memory_mb": 8192, "required": "HW_CPU_X86_AVX2",
         "project": "detector", "duration": "2d"}


class AnswersTestCase(browsing.DemoTestCase):
    def answer(
        self, question: str, *, token: str = "admin", roles: str | None = None, **fields: object
    ) -> tuple[list[str], str]:
        """Return the classes and the text of an answer."""
        page = self.show(token=token, roles=roles, **fields)
        heading = page.find(id=f"answer-{question}")
        assert heading is not None and heading.parent is not None
        return list(heading.parent["class"]), read(heading.parent)


class TestAnswers(AnswersTestCase):
    def test_yes(self) -> None:
        """There is room, the limits allow it, and it can be leased from now on."""
        need = {**_NEED, "count": 2, "project": "simulation"}
        fits = self.ask(
            "GET", "/capacity/v1/room/fits?resources=VCPU:4,MEMORY_MB:8192"
            "&required=HW_CPU_X86_AVX2", version=None).json
        classes, room = self.answer("room", **need)
        self.assertEqual(["answer", "yes"], classes)
        self.assertIn(f"Yes : {fits['fits']} fit now, 2 are needed", room)
        self.assertIn("30 hosts 30 of them have room for VCPU:4", room)
        self.assertIn(f"{fits['host_count']} of them have the trait HW_CPU_X86_AVX2", room)
        self.assertIn(fits["hosts"][0]["name"], room)
        classes, permission = self.answer("permission", **need)
        self.assertEqual(["answer", "yes"], classes)
        self.assertIn("the limits have room for 2 of 2", permission)
        # The domain's research has physics, which has simulation.
        for text in ("simulation", "physics", "research", "class:VCPU", "(binds first)"):
            self.assertIn(text, permission)
        classes, time = self.answer("time", **need)
        self.assertEqual(["answer", "yes"], classes)
        self.assertIn("As asked : a lease fits from", time)
        self.assertIn("Leases do not look at traits", time)

    def test_no(self) -> None:
        """What stops it is said, and what would help."""
        need = {**_NEED, "count": 3000}
        classes, room = self.answer("room", **need)
        self.assertEqual(["answer", "no"], classes)
        self.assertIn("3,000 are needed", room)
        self.assertIn("What stops the next one:", room)
        without = self.ask(
            "GET", "/capacity/v1/room/fits?resources=VCPU:4,MEMORY_MB:8192", version=None).json
        self.assertIn(f"without HW_CPU_X86_AVX2, {without['fits']} fit", room)
        classes, permission = self.answer("permission", **need)
        self.assertEqual(["answer", "no"], classes)
        self.assertIn("the limits have room for 0 of 3,000", permission)
        # Numbers and names as elsewhere; ids are their titles.
        self.assertIn("The limit of detector stops it: 100 class:VCPU, ", permission)
        self.assertIn(" 12,000 asked, ", permission)
        self.assertNotIn(self.projects["detector"], permission.partition("Ask the same")[0])
        self.assertEqual(
            (["answer", "no"], True), (lambda classes, text: (classes, "too small" in text))(
                *self.answer("time", **need)))

    def test_what_would_make_room(self) -> None:
        """The consumers that would have to go, with the names of their projects."""
        page = self.show(count=30, vcpu=4, memory_mb=8192, project="simulation")
        answer = page.find(id="answer-permission").parent
        explanation = self.ask("POST", "/capacity/v1/explain/quota", {
            "project_id": self.projects["simulation"], "deltas": {
                "class:MEMORY_MB": 30 * 8192, "class:VCPU": 120, "servers": 30}},
            version=None).json
        names = {id_: name for name, id_ in self.projects.items()}
        for stop in explanation["stops"]:
            holder = stop["consumers"][0]
            self.assertIn(
                f"Deleting {holder['uuid']} of {names[holder['project_id']]} "
                f"({holder['amount']:,})", read(answer))
        self.assertLess(0, len(explanation["stops"]))
        self.assertIn(self.projects["simulation"],
                      {each.get("title") for each in answer.find_all("bdi")})

    def test_nothing_is_large_enough(self) -> None:
        _, room = self.answer("room", vcpu=4000)
        self.assertIn("0 of them have room for VCPU:4000", room)
        self.assertIn("no host has 4000 free VCPU", room)

    def test_smaller_amounts(self) -> None:
        """The largest amount of a class with which all fit, as the capacity API counts them."""
        for need, name in (
                ({"vcpu": 4000, "memory_mb": 1024}, "VCPU"),
                ({"vcpu": 2, "memory_mb": 130000, "count": 3}, "MEMORY_MB"),
                ({"vcpu": 1, "memory_mb": 1024, "disk_gb": 1990, "count": 20}, "DISK_GB")):
            _, room = self.answer("room", **need)
            asked, count = need[name.lower()], need.get("count", 1)
            found = re.search(rf"with ([\d,]+) {name} instead of {asked:,}, ", room)
            self.assertIsNotNone(found, room)
            amount = int(found[1].replace(",", ""))
            self.assertLess(amount, asked)
            fits = [self.ask("GET", "/capacity/v1/room/fits?resources=" + ",".join(
                f"{key.upper()}:{smaller if key.upper() == name else need[key]}"
                for key in need if key != "count"), version=None).json["fits"]
                for smaller in (amount, amount + 1)]
            self.assertTrue(fits[0] >= count > fits[1], (need, amount, fits))
            # Less of another class would not help.
            self.assertEqual(1, room.count(" instead of "), room)

    def test_no_smaller_amount_helps(self) -> None:
        for need in ({"vcpu": 4000, "memory_mb": 10**9}, {"vcpu": 1, "count": 10**6}):
            self.assertNotIn(" instead of ", self.answer("room", **need)[1])

    def test_later(self) -> None:
        """What others have leased is free again when their leases end."""
        for count in range(1, 200):
            classes, time = self.answer("time", vcpu=32, memory_mb=65536, count=count,
                                        duration="1h")
            if classes != ["answer", "yes"]:
                break
        self.assertEqual(["answer", "later"], classes)
        self.assertIn("Later : a lease fits from", time)

    def test_what_no_lease_can_say(self) -> None:
        for fields, text in (
                ({"vcpu": 1}, "A lease has an end"),
                ({"vcpu": 1, "duration": "1h"}, "A lease needs MEMORY_MB, too"),
                ({"vcpu": 1, "memory_mb": 1, "other": "VGPU:1", "duration": "1h"},
                 "Leases promise VCPU, MEMORY_MB and DISK_GB, not VGPU")):
            classes, time = self.answer("time", **fields)
            self.assertEqual(["answer", "unknown"], classes)
            self.assertIn(f"Not known : {text}", time)

    def test_a_project_without_limits(self) -> None:
        """Only what is registered binds."""
        _, permission = self.answer("permission", disk_gb=10, project="simulation")
        self.assertIn("servers", permission)
        self.assertNotIn("DISK_GB", permission)

    def test_own_project_that_the_catalog_does_not_have(self) -> None:
        """As with noauth2: nothing was written wrongly, and what needs no project is answered."""
        need = {"vcpu": 1, "memory_mb": 1024, "duration": "1h"}
        for question, classes, text in (
                ("room", ["answer", "yes"], "fit now"),
                ("permission", ["answer", "unknown"],
                 "Your own project, admin, is not in the catalog: write the name or id of "
                 "another one in the field “for project”."),
                ("time", ["answer", "yes"], "a lease fits from")):
            answer = self.answer(question, **need)
            self.assertEqual(classes, answer[0])
            self.assertIn(text, answer[1])

    def test_own_project_is_known_by_its_id(self) -> None:
        """A name of somebody else's project that equals the own id does not matter."""
        page = self.show(token="jane:detector", roles="admin", vcpu=1)
        self.assertIn("Your own project, detector, is not in the catalog",
                      read(page.find(id="answer-permission").parent))

    def test_project_that_is_nowhere(self) -> None:
        """One that was written is a mistake, which is told beside its field."""
        page = self.show(400, vcpu=1, project="admin")
        self.assertEqual("There is no project or domain admin.",
                         read(page.find(id="project-error")))

    def test_copies(self) -> None:
        """What is to be copied asks the same questions."""
        page = self.show(**_NEED)
        for name in ("room", "permission", "time"):
            words = shlex.split(read(page.find(id=f"copy-{name}-request")))
            url = urllib.parse.urlsplit(words[-1])
            body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
            response = self.ask(
                "GET" if body is None else "POST", f"{url.path}?{url.query}", body, version=None)
            self.assertEqual(200, response.status_int, response.text)
        program, *words = shlex.split(read(page.find(id="copy-room-command")))
        self.assertEqual("placement-core", program)
        connection = self.conf.placement_database.connection
        self.assertEqual(0, commands.run(*words, connection=connection).returncode)
        for name, code in (("permission", 1), ("time", 0)):
            words = shlex.split(read(page.find(id=f"copy-{name}-command")))[1:]
            ended = commands.run(*words, connection=connection,
                                 OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="true")
            self.assertEqual(code, ended.returncode, ended.stderr)

    def test_who_may_ask(self) -> None:
        """As the policy says of the same questions in the capacity API."""
        project = self.projects["detector"]
        need: dict[str, Any] = {
            "vcpu": 1, "memory_mb": 1024, "duration": "1h", "project": project}
        for token, roles, room, permission, time in (
                (f"jane:{project}", "admin", True, True, True),
                (f"jane:{project}", "member", False, False, True),
                (f"jane:{project}", "member,reader", False, True, True),
                (f"jane:{project}", "reader", False, True, True),
                (f"jane:{self.projects['simulation']}", "reader", False, False, True),
                ("jane:elsewhere", "", False, False, False)):
            page = self.show(token=token, roles=roles, **need)
            for name, allowed in (("room", room), ("permission", permission), ("time", time)):
                heading = page.find(id=f"answer-{name}")
                text = read(heading.parent)
                self.assertEqual(allowed, "You may not" not in text, (token, roles, name, text))
            # Neither does the choice of a class tell which ones there are.
            self.assertEqual(room, page.find(id="resource-class") is not None)
            self.assertEqual(room, "Late events" in read(page.find(id="strip")))
            self.assertEqual(room, "Resource class" in read(page.find(id="strip")))

    def test_names_of_projects_that_the_caller_does_not_see(self) -> None:
        """A name is looked for among those that the caller may ask about."""
        texts = {
            read(self.show(token=f"jane:{self.projects['simulation']}", roles="reader",
                           vcpu=1, project=name).find(id="answer-permission").parent)
            for name in ("detector", "nobody has this name", self.projects["detector"])}
        self.assertEqual(1, len(texts), texts)
        own = self.show(token=f"jane:{self.projects['simulation']}", roles="reader", vcpu=1,
                        project="simulation")
        self.assertIn("have room for", read(own.find(id="answer-permission").parent))


class TestLeaseRules(AnswersTestCase):
    """A lease that fits may be one that the site does not allow."""

    options = {**AnswersTestCase.options, ("enforcement", "max_lease_duration"): 86_400}

    need: ClassVar[dict[str, Any]] = {"count": 2, "vcpu": 4, "memory_mb": 8192, "disk_gb": 1}

    def create(self, project: str, duration: datetime.timedelta) -> webob.Response:
        """Create the lease that a project needs."""
        end_at = datetime.datetime.now(datetime.UTC) + duration
        return self.ask("POST", "/v1/leases", {
            "name": "lease", "start_date": "now", "end_date": end_at.strftime("%Y-%m-%d %H:%M"),
            "reservations": [{
                "resource_type": "virtual:instance", "amount": 2, "vcpus": 4, "memory_mb": 8192,
                "disk_gb": 1, "affinity": None}],
        }, version=None, token=f"root:{self.projects[project]}", headers={"x-roles": "admin"})

    def test_too_long(self) -> None:
        """The page says what the creation says, and no time."""
        classes, time = self.answer("time", **self.need, project="simulation", duration="2d")
        self.assertEqual(["answer", "no"], classes)
        self.assertIn("No : there is room for such a lease, but a rule of the site refuses it. "
                      "The lease would last 17", time)
        self.assertNotIn("fits from", time)
        created = self.create("simulation", datetime.timedelta(days=2))
        self.assertEqual(403, created.status_int, created.text)
        for text in (time, created.text):
            self.assertIn("it may last 86400.", text)

    def test_as_long_as_allowed(self) -> None:
        classes, time = self.answer("time", **self.need, project="simulation", duration="1d")
        self.assertEqual(["answer", "yes"], classes)
        self.assertIn("As asked : a lease fits from", time)
        created = self.create("simulation", datetime.timedelta(days=1))
        self.assertEqual(201, created.status_int, created.text)

    def test_a_limit(self) -> None:
        """Limits of the project count that is named, not those of the caller's."""
        for project, verdict in (("simulation", "yes"), ("shop-staging", "no")):
            classes, time = self.answer(
                "time", token=f"root:{self.projects['web']}", roles="admin",
                count=2, vcpu=30, memory_mb=1024, project=project, duration="1h")
            self.assertEqual(["answer", verdict], classes, time)
        self.assertIn("larger than the quota: class:VCPU: 60 reserved, ", time)

    def test_whose_rules(self) -> None:
        """Those of the project that is named; of the own one, if none is."""
        self.conf.set_override(
            "max_lease_duration_exempt_project_ids", [self.projects["simulation"]], "enforcement")
        token = f"jane:{self.projects['web']}"
        for project, verdict in (("simulation", "yes"), ("detector", "no"), ("", "no")):
            page = self.show(
                token=token, roles="admin", **self.need, project=project, duration="2d")
            answer = page.find(id="answer-time").parent
            self.assertEqual(["answer", verdict], answer["class"], project)
            # What is to be copied asks about the same project, and is told the same.
            words = shlex.split(read(page.find(id="copy-time-command")))
            self.assertEqual(
                self.projects[project or "web"], words[words.index("--project") + 1])
            ended = commands.run(
                *words[1:], connection=self.conf.placement_database.connection,
                OS_ENFORCEMENT__MAX_LEASE_DURATION="86400")
            if verdict == "no":
                self.assertIn("it may last 86400.", ended.stderr)
            else:
                self.assertEqual(0, ended.returncode, ended.stderr)

    def test_request_to_copy(self) -> None:
        """It is about a lease at the time that was found."""
        for start in ("", "2090-01-02 03:04"):
            page = self.show(**self.need, duration="2d", start=start)
            words = shlex.split(read(page.find(id="copy-time-request")))
            body = json.loads(words[words.index("-d") + 1])
            [path] = [urllib.parse.urlsplit(word).path for word in words if "://" in word]
            response = self.ask("POST", path, body, version=None)
            self.assertEqual(403, response.status_int, response.text)
            self.assertIn("it may last 86400.", response.text)

    def test_who_may_not_ask(self) -> None:
        """When it fits is said all the same, and that rules are left out."""
        reader = {"token": f"jane:{self.projects['simulation']}", "roles": "reader"}
        unsaid = "Whether the rules of the site allow it is not said: "
        for project in ("detector", "nobody has this name"):
            classes, time = self.answer(
                "time", **reader, **self.need, project=project, duration="2d")
            self.assertEqual(["answer", "yes"], classes)
            self.assertIn(f"{unsaid}you may not ask about this project, or there is none.", time)
        _, time = self.answer("time", **reader, **self.need, project="simulation", duration="2d")
        self.assertIn("refuses it", time)
        self.assertNotIn(unsaid, time)

    def test_an_external_service(self) -> None:
        """It is not asked by a page that is read again and again, which says so."""
        self.conf.set_override("max_lease_duration", -1, "enforcement")
        self.conf.set_override(
            "external_service_endpoint", "http://127.0.0.1:9", "enforcement")
        self.app = app.make_app(self.conf)
        classes, time = self.answer("time", **self.need, duration="1h")
        self.assertEqual(["answer", "yes"], classes)
        self.assertIn("a service of its own that judges leases. It is not asked here", time)
        self.assertEqual(503, self.create("web", datetime.timedelta(hours=1)).status_int)


@databases.on_each_database
class TestBadInput(browsing.BrowsingTestCase):
    def assert_refused(self, field: str, text: str, **fields: object) -> None:
        page = self.show(400, **fields)
        element = page.find(id=field)
        self.assertIsNotNone(element, f"{fields}: {page}")
        self.assertEqual("true", element.get("aria-invalid"), fields)
        self.assertIn(f"{field}-error", element["aria-describedby"].split())
        self.assertIn(text, read(page.find(id=f"{field}-error")))
        self.assertIn("Region", read(page.find(id="strip")))

    def test_fields(self) -> None:
        """The message is beside the field, the status 400, and the rest of the page stands."""
        number, date = "a whole number", "such as 2027-01-31 09:00"
        for field, value, text in (
                *((field, value, number) for field in ("count", "vcpu", "memory_mb", "disk_gb")
                  for value in ("x", "-1", "1.5", "1e3", "٣", 2**31, "9" * 6000, "1 1")),
                ("count", "0", number),
                *(("other", value, "") for value in (
                    "VGPU", "VGPU:x", "VGPU:-1", ":", "VGPU:1:2", "VGPU:1,,")),
                ("other", "VCPU:1", "a field of its own"),
                ("other", f"VGPU:{2**31}", "no amount is larger"),
                ("other", "CUSTOM_NOTHING:1", "CUSTOM_NOTHING"),
                ("required", "CUSTOM_NOTHING", "CUSTOM_NOTHING"),
                ("required", "A,,B", "empty trait"), ("required", "A,!A", "A"),
                *(("start", value, date) for value in ("tomorrow", "2027-13-01 00:00")),
                ("start", "2020-01-01 00:00", "is over"),
                *(("duration", value, "such as 8h") for value in (
                    "1", "0h", "-1h", "1y", "9999999w", "h", "1.5h"))):
            self.assert_refused(field, text, **{"vcpu": 1, "memory_mb": 1, field: value})

    def test_no_resources(self) -> None:
        self.assert_refused("vcpu", "how much", count=3)

    def test_everything_is_said_at_once(self) -> None:
        page = self.show(400, count="x", vcpu="y", start="z")
        # Asking it again would be refused again; other pages refresh themselves.
        self.assertNotIn("data-refresh-seconds", page.body.attrs)
        self.assertIn("data-refresh-seconds", self.show().body.attrs)
        self.assertEqual(3, len(page.select(".field-error")))

    def test_what_was_typed_is_there_again(self) -> None:
        odd = '"><script>alert(1)</script>\u202e😀' + "x" * 255
        page = self.show(project=odd, vcpu=1, start="2090-01-02 03:04", count="")
        self.assertEqual(odd, page.find(id="project")["value"])
        self.assertEqual("2090-01-02T03:04", page.find(id="start")["value"])
        self.assertEqual([], [each for each in page.find_all("script") if not each.get("src")])

    def test_unknown_parameters_do_not_matter(self) -> None:
        page = self.show(utm_source="x", resource_class="NOTHING")
        self.assertIn("Say above what you need", read(page.find(id="answers")))
