"""Who sees what: pages tell everybody what the policy of the capacity API lets them read."""

from __future__ import annotations

from typing import Any

from tests.http.dashboard import cases

_PAGES = ("", "/hosts", "/leases", "/projects", "/explain", "/health")


class TestVisibility(cases.DemoTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.leases = self.v1("GET", "/leases", token="admin").json["leases"]

    def as_reader(self, project: str, **options: Any) -> dict[str, Any]:
        return {"token": f"jane:{self.projects[project]}", "roles": "reader", **options}

    def test_administrators(self) -> None:
        """All that there is, and no trouble."""
        for path in _PAGES:
            self.assertNotIn("You may not read this", self.read(path), path)

    def test_strangers(self) -> None:
        """Without a role that a rule names, there is nothing on any page."""
        secrets = [*self.projects, *self.projects.values(), "rack1-host01",
                   *(lease["name"] for lease in self.leases)]
        for project in ("elsewhere", self.projects["web"]):
            nobody = {"token": f"eve:{project}", "roles": "nobody"}
            for path in ("/hosts", "/leases", "/projects", "/explain", "/leases/x",
                         f"/project?id={self.projects['web']}"):
                self.page(path, 403, **nobody)
            for path in ("", "/health"):
                texts = self.read(path, **nobody)
                self.assertIn("You may not read this", texts)
                for secret in secrets:
                    if secret != project:
                        self.assertNotIn(f" {secret} ", f" {texts} ")

    def test_readers(self) -> None:
        """The own project and those below; of leases and changes the own ones."""
        reader = self.as_reader("physics")
        for path in ("", "/projects"):
            rows = [row[0] for row in self.page(path, **reader).rows]
            for name in ("physics", "simulation", "detector"):
                self.assertIn(name, rows)
            for name in ("domain demo", "research", "biology", "web", "shop"):
                self.assertNotIn(name, rows)
        for path in ("/hosts", "/explain", f"/project?id={self.projects['biology']}",
                     f"/project?id={self.projects['research']}",
                     f"/leases?project={self.projects['biology']}"):
            self.page(path, 403, **reader)
        self.assertIn("binds first", self.read(
            f"/project?id={self.projects['simulation']}", **reader))
        overview = self.read("", **reader)
        self.assertIn("You may not read this: the policy rule capacity:room:hosts", overview)
        self.assertIn("Free hosts of 5 in the next 14 days", overview)

    def test_leases_of_others(self) -> None:
        """They are in no calendar, and are not there."""
        owners = {lease["project_id"] for lease in self.leases}
        names = {project_id: name for name, project_id in self.projects.items()}
        for project_id in owners:
            reader = self.as_reader(names[project_id])
            own = {lease["id"] for lease in self.leases if lease["project_id"] == project_id}
            for path in ("", "/leases", "/leases?by=project"):
                shown = {link.rpartition("/")[2] for link in self.page(path, **reader).links
                         if "/leases/" in link}
                self.assertEqual(own, shown, path)
            for lease in self.leases:
                path = f"/leases/{lease['id']}"
                if lease["id"] in own:
                    self.assertNotIn("rack3-host", self.read(path, **reader))
                else:
                    self.page(path, 404, **reader)

    def test_hosts_of_leases(self) -> None:
        """On which hosts leases are is for those who may list what reservations hold."""
        host = "rack3-host06"
        self.assertIn(host, self.read("/leases?by=host"))
        self.assertIn("Host of the freepool", self.read(f"/leases?host={host}"))
        reader = self.as_reader("physics")
        for query in ("by=host", f"host={host}", "host=nothing", f"by=project&host={host}"):
            self.assertNotIn(host, self.read(f"/leases?{query}", status=403, **reader), query)
        for path in ("/leases", "/leases?by=project", "/leases?host="):
            texts = self.read(path, **reader)
            self.assertNotIn("by host", texts)
            self.assertNotIn("Host of the freepool", texts)

    def test_limits_of_others(self) -> None:
        """The history of a limit is read by those of its project."""
        reader = self.as_reader("web")
        rows = self.page("", **reader).rows
        self.assertEqual({"web"}, {
            row[3] for row in rows if row[1:2] == ["Limit created"]})

