"""The pages of the dashboard: what they show of a cloud, and of an empty one."""

from __future__ import annotations

import re

import bs4
import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import projects
from placement_core.reservations import records, tables
from placement_core.reservations.manager import heartbeats
from placement_core.reservations.provisioning import outbox
from placement_core.thresholds import monitor, webhooks
from tests import databases
from tests.http.dashboard import cases
from tests.http.leases_api.cases import NOBODY, date, whole


@databases.on_each_database
class TestEmpty(cases.PageTestCase):
    def test_pages_of_an_empty_service(self) -> None:
        """Nothing is there, and each page says so."""
        for path, text in (
                ("", "There is no inventory"), ("", "The freepool has no hosts"),
                ("", "a line for each, such as shape = VCPU:4,MEMORY_MB:8192"),
                ("", "Nothing happened yet"), ("/hosts", "There are no hosts"),
                ("/leases", "There are no leases"), ("/explain", "Explain"),
                ("/projects", "No resource has a registered limit"),
                ("/health", "No manager lived in the last day")):
            self.assertIn(text, self.read(path), path)

    def test_what_is_not_there(self) -> None:
        """404, with a page; what no page takes is 400."""
        for path in (f"/hosts/{NOBODY}", "/hosts/a%20b", "/hosts/%3Cb%3E", f"/leases/{NOBODY}",
                     "/leases/nothing", "/nothing", "/hosts?group=nothing"):
            self.page(path, 404)
        for path in (
                "/hosts?by=color", "/hosts?nothing=1", "/leases?status=odd",
                "/leases?start=tomorrow", "/leases?after=x", "/leases?by=host&after=x",
                "/leases?start=2030-01-02%200:0&end=2030-01-01%200:0", "/projects?after=x",
                "/project", "/project?id=a&after=1",
                "/explain?resources=VCPU", "/explain?q=what%3F", "/explain?q=resources%3DX:1",
                "/explain?resources=VCPU:1&required=%00"):
            self.page(path, 400)


class TestLastingIds(cases.DemoTestCase):
    """Scripts know what a user did to an element by its id, when a refresh makes a new one."""

    def find_ids(self, path: str, selector: str) -> dict[str, str]:
        """Return {what an element is or says: its id}."""
        page = bs4.BeautifulSoup(self.get_html(path), "html.parser")
        return {element.get("href") or element.get_text(): element["id"]
                for element in page.select(selector)}

    def test_projects(self) -> None:
        before = self.find_ids("/projects", "[role=treegrid] tbody tr[id]")
        [domain] = self.services.catalog.domains(self.ctx)
        projects.create(self.ctx, name="aaa", domain_id=domain.id)
        after = self.find_ids("/projects", "[role=treegrid] tbody tr[id]")
        self.assertEqual(len(before) + 1, len(after))
        self.assertEqual(before, {name: after[name] for name in before})

    def test_leases(self) -> None:
        places = (("", ".booking"), ("/leases", ".booking"), ("/leases?by=project", "h3"),
                  ("/leases?by=host", "h3"))
        before = [self.find_ids(*place) for place in places]
        self.lease(whole(), start_date="now", end_date=date(0.5), token="jane:aaa")
        after = [self.find_ids(*place) for place in places]
        for ids, later_ids in zip(before, after, strict=True):
            self.assertEqual(ids, {name: later_ids[name] for name in ids})
        self.assertGreater(len(after[0]), len(before[0]))


class TestRefreshedParts(cases.DemoTestCase):
    def test_whose_page_it_is(self) -> None:
        """Another tab may log in as somebody else, and a lease may get another name."""
        [lease, *_] = self.v1("GET", "/leases", token="admin").json["leases"]
        page = bs4.BeautifulSoup(self.get_html(f"/leases/{lease['id']}"), "html.parser")
        for selector, text in ((".me", "admin"), ("h1", lease["name"])):
            [part] = page.select(selector)
            self.assertIn(text, part.text)
            self.assertIn("data-refresh", part.attrs)
            self.assertTrue(part["id"])


