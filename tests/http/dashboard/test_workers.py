"""What pages show of workers, and of the requests that they refused."""

from __future__ import annotations

import fixtures
import sqlalchemy as sa

from placement_core.db import clock
from placement_core.workers import tables
from tests.http.dashboard import cases


class TestWorkers(cases.DemoTestCase):
    options = {**cases.DemoTestCase.options, ("workers", "report"): True}

    def setUp(self) -> None:
        # The test reports when it wants to.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter._PAUSE_SECONDS", 3600))
        super().setUp()
        self.addCleanup(self.services.reporter.stop)

    def report(self) -> None:
        self.services.reporter.report()

    def test_workers(self) -> None:
        """Each that reported, whichever answers; those that are silent are gone."""
        self.assertIn("No worker reported in the last hour.", self.read("/health"))
        self.report()
        with self.services.database.autocommit.connect() as connection:
            worker = dict(connection.execute(sa.select(tables.workers)).mappings().one())
            connection.execute(sa.insert(tables.workers).values(
                {**worker, "uuid": "other", "host": "käse <b>", "process_id": 7,
                 "seen_at": clock.in_seconds(sa.literal_column("-120")),
                 "index_read_at": None, "index_providers": None}))
        rows = {row[0]: row for row in self.page("/health", token="other").rows if row}
        self.assertEqual(["gone", "2 min ago"], rows["käse <b>, process 7"][1:3])
        self.assertEqual(["not loaded", ""], rows["käse <b>, process 7"][5:7])
        serving = rows[f"{worker['host']}, process {worker['process_id']}"]
        self.assertEqual("serves", serving[1])
        self.assertEqual(
            str(len(self.services.index.newest.value.layout.row_of_id)), serving[6])

    def test_refusals(self) -> None:
        """An administrator sees all, others those of their own project, strangers none."""
        self.assertIn("No request was refused in the last hour", self.read(""))
        web, shop = (self.projects[name] for name in ("web", "shop"))
        for project in (web, web, shop, "<b>"):
            self.ask("GET", "/resource_providers", token=f"joan:{project}")
        self.report()
        # The page is another one at once, though the cloud is as it was.
        rows = [row for row in self.page("").rows if "GET /resource_providers" in row]
        self.assertEqual({("403", "<b>", "once"), ("403", "shop", "once")}, {
            (row[1], row[3], row[6]) for row in rows if row[3] != "web"})
        [row] = [row for row in rows if row[3] == "web"]
        self.assertRegex(row[6], r"^2 since \d{4}-")
        self.assertEqual("joan", row[4])
        self.assertIn("It takes the role admin or service. req-", row[5])
        reader = {"token": f"jane:{web}", "roles": "reader"}
        self.assertEqual(["web"], [
            row[3] for row in self.page("", **reader).rows
            if "GET /resource_providers" in row])
        self.assertNotIn("Requests that were refused", self.read(
            "", token=f"eve:{web}", roles="nobody"))
