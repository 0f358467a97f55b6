"""``placement-core limits …``: what the commands print and how they exit."""

from __future__ import annotations

import json
import pathlib

import fixtures

from tests.functional.cli import commands, test_catalog, test_commands

FILE = """
service: nova
region: RegionOne
resources:
  servers: 10
  class:VCPU: {default: 20, description: virtual cores}
  class:MEMORY_MB: unlimited
"""


class TestLimitsCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.run_command("catalog", "load", self.file(test_catalog.FILE))

    def file(self, text: str) -> str:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "file.yaml")
        path.write_text(text, encoding="utf-8")
        return str(path)

    def limits(self, *arguments: str, code: int = 0, **more: str) -> list[dict]:
        """Run a command that prints a table; return its rows."""
        return json.loads(self.run_command(
            "limits", *arguments, "-f", "json", code=code, **more))

    def refused(self, *arguments: str, **more: str) -> str:
        """Run a command that must fail with one line; return the line."""
        self.run_command("limits", *arguments, code=1, **more)
        self.assertEqual(1, self.stderr.count("\n"), self.stderr)
        return self.stderr.strip()

    def register(self, text: str = FILE, code: int = 0) -> list[tuple]:
        return [(row["resource_name"], row["state"], row["old_default"], row["new_default"])
                for row in self.limits("register", self.file(text), code=code)]

    def set(self, *arguments: str, **more: str) -> list[dict]:
        return self.limits("set", *arguments, "--service", "compute", "--region", "RegionOne",
                           **more)

    def test_register(self) -> None:
        self.assertEqual(
            [("servers", "created", None, 10), ("class:VCPU", "created", None, 20),
             ("class:MEMORY_MB", "created", None, -1)], self.register())
        self.assertEqual({"unchanged"}, {state for _, state, *_ in self.register()})
        self.assertEqual(("servers", "changed", 10, 11),
                         self.register(FILE.replace("10", "11"))[0])
        found = self.limits("list", "--registered")
        self.assertEqual([("servers", 11, None), ("class:VCPU", 20, "virtual cores"),
                          ("class:MEMORY_MB", -1, None)],
                         [(row["resource_name"], row["default"], row["description"])
                          for row in found])
        printed = self.run_command("limits", "list", "--registered")
        self.assertIn(" unlimited ", printed)

    def test_register_json(self) -> None:
        document = {"service": "compute", "resources": {"servers": {"default": 3}}}
        self.assertEqual([("servers", "created", None, 3)], self.register(json.dumps(document)))
        self.assertEqual([None], [row["region_id"] for row in self.limits("list", "--registered")])

    def test_register_all_or_nothing(self) -> None:
        self.register()
        self.set("web", "servers", "5")
        text = FILE.replace("10", "11").replace("20", "21") + "  volumes: 5\n"
        self.assertEqual(
            [("servers", "refused", 10, 11), ("class:VCPU", "skipped", 20, 21),
             ("class:MEMORY_MB", "unchanged", -1, -1), ("volumes", "skipped", None, 5)],
            self.register(text, code=1))
        self.assertEqual([10, 20, -1], [
            row["default"] for row in self.limits("list", "--registered")])
        printed = self.run_command("limits", "register", self.file(text), code=1)
        self.assertIn("limits refer to it", printed)

    def test_bad_files(self) -> None:
        for text, said in (
            ("service: nova", 'expected "service", "resources"'),
            ("[1, 2]", 'expected "service", "resources"'),
            ("service: 5\nresources: {}", 'expected "service", "resources"'),
            (FILE + "more: 5\n", 'expected "service", "resources"'),
            (FILE + "  bad: {min: 5}\n", "bad: expected a default"),
            (FILE + "  bad:\n", "bad: expected a default"),
            (FILE + "  bad: many\n", "'many' is not an integer"),
            (FILE + "  bad: true\n", "True is not an integer"),
            (FILE + "  bad: -2\n", "-2 is not an integer"),
            (FILE + "  5: 5\n", "resource_name"),
            (FILE.replace("nova", "nope"), "there is no service of id, name or type nope"),
            (FILE.replace("RegionOne", "nope"), "nope"),
            ("{", "file.yaml"),
        ):
            self.assertIn(said, self.refused("register", self.file(text)), text)
        self.assertIn("nothing.yaml", self.refused("register", "/nonexistent/nothing.yaml"))
        self.assertEqual([], self.limits("list", "--registered"))

    def test_set_list_and_unset(self) -> None:
        self.register()
        made, = self.set("web", "servers", "0", "--description", "frozen")
        self.assertEqual(("servers", 0, "frozen", "RegionOne", None), tuple(
            made[name] for name in ("resource_name", "limit", "description", "region_id",
                                    "user_id")))
        again, = self.set("web", "servers", "unlimited")
        self.assertEqual((made["id"], -1, "frozen"),
                         (again["id"], again["limit"], again["description"]))
        self.set("default", "class:VCPU", "50")
        self.set("team", "servers", "2", "--user", "jane")
        self.assertEqual([-1, 50], [row["limit"] for row in self.limits("list")])
        for options, found in (
            (("--project", "web"), [-1]), (("--project", "Default"), [50]),
            (("--resource", "class:VCPU"), [50]), (("--service", "nova"), [-1, 50]),
            (("--region", "nope"), []), (("--users",), [2]), (("--users", "--user", "jane"), [2]),
            (("--users", "--project", "web"), []), (("--users", "--user", "no"), []),
        ):
            self.assertEqual(found, [row["limit"] for row in self.limits("list", *options)],
                             options)
        printed = self.run_command("limits", "list")
        self.assertIn("| unlimited |", printed)
        service = ("--service", "compute", "--region", "RegionOne")
        gone, = self.limits("unset", "team", "servers", "--user", "jane", *service)
        self.assertEqual("jane", gone["user_id"])
        gone, = self.limits("unset", "web", "servers", *service)
        self.assertEqual(made["id"], gone["id"])
        self.assertEqual("there is no such limit",
                         self.refused("unset", "web", "servers", *service))
        self.assertEqual([50], [row["limit"] for row in self.limits("list")])

    def test_refusals(self) -> None:
        self.register()
        service = ("--service", "compute", "--region", "RegionOne")
        for arguments, said in (
            (("set", "web", "disc", "5", *service), "no corresponding registered limit"),
            (("set", "nope", "servers", "5", *service),
             "there is no project or domain of id or name nope"),
            (("set", "web", "servers", "many", *service), "'many' is neither a number nor"),
            (("set", "web", "servers", "5", "--service", "nope"), "there is no service"),
            (("set", "web", "servers", "5", "--service", "compute"), "without a region"),
            (("set", "default", "servers", "5", *service, "--user", "jane"), "not for a domain"),
            (("set", "web", "servers", "99999999999", *service), "is not an integer"),
            (("list", "--user", "jane"), "--user goes with --users"),
            (("list", "--registered", "--project", "web"), "does not go with --registered"),
        ):
            self.assertIn(said, self.refused(*arguments), arguments)
        strict = {"OS_LIMITS__ENFORCEMENT_MODEL": "strict_two_level"}
        self.assertIn("doesn't satisfy current hierarchy model",
                      self.refused("set", "web", "servers", "11", *service, **strict))
        self.assertEqual([], self.limits("list"))

    def test_names_that_are_not_the_only_ones(self) -> None:
        self.run_command("catalog", "service", "add", "compute", "--name", "other")
        self.run_command("catalog", "domain", "add", "Second")
        self.run_command("catalog", "project", "add", "web", "--domain", "Second")
        self.assertIn("compute names several services", self.refused(
            "show", "team", "--service", "compute"))
        self.assertIn("web names several projects", self.refused(
            "show", "web", "--service", "nova"))
        self.register()

    def test_show(self) -> None:
        self.register()
        tree = {"OS_LIMITS__ENFORCEMENT_MODEL": "tree"}
        self.set("default", "servers", "50")
        self.set("team", "servers", "20")
        show = ("show", "web", "--service", "nova", "--region", "RegionOne")
        rows = {row["resource_name"]: row for row in self.limits(*show, **tree)}
        self.assertEqual([(10, "own", "default"), (20, "subtree", "set"), (50, "subtree", "set")],
                         [(each["limit"], each["scope"], each["source"])
                          for each in rows["servers"]["bound_by"]])
        self.assertEqual((10, None), (rows["servers"]["default"], rows["servers"]["set"]))
        self.assertEqual([], rows["class:MEMORY_MB"]["bound_by"])
        rows = {row["resource_name"]: row for row in self.limits(*show)}
        self.assertEqual(1, len(rows["servers"]["bound_by"]))
        printed = self.run_command("limits", *show, **tree)
        for text in ("50 of Default (subtree, set)", " unlimited ", "(own, default)"):
            self.assertIn(text, printed)

    def test_audit(self) -> None:
        self.register()
        self.set("web", "servers", "5")
        self.assertEqual([], self.limits("audit"))
        self.execute("DELETE FROM catalog_projects WHERE name = 'web'")
        found, = self.limits("audit", code=1)
        self.assertEqual(("limit", "servers", "project", False), tuple(
            found[name] for name in ("kind", "resource_name", "missing", "deleted")))
        self.assertEqual([True], [row["deleted"] for row in self.limits("audit", "--repair")])
        self.assertEqual([], self.limits("audit"))
        self.assertEqual([], self.limits("list"))

    def test_what_is_deleted_from_the_catalog(self) -> None:
        self.register()
        self.set("web", "servers", "5")
        self.run_command("catalog", "project", "remove", "web")
        self.assertEqual([], self.limits("list"))
        self.run_command("catalog", "service", "remove", "nova")
        self.assertEqual([], self.limits("list", "--registered"))
        self.assertEqual([], self.limits("audit"))

    def test_limits_that_are_kept_elsewhere(self) -> None:
        self.register()
        self.useFixture(fixtures.MonkeyPatch(
            "placement_plugins.limits.local.LocalLimits.transactional", False))
        for command in (("list",), ("register", self.file(FILE)), ("audit",)):
            self.assertIn("limits are not kept in this database", self.refused(*command))
        # What binds is asked of whoever keeps them.
        self.assertEqual(3, len(self.limits(
            "show", "web", "--service", "nova", "--region", "RegionOne")))

    def test_what_is_moved_in_the_catalog(self) -> None:
        tree = {"OS_LIMITS__ENFORCEMENT_MODEL": "tree"}
        self.register()
        self.run_command("catalog", "project", "add", "small", "--domain", "Default")
        self.set("small", "servers", "1")
        self.set("web", "servers", "5")
        moved = test_catalog.FILE + "  - {name: web, domain: Default, parent: small}\n"
        for command in (("project", "move", "web", "--parent", "small"),
                        ("load", self.file(moved))):
            self.run_command("catalog", *command, code=1, **tree)
            self.assertIn("doesn't satisfy current hierarchy model", self.stderr)
        self.set("web", "servers", "1")
        self.run_command("catalog", "load", self.file(moved), **tree)
        self.run_command("catalog", "project", "move", "web", "--top", **tree)

    def test_trees_that_the_model_cannot_read(self) -> None:
        strict = {"OS_LIMITS__ENFORCEMENT_MODEL": "strict_two_level"}
        for command in (
            ("project", "add", "deep", "--domain", "Default", "--parent", "web"),
            ("load", self.file("projects: [{name: deep, domain: Default, parent: web}]")),
        ):
            self.run_command("catalog", *command, code=1, **strict)
            self.assertIn("Max hierarchy depth reached", self.stderr)

    def test_before_sync(self) -> None:
        self.execute("DROP TABLE placement_core_version")
        self.assertIn("run `placement-core db sync`", self.refused("list"))

    def test_as_a_process(self) -> None:
        done = commands.run_process(
            "limits", "register", self.file(FILE), "-f", "json", connection=self.connection)
        self.assertEqual((0, 3, ""), (done.returncode, len(json.loads(done.stdout)), done.stderr))

    def test_projects_are_placed_as_the_model_says(self) -> None:
        model = {"OS_LIMITS__ENFORCEMENT_MODEL": "strict_two_level"}
        self.register()
        self.set("Default", "servers", "50", **model)
        self.set("team", "servers", "20", **model)
        self.set("web", "servers", "15", **model)
        place = ("catalog", "project")
        for arguments, said in (
            ((*place, "add", "deep", "--domain", "Default", "--parent", "web"), "4 levels"),
            ((*place, "move", "team", "--parent", "web"), "below itself"),
            (("catalog", "load", self.file(
                "projects: [{name: deep, domain: Default, parent: web}]")), "4 levels"),
        ):
            self.run_command(*arguments, code=1, **model)
            self.assertIn(said, self.stderr)
        self.run_command(*place, "add", "narrow", "--domain", "Default", **model)
        self.set("narrow", "servers", "12", **model)
        for arguments in (
            (*place, "move", "web", "--parent", "narrow"),
            ("catalog", "load", self.file(
                "projects: [{name: web, domain: Default, parent: narrow}]")),
        ):
            self.run_command(*arguments, code=1, **model)
            self.assertIn("(15) is more than", self.stderr)
        self.run_command(*place, "move", "web", "--top", **model)

    def test_limits_that_are_registered_elsewhere(self) -> None:
        self.run_command("limits", "register", self.file(FILE))
        done = commands.run("limits", "show", "web", "--service", "nova",
                            connection=self.connection)
        self.assertEqual(
            (0, "No limits bind this project: none are registered for service nova without a "
             "region; there are some with --region RegionOne.\n"), (done.returncode, done.stdout))

    def test_an_audit_names_limits_that_bind_nobody(self) -> None:
        self.run_command("limits", "register", self.file(FILE))
        done = commands.run("limits", "audit", "-f", "json", connection=self.connection,
                            OS_QUOTA__SERVICE_TYPE="volume")
        self.assertEqual((0, "[]"), (done.returncode, done.stdout.strip()))
        self.assertIn(
            "[quota] service_type = volume: the catalog has no such service", done.stderr)
