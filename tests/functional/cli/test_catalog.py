"""``placement-core catalog …``: what the commands print and how they exit."""

from __future__ import annotations

import json
import pathlib
import tempfile

from placement_core.migrations import revisions
from tests.functional.cli import test_commands

FILE = """
regions:
  - id: RegionOne
services:
  - {type: compute, name: nova}
endpoints:
  - {service: compute, interface: public, url: "http://host/compute", region_id: RegionOne}
domains:
  - {id: default, name: Default}
projects:
  - {name: team, domain: Default}
  - {name: web, domain: Default, parent: team}
"""


class TestCatalogCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()

    def catalog(self, *arguments: str) -> object:
        """Run a command that prints a document; return it."""
        return json.loads(self.run_command("catalog", *arguments, "-f", "json"))

    def names(self, *arguments: str) -> list[str]:
        found = self.catalog(*arguments)
        assert isinstance(found, list)
        return [row.get("name", row["id"]) for row in found]

    def refused(self, *arguments: str) -> str:
        """Run a command that must fail with one line; return the line."""
        self.run_command("catalog", *arguments, code=1)
        self.assertEqual(1, self.stderr.count("\n"), self.stderr)
        return self.stderr.strip()

    def test_regions(self) -> None:
        self.assertEqual(
            {"id": "one", "parent_region_id": None, "description": "d"},
            self.catalog("region", "add", "one", "--description", "d"))
        self.catalog("region", "add", "cell", "--parent", "one")
        self.assertEqual(["cell", "one"], self.names("region", "list"))
        self.assertEqual(["cell"], self.names("region", "list", "--parent", "one"))
        self.assertEqual(
            {"id": "cell", "parent_region_id": "one", "description": ""},
            self.catalog("region", "show", "cell"))
        self.assertIn("exists already", self.refused("region", "add", "one"))
        self.assertIn("child regions", self.refused("region", "remove", "one"))
        self.assertEqual("", self.run_command("catalog", "region", "remove", "cell"))
        self.assertEqual("Could not find region: cell.", self.refused("region", "show", "cell"))

    def test_services_and_endpoints(self) -> None:
        self.catalog("region", "add", "one")
        service = self.catalog("service", "add", "compute", "--name", "nova", "--id", "s")
        self.assertEqual({"id": "s", "type": "compute", "name": "nova", "description": "",
                          "enabled": True}, service)
        self.catalog("service", "add", "image", "--disable")
        self.assertEqual(["nova"], self.names("service", "list", "--type", "compute"))
        self.assertEqual(["nova"], self.names("service", "list", "--name", "nova"))
        for called in ("s", "nova", "compute"):
            self.assertEqual(service, self.catalog("service", "show", called))
        endpoint = self.catalog("endpoint", "add", "nova", "public", "http://h/", "--region",
                                "one", "--id", "e")
        self.assertEqual({"id": "e", "service_id": "s", "service_name": "nova",
                          "interface": "public", "url": "http://h/", "region_id": "one",
                          "enabled": True}, endpoint)
        self.assertEqual(endpoint, self.catalog("endpoint", "show", "e"))
        for filters, wanted in ((["--service", "compute"], ["e"]), (["--region", "one"], ["e"]),
                                (["--interface", "admin"], []), (["--service", "image"], [])):
            self.assertEqual(wanted, self.names("endpoint", "list", *filters))
        self.assertIn("There is no service no", self.refused(
            "endpoint", "add", "no", "public", "http://h/"))
        self.assertIn("endpoints", self.refused("region", "remove", "one"))
        self.run_command("catalog", "endpoint", "add", "nova", "private", "u", code=2)
        self.run_command("catalog", "service", "remove", "nova")
        self.assertEqual([], self.names("endpoint", "list"))
        self.refused("endpoint", "remove", "e")

    def test_domains_and_projects(self) -> None:
        domain = self.catalog("domain", "add", "Default", "--id", "default")
        self.assertEqual(
            {"id": "default", "name": "Default", "description": "", "enabled": True}, domain)
        self.assertEqual(domain, self.catalog("domain", "show", "Default"))
        for name in ("team", "other"):
            self.catalog("project", "add", name, "--domain", "Default", "--id", f"id-{name}")
        web = self.catalog("project", "add", "web", "--domain", "default", "--parent", "team")
        self.assertEqual(web, self.catalog("project", "show", "web"))
        self.assertEqual(["web"], self.names("project", "list", "--parent", "team"))
        self.assertEqual(
            {"web", "team", "other"}, set(self.names("project", "list", "--domain", "Default")))
        moved = self.catalog("project", "move", "web", "--parent", "other")
        assert isinstance(moved, dict)
        self.assertEqual("id-other", moved["parent_id"])
        self.assertIn("below itself", self.refused("project", "move", "other", "--parent", "web"))
        self.assertIn("child projects", self.refused("project", "remove", "other"))
        moved = self.catalog("project", "move", "web", "--top", "--domain", "Default")
        assert isinstance(moved, dict)
        self.assertEqual("default", moved["parent_id"])
        self.run_command("catalog", "project", "move", "web", code=2)
        self.run_command("catalog", "project", "remove", "other")
        self.assertIn("disable it first", self.refused("domain", "remove", "Default"))
        self.run_command("catalog", "domain", "remove", "Default", "--disable")
        self.assertEqual([], self.names("project", "list"))
        self.assertEqual([], self.names("domain", "list"))

    def file(self, text: str) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "catalog"
        path.write_bytes(text.encode(errors="surrogateescape"))
        return str(path)

    def test_load(self) -> None:
        loaded = self.catalog("load", self.file(FILE))
        assert isinstance(loaded, list)
        self.assertEqual(
            [("region", "RegionOne"), ("service", "nova"), ("endpoint", "nova public RegionOne"),
             ("domain", "Default"), ("project", "team"), ("project", "web")],
            [(row["kind"], row["name"]) for row in loaded])
        self.assertEqual({"created"}, {row["outcome"] for row in loaded})
        again = self.catalog("load", self.file(FILE))
        assert isinstance(again, list)
        self.assertEqual({"unchanged"}, {row["outcome"] for row in again})
        self.assertEqual([row["id"] for row in loaded], [row["id"] for row in again])
        # JSON is YAML, too.
        document = json.dumps({"projects": [{"name": "web", "domain": "Default",
                                             "description": "new", "enabled": False}]})
        self.assertEqual(
            [{"kind": "project", "name": "web", "id": loaded[-1]["id"], "outcome": "updated",
              "changed": ["description", "enabled"]}],
            self.catalog("load", self.file(document)))
        printed = self.run_command("catalog", "load", self.file(document))
        self.assertIn("unchanged", printed)

    def test_files_that_are_refused(self) -> None:
        for text, said in (
            ("", "expected a mapping with some of regions"),
            ("[]", "expected a mapping"),
            ("region: []", "expected a mapping"),
            ("regions: {id: one}", "regions: expected a list"),
            ("regions: [one]", "regions, entry 1: 'one' is not of type 'object'"),
            ("regions: [{id: one}, {description: x}]",
             "regions, entry 2: 'id' is a required property"),
            ("regions: [{id: 1}]", "1 is not of type 'string'"),
            ("domains: [{name: x, parent: y}]", "'parent' was unexpected"),
            ("projects: [{name: x, domain: y, enabled: 1}]", "1 is not of type 'boolean'"),
            ("projects: [{name: x, domain: y}]", "There is no domain y."),
            ("regions: [", "while parsing"),
            ("\udcff", "can't decode"),
            ("regions: [{id: one}]\nservices: [{type: ''}]", "The type of a service must be"),
        ):
            self.assertIn(said, self.refused("load", self.file(text)))
        self.assertIn("No such file", self.refused("load", "/nonexistent"))
        self.assertEqual([], self.names("region", "list"))

    def test_before_sync(self) -> None:
        self.execute(f"DELETE FROM {revisions.VERSION_TABLE}")
        for arguments in (["region", "list"], ["domain", "add", "x"], ["project", "remove", "x"],
                          ["load", self.file(FILE)]):
            self.assertIn("run `placement-core db sync`", self.refused(*arguments))

    def test_as_a_table(self) -> None:
        self.catalog("load", self.file(FILE))
        printed = self.run_command("catalog", "project", "list")
        self.assertRegex(printed, r"\| web +\|")
