"""What rows of nova's tables of quotas mean."""

from __future__ import annotations

import dataclasses
import pathlib

import fixtures

from placement_core import errors
from placement_core.takeover import nova_quotas
from placement_core.takeover.records import LIMIT, REGISTERED_LIMIT, USER_LIMIT, Surroundings
from tests import base

_SURROUNDINGS = Surroundings("compute", None, {"p1"})


class TestSettle(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tables = {"quotas": [], "quota_classes": [], "project_user_quotas": []}
        self.surroundings = _SURROUNDINGS

    def add(self, table: str, **values: object) -> None:
        rows = self.tables[table]
        rows.append({"id": len(rows) + 1, **values})

    def settle(self):
        contents = nova_quotas.settle(
            self.tables, self.surroundings, nova_quotas.read_defaults(None))
        return contents.records, {
            (item.kind, item.id): item.reason for item in contents.left}

    def values(self, kind: str) -> dict[str, int]:
        field = "default_limit" if kind == REGISTERED_LIMIT else "resource_limit"
        return {record.fields["resource_name"]: record.fields[field]
                for record in self.settle()[0] if record.kind == kind}

    def test_novas_own_defaults(self) -> None:
        self.assertEqual({
            "servers": 10, "class:VCPU": 20, "class:PCPU": 20, "class:MEMORY_MB": 51200,
            "server_metadata_items": 128, "server_injected_files": 5,
            "server_injected_file_content_bytes": 10240,
            "server_injected_file_path_bytes": 255, "server_key_pairs": 100,
            "server_groups": 10, "server_group_members": 10}, self.values(REGISTERED_LIMIT))
        self.assertEqual({None}, {record.fields["region_id"] for record in self.settle()[0]})

    def test_the_default_class_comes_first(self) -> None:
        self.add("quota_classes", class_name="default", resource="ram", hard_limit=1024)
        self.add("quota_classes", class_name="default", resource="instances", hard_limit=None)
        values = self.values(REGISTERED_LIMIT)
        self.assertEqual((1024, -1), (values["class:MEMORY_MB"], values["servers"]))

    def test_the_last_of_two_rows_of_a_class(self) -> None:
        self.add("quota_classes", class_name="default", resource="ram", hard_limit=1)
        self.add("quota_classes", class_name="default", resource="ram", hard_limit=2)
        self.assertEqual(2, self.values(REGISTERED_LIMIT)["class:MEMORY_MB"])
        self.assertEqual(
            {(REGISTERED_LIMIT, "1"): "2 is for the same resource, and newer: nova takes that"},
            self.settle()[1])

    def test_other_classes(self) -> None:
        self.add("quota_classes", class_name="gold", resource="ram", hard_limit=1)
        self.assertEqual({(REGISTERED_LIMIT, "1"): "nova asks for no class but default"},
                         self.settle()[1])

    def test_cores_are_shared_and_dedicated(self) -> None:
        self.add("quotas", project_id="p1", resource="cores", hard_limit=7)
        self.assertEqual({"class:VCPU": 7, "class:PCPU": 7}, self.values(LIMIT))

    def test_cores_are_limited_together_where_a_name_counts_both(self) -> None:
        self.surroundings = dataclasses.replace(
            _SURROUNDINGS, cores_name="cores", has_dedicated=True)
        self.add("quotas", project_id="p1", resource="cores", hard_limit=7)
        self.assertEqual({"class:VCPU": 7, "class:PCPU": 7, "cores": 7}, self.values(LIMIT))
        self.assertEqual(20, self.values(REGISTERED_LIMIT)["cores"])
        self.assertEqual({}, self.settle()[1])

    def test_cores_that_a_limit_counts_together_already(self) -> None:
        self.surroundings = dataclasses.replace(
            _SURROUNDINGS, cores_name="class:VCPU", has_dedicated=True)
        self.add("quotas", project_id="p1", resource="cores", hard_limit=7)
        self.assertEqual({"class:VCPU": 7, "class:PCPU": 7}, self.values(LIMIT))
        self.assertEqual({}, self.settle()[1])

    def test_cores_that_nothing_counts_together(self) -> None:
        """Only where there are dedicated processors is that worth a word."""
        self.assertEqual({}, self.settle()[1])
        self.surroundings = dataclasses.replace(_SURROUNDINGS, has_dedicated=True)
        [(key, reason)] = self.settle()[1].items()
        self.assertEqual((REGISTERED_LIMIT, ""), key)
        self.assertIn("[quota] resource_map with cores=VCPU+PCPU", reason)

    def test_no_limit(self) -> None:
        for hard_limit in (None, -1, -5):
            self.tables["quotas"] = []
            self.add("quotas", project_id="p1", resource="ram", hard_limit=hard_limit)
            self.assertEqual({"class:MEMORY_MB": -1}, self.values(LIMIT))

    def test_zero_is_a_limit(self) -> None:
        self.add("quotas", project_id="p1", resource="ram", hard_limit=0)
        self.assertEqual({"class:MEMORY_MB": 0}, self.values(LIMIT))

    def test_a_user(self) -> None:
        self.add("project_user_quotas", project_id="p1", user_id="u1", resource="key_pairs",
                 hard_limit=3)
        [record] = [record for record in self.settle()[0] if record.kind == USER_LIMIT]
        self.assertEqual(("p1", "u1", "server_key_pairs", 3), tuple(
            record.fields[name]
            for name in ("project_id", "user_id", "resource_name", "resource_limit")))
        self.assertEqual("server_key_pairs of u1 of p1", record.name)

    def test_deleted_projects(self) -> None:
        self.add("quotas", project_id="p9", resource="ram", hard_limit=5)
        self.add("quotas", project_id=None, resource="ram", hard_limit=5)
        self.assertEqual({(LIMIT, "1"): "its project p9 was deleted",
                          (LIMIT, "2"): "its project None was deleted"}, self.settle()[1])

    def test_what_nova_gave_up(self) -> None:
        for resource in ("fixed_ips", "floating_ips", "security_groups", "security_group_rules"):
            self.add("quotas", project_id="p1", resource=resource, hard_limit=5)
        self.assertEqual({"nova gave up its networks, and the quotas of them"},
                         set(self.settle()[1].values()))
        self.assertEqual(4, len(self.settle()[1]))

    def test_what_nova_never_had(self) -> None:
        self.add("quotas", project_id="p1", resource="gpus", hard_limit=5)
        self.assertEqual({(LIMIT, "1"): "nova has no resource gpus"}, self.settle()[1])

    def test_ids_stay(self) -> None:
        self.add("quotas", project_id="p1", resource="ram", hard_limit=5)
        self.add("project_user_quotas", project_id="p1", user_id="u1", resource="ram",
                 hard_limit=5)
        first, second = ([record.id for record in self.settle()[0]] for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(len(set(first)), len(first))
        self.assertEqual({32}, set(map(len, first)))

    def test_no_service(self) -> None:
        """All limits of a kind are refused together: their ids are not known.

        Also in a catalog of another place, which does not know the projects.
        """
        self.add("quotas", project_id="p1", resource="cores", hard_limit=5)
        for project_ids in ({"p1"}, set()):
            self.surroundings = Surroundings(None, None, project_ids)
            records, left = self.settle()
            self.assertEqual([], records)
            self.assertEqual(dict.fromkeys(
                [(REGISTERED_LIMIT, ""), (LIMIT, "")],
                "the catalog has not exactly one service of [quota] service_type"), left)


class TestReadDefaults(base.TestCase):
    def write(self, text: str) -> str:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "nova.conf")
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_from_novas_configuration(self) -> None:
        defaults = nova_quotas.read_defaults(self.write(
            "[DEFAULT]\ndebug = true\n[quota]\ncores = 99\ninjected_file_path_length = 7\n"))
        self.assertEqual((99, "[quota] cores of nova.conf"), defaults["cores"])
        self.assertEqual((7, "[quota] injected_file_path_length of nova.conf"),
                         defaults["injected_file_path_bytes"])
        self.assertEqual((10, "nova's own default"), defaults["instances"])

    def test_what_is_wrong_in_it(self) -> None:
        for path in (self.write("[quota]\ncores = many\n"), self.write("cores"), "/nowhere.conf"):
            error = self.assertRaises(
                errors.ConfigurationError, nova_quotas.read_defaults, path)
            self.assertIn(path, str(error))