class TestLongCalendar(cases.DemoTestCase):
    def test_to_the_last_year(self) -> None:
        """A calendar of all times that leases may have; no tick is beyond them."""
        for by in ("time", "host"):
            page = self.page(f"/leases?by={by}&start=0001-01-01 00:00&end=9998-01-01 00:00")
            self.assertIn("The same as a table", page.texts)


@databases.on_each_database
class TestLinks(cases.DemoTestCase):
    def test_links(self) -> None:
        """Every link of every page leads to a page, and each kind of page is among them."""
        waiting, known = [""], set()
        kinds: dict[str, int] = {}
        while waiting:
            path = waiting.pop()
            kind = re.sub("[0-9a-f-]{32,36}|=[^&]*", "…", path)
            # Of pages that are alike, some are enough.
            if path in known or kinds.get(kind, 0) >= 2:
                continue
            known.add(path)
            kinds[kind] = kinds.get(kind, 0) + 1
            for link in self.page(path, token=f"root:{self.projects['web']}").links:
                if link.startswith("/dashboard"):
                    waiting.append(link.partition("#")[0].removeprefix("/dashboard"))
        self.assertLessEqual({
            "/hosts/…", "/leases/…", "/project?id…", "/hosts?by…&group…", "/projects?resource…",
            "/leases?by…"}, kinds.keys())


class TestWhatHappened(cases.DemoTestCase):
    options = {**cases.DemoTestCase.options, ("audit", "enabled"): True,
               ("api", "max_concurrent_requests"): 6,
               ("thresholds", "enabled"): True, ("thresholds", "fewest_shapes"): 10_000,
               ("thresholds", "webhook"): ["http://127.0.0.1:1/"],
               ("thresholds", "webhook_secret"): "sesame",
               ("least_stranded", "shape"): ["MEMORY_MB:8192,VCPU:4"]}

    def find_row(self, text: str) -> tuple[list[str], str]:
        """Return a row of the section, and the address of the page that it leads to."""
        page = bs4.BeautifulSoup(self.get_html(""), "html.parser")
        row = next(row for row in page.select("#happened tbody tr") if text in row.get_text())
        return ([" ".join(cell.get_text(" ").split()) for cell in row.find_all(["td", "th"])][1:],
                row.find("a")["href"].removeprefix("/dashboard"))

    def test_thresholds(self) -> None:
        """A limit that fills up and capacity that is short, each with its page."""
        self.services.thresholds.check(self.ctx)
        cells, path = self.find_row("of a limit reached")
        self.assertRegex(" ".join(cells), r"^(80|95|100) % of a limit reached .* of .* used$")
        self.assertIn(path.rpartition("=")[2], self.projects.values())
        self.page(path)
        cells, path = self.find_row("Capacity is short")
        self.assertIn("MEMORY_MB:8192,VCPU:4", cells)
        self.assertIn("10,000 are wanted", cells[-1])
        self.assertIn("resources=MEMORY_MB", path)
        self.page(path)

    def test_thresholds_that_were_left(self) -> None:
        """From when to when, and what was measured then."""
        self.services.thresholds.check(self.ctx)
        reached = [each.measurement.subject for each in monitor.list_(self.ctx)]
        for consumer in self.ask("GET", "/capacity/v1/consumers", version=None).json["consumers"]:
            self.ask("DELETE", f"/allocations/{consumer['uuid']}")
        self.services.thresholds.check(self.ctx)
        cells, path = self.find_row("of a limit left")
        self.assertRegex(" ".join(cells), r"^\d+ % of a limit left .* reached 2.* UTC ?, left 2.* "
                                          r"UTC ?: [\d,]+ of [\d,]+ used$")
        self.assertIn(path.rpartition("=")[2], {subject.node_id for subject in reached})
        self.page(path)

    def test_reports(self) -> None:
        """Reports that webhooks have not taken, and readers who wait, as each new caller sees."""
        self.assertIn("Webhooks have all reports", self.read("/health", token="one"))
        with db.write(self.ctx) as session:
            for event_id in ("one", "two"):
                webhooks.put(session, self.services.thresholds.targets, event_id, "{}")
        with self.services.watch.enter():
            texts = self.read("/health", token="two")
        self.assertIn("2 reports of thresholds wait for webhooks.", texts)
        self.assertIn("Readers that wait for changes 1 of at most 4", texts)
        with self.services.database.autocommit.connect() as connection:
            connection.execute(sa.text(
                "UPDATE webhook_deliveries SET attempt = 1 WHERE event_id = 'one'"))
        self.assertIn("1 of them could not be delivered yet and is sent again",
                      self.read("/health", token="three"))

    def test_writes(self) -> None:
        """Who wrote what last, for those who may list the audit."""
        lease = self.v1("GET", "/leases", token="admin").json["leases"][0]
        self.v1("PUT", f"/leases/{lease['id']}", {"name": "new name"}, token="admin")
        cells, path = self.find_row("PUT /v1/leases")
        self.assertEqual(["admin", "PUT /v1/leases/{id}", "lease", lease["id"]], cells)
        self.assertEqual(f"/leases/{lease['id']}", path)
        token = f"jane:{self.projects['web']}"
        self.assertNotIn("Who wrote what last", self.read("", token=token, roles="reader"))


class TestDemo(cases.DemoTestCase):
    def test_overview(self) -> None:
        """The numbers are those of the capacity API."""
        page = self.page("")
        rooms = self.ask("GET", "/capacity/v1/room", version=None).json["resources"]
        for name, room in rooms.items():
            [row] = [row for row in page.rows if row[:1] == [name] and len(row) == 10]
            self.assertEqual(
                [f"{room[key]:,}" for key in (
                    "total", "reserved", "capacity", "used", "held", "promised")]
                + [f"{room['free'] - room['promised']:,}", f"{room['largest']:,}"], row[2:])
        lease = self.v1("GET", "/leases", token="admin").json["leases"][0]
        texts = " ".join(" ".join(page.texts).split())
        for text in (lease["name"], "Lease made", "Limit created", "Free hosts of 5",
                     "The tightest limits", "30 hosts"):
            self.assertIn(text, texts)
        self.assertEqual(30, sum(label.startswith("rack") for label in page.labels))

    def test_gaps(self) -> None:
        """A step of the timeline leads to the form, with its time and with what is needed."""
        gaps = [link for link in self.page("?memory_mb=1024").links if "duration=" in link]
        self.assertLess(0, len(gaps))
        # The first begins now, and is over in a minute if it says so.
        self.assertEqual([False, True], sorted({"start=" in link for link in gaps}))
        for link in gaps:
            self.assertIn("memory_mb=1024", link)
            self.assertNotIn("vcpu", link)
        token = f"root:{self.projects['web']}"
        for link in self.page("").links:
            if "duration=" in link:
                path = link.removeprefix("/dashboard").partition("#")[0]
                self.assertIn("When?", self.read(path, token=token))

    def test_groups_of_the_map(self) -> None:
        """A group begins a new row, and each of its rows has its name as header."""
        grid = self.find_grid("")
        racks: dict[str, set[str]] = {}
        for row in grid.find_all(role="row"):
            header, *cells = row.find_all(recursive=False)
            self.assertEqual("rowheader", header["role"])
            self.assertEqual({"gridcell"}, {cell["role"] for cell in cells})
            racks.setdefault(header.get_text(), set()).update(
                cell.a["aria-label"].partition("-")[0] for cell in cells)
        self.assertEqual(
            [{"rack1"}, {"rack2"}, {"rack3"}], sorted(racks.values(), key=sorted))
        for name in racks:
            self.assertRegex(name, r"^[0-9a-f-]{36} \(10 hosts\)$")
        # No host of this cloud has traits of its own: one group, in rows of 20.
        rows = self.find_grid("?by=trait").find_all(role="row")
        self.assertEqual([20, 10], [len(row.find_all(role="gridcell")) for row in rows])
        headers = [row.find(role="rowheader") for row in rows]
        self.assertEqual({"without traits of the site (30 hosts)"},
                         {header.get_text() for header in headers})
        # It is seen once.
        self.assertEqual([None, ["visually-hidden"]],
                         [header.get("class") for header in headers])
        # The hosts of a list are in the order of their names.
        self.assertIsNone(self.find_grid("/hosts").find(role="rowheader"))

    def find_grid(self, path: str) -> bs4.Tag:
        """Return the map of a page."""
        grid = bs4.BeautifulSoup(self.get_html(path), "html.parser").find(role="grid")
        assert grid is not None
        return grid

    def test_many_groups(self) -> None:
        """The smallest are together, as in the table."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.dashboard.panels.hosts._MOST_GROUPS", 1))
        headers = [header.get_text() for header in self.find_grid("").find_all(role="rowheader")]
        self.assertEqual(2, len(headers))
        self.assertEqual("2 smaller groups (20 hosts)", headers[1])

    def test_many_hosts(self) -> None:
        """Of many hosts the overview has one picture, and lists are in pages."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.dashboard.panels.hosts.MOST_CELLS", 12))
        page = self.page("")
        self.assertIn("host-map", page.ids)
        self.assertNotIn("grid", page.roles)
        self.assertEqual(3, sum(text.endswith(" (10 hosts)") for text in page.texts))
        names: list[str] = []
        path: str | None = "/hosts"
        while path is not None:
            page = self.page(path)
            names += [row[0] for row in page.rows if row[0].startswith("rack")]
            path = next((link.removeprefix("/dashboard") for link in page.links
                         if "after=" in link), None)
        self.assertEqual(30, len(names))
        self.assertEqual(sorted(names), names)
        group = next(link for link in self.page("/hosts").links if "group=" in link)
        self.assertEqual(10, sum(row[0].startswith("rack") for row in self.page(
            group.removeprefix("/dashboard")).rows))

    def test_hosts(self) -> None:
        """How full each host is, as its own page has it, and the groups of alike hosts."""
        parser = self.page("/hosts")
        self.assertEqual(30, sum("/hosts/" in link for link in parser.links) // 2)
        self.assertIn("30 hosts", " ".join(parser.texts))
        uuid = next(link for link in parser.links if "/hosts/" in link).rpartition("/")[2]
        usages = self.ask("GET", f"/resource_providers/{uuid}/usages").json["usages"]
        host = self.read(f"/hosts/{uuid}")
        for text in (uuid, "VCPU", f" {usages['MEMORY_MB']:,} ", "HW_CPU_X86_AVX2",
                     "Consumers with allocations on"):
            self.assertIn(text, host)

    def test_a_host_in_parts(self) -> None:
        """The providers of a host are pages of their own, which lead to each other."""
        [child] = [each for each in self.ask("GET", "/resource_providers").json[
            "resource_providers"] if each["parent_provider_uuid"]][:1]
        parser = self.page(f"/hosts/{child['uuid']}")
        self.assertIn(f"/dashboard/hosts/{child['root_provider_uuid']}", parser.links)
        self.assertIn(f"/dashboard/hosts/{child['uuid']}",
                      self.page(f"/hosts/{child['root_provider_uuid']}").links)

    def test_leases(self) -> None:
        """By time, by host and by project, with the filters of the URL, as the API lists them."""
        leases = self.v1("GET", "/leases", token="admin").json["leases"]
        texts = self.read("/leases")
        for lease in leases:
            self.assertIn(lease["name"], texts)
        lease = leases[0]
        only = self.read(f"/leases?project={lease['project_id']}&by=project")
        self.assertIn(lease["name"], only)
        for other in leases:
            if other["project_id"] != lease["project_id"]:
                self.assertNotIn(f" {other['name']} ", only)
        names = {id_: name for name, id_ in self.projects.items()}
        for path in ("/leases", "/leases?by=project", "/leases?by=host"):
            page = bs4.BeautifulSoup(self.get_html(path), "html.parser")
            links = page.select("a[href*='/project?id=']")
            self.assertLess(0, len(links), path)
            for link in links:
                project_id = link["href"].partition("=")[2]
                self.assertEqual((names[project_id], project_id), (
                    link.get_text(), link.find("bdi")["title"]), path)
        by_host = self.read("/leases?by=host&host=rack3-host06")
        self.assertIn("rack3-host06", by_host)
        self.assertNotIn("rack3-host07", by_host)
        for empty in ("host=nothing", "by=host&host=nothing", "status=ERROR", "project=nobody",
                      "by=host&status=ERROR", "start=2020-01-01%2000:00&end=2020-01-02%2000:00"):
            self.assertIn("There are no leases", self.read(f"/leases?{empty}"), empty)
        one = self.read(f"/leases/{lease['id']}")
        for text in (lease["name"], lease["id"], "start_lease", "Lease", "rack3-host"):
            self.assertIn(text, one)

    def test_projects(self) -> None:
        """The tree with what each project has, and one with the limits that bind it."""
        parser = self.page("/projects?resource=class:VCPU")
        texts = " ".join(" ".join(parser.texts).split())
        self.assertIn("The tightest limits", texts)
        for name in self.projects:
            self.assertIn(name, texts)
        project_id = self.projects["simulation"]
        quota = self.ask("GET", f"/capacity/v1/quota/{project_id}", version=None).json[
            "resources"]["class:VCPU"]
        page = self.page(f"/project?id={project_id}")
        self.assertIn(["class:VCPU", "", *(str(quota[key]) for key in ("used", "limit", "free"))],
                      [row[:5] for row in page.rows])
        project = " ".join(page.texts)
        for text in ("binds first", "Who has the most class:VCPU", "created"):
            self.assertIn(text, project)
        [row] = [row for row in parser.rows if row[0] == "simulation"]
        self.assertEqual([str(quota["used"]), "0", "0", str(quota["limit"]), str(quota["free"])],
                         row[2:7])
        self.page("/project?id=nobody", 404)

    def test_explain(self) -> None:
        """The funnel of a request, from the form or pasted, and how often it fits."""
        answer = self.ask(
            "GET", "/capacity/v1/explain/allocation_candidates?resources=VCPU:4").json
        fits = self.ask("GET", "/capacity/v1/room/fits?resources=VCPU:4").json
        for query in ("resources=VCPU:4", "q=resources%3DVCPU:4",
                      "q=http%3A//x/allocation_candidates%3Fresources%3DVCPU:4"):
            texts = self.read(f"/explain?{query}")
            self.assertIn(f"{answer['candidates']} allocation candidates", texts)
            self.assertIn(f"{fits['fits']:,} of it fit", texts)
            self.assertIn("resources=VCPU:4", texts)
        none = self.read("/explain?resources=VCPU:4&required=CUSTOM_HW", status=400)
        self.assertIn("CUSTOM_HW", none)
        self.assertIn("No", self.read("/explain?resources=VCPU:4000"))

    def test_health(self) -> None:
        """Managers, failed events, calls, and hosts that are down."""
        heartbeats.beat(self.ctx, owner="manager <1>")
        with self.services.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.lease_events).where(
                tables.lease_events.c.event_type == records.START).values(
                    status=records.E_ERROR, problem="no <b>host</b>"))
            connection.execute(sa.update(tables.computehosts).where(
                tables.computehosts.c.name == "rack3-host06").values(
                    reservable=False, down_reason="silent"))
        texts = self.read("/health")
        self.assertRegex(
            texts, r"Index read changes last \d{4}-\d\d-\d\d \d\d:\d\d UTC ?, \d+ s ago")
        self.assertIn("No webhook gets reports", texts)
        for text in ("manager <1>", "alive", "no <b>host</b>", "rack3-host06", "silent"):
            self.assertIn(text, texts)
        self.assertEqual(
            len(outbox.list_(self.ctx)) == 0, "No call waits for the compute service" in texts)

    def test_audits(self) -> None:
        """The last one counts, whichever manager made it.

        Each caller has a page of his own, which is made anew every few seconds.
        """
        heartbeats.beat(self.ctx, owner="one")
        self.assertIn(
            "No manager of the last day has compared them", self.read("/health", token="one"))
        heartbeats.record_audit(self.ctx, owner="one", findings=2)
        self.assertRegex(self.read("/health", token="two"), "2 are wrong, as manager one *found")
        heartbeats.record_audit(self.ctx, owner="two", findings=0)
        self.assertRegex(self.read("/health", token="three"),
                         "All were right when manager two *compared them")
        heartbeats.record_audit(self.ctx, owner="one", findings=1)
        self.assertRegex(self.read("/health", token="four"), "1 is wrong, as manager one *found")
