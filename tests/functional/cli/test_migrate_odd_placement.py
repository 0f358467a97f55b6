"""What is odd in Placement's tables, and what becomes of it."""

from __future__ import annotations

import collections
import json

from tests.functional.cli.test_migrate_placement import (
    CHILD,
    HOST,
    NOBODY,
    OLD_CLIENT,
    SERVER,
    SHARED,
    VOLUME,
    MigrationTestCase,
    view,
)


class TestOddities(MigrationTestCase):
    """Each ends here, or in the report with its reason."""

    def id_of(self, uuid: str) -> str:
        return f"(SELECT id FROM resource_providers WHERE uuid = '{uuid}')"

    def copy_odd(self, id_: str, *statements: str, code: int = 1) -> tuple[str, str]:
        """Return what became of a record: (outcome, details)."""
        self.change(*statements)
        expected = {row["id"]: row for row in self.migrate("check", code=code)}
        done = self.copy(code=code)
        self.assertEqual(expected, done, "the check says what the copy does")
        refused = collections.Counter(
            row["kind"] for row in done.values() if row["outcome"] == "refused")
        self.assertEqual(
            {("left out", kind, count) for kind, count in refused.items()},
            {(row["difference"], row["kind"], row["records"]) for row in self.migrate("diff")})
        return done[id_]["outcome"], done[id_]["details"]

    def read_ours(self, name: str, key: str) -> list[tuple]:
        return [row[1:] for row in view(self.connection)[name] if row[0] == key]

    def test_allocations_of_a_consumer_without_record(self) -> None:
        self.assertEqual(("create", "it has no record there"), self.copy_odd(
            SERVER, f"DELETE FROM consumers WHERE uuid = '{SERVER}'"))
        self.assertEqual(
            [(NOBODY, NOBODY, None, 0)], self.read_ours("consumers", SERVER))
        self.assertEqual(4, len(self.read_ours("allocations", SERVER)))
        self.assert_audited()

    def test_allocations_of_a_class_without_inventory(self) -> None:
        self.assertEqual(
            ("create", f"{CHILD} has no inventory of VCPU, of which it holds 2"),
            self.copy_odd(SERVER, "DELETE FROM inventories WHERE resource_provider_id = "
                          f"{self.id_of(CHILD)}"))
        self.assertIn((CHILD, "VCPU", 2), self.read_ours("allocations", SERVER))
        findings = json.loads(self.run_command("db", "audit", "-f", "json", code=1))
        self.assertEqual([("inventory", 3)],
                         [(each["what"], each["actual"]) for each in findings])

    def test_allocations_on_a_provider_that_is_gone(self) -> None:
        self.assertEqual(
            ("skipped", "60 of DISK_GB on the provider (row 77) are left out: the provider is "
             "not there; it holds nothing"),
            self.copy_odd(VOLUME, "UPDATE allocations SET resource_provider_id = 77 "
                          f"WHERE consumer_id = '{VOLUME}'"))
        self.assert_audited()

    def test_allocations_of_a_class_that_is_gone(self) -> None:
        outcome, details = self.copy_odd(
            SERVER, "UPDATE allocations SET resource_class_id = 7777 WHERE used = 2048")
        self.assertEqual("create", outcome)
        self.assertEqual(
            f"2048 of the resource class (row 7777) on {HOST} are left out: the resource class "
            "is not there", details)
        self.assert_audited()

    def test_inventory_of_a_class_that_is_gone(self) -> None:
        self.assertEqual(
            ("create", "its inventory of the resource class (row 7777) is left out: the class "
             "is not there"),
            self.copy_odd(HOST, "UPDATE inventories SET resource_class_id = 7777 "
                          "WHERE total = 65536", "DELETE FROM allocations WHERE used = 2048"))

    def test_more_used_than_fits(self) -> None:
        self.assertEqual(
            ("create", "3 VCPU are used of 1"),
            self.copy_odd(CHILD, "UPDATE inventories SET total = 1, allocation_ratio = 1.0 "
                          f"WHERE resource_provider_id = {self.id_of(CHILD)}"))
        self.assert_audited()
        self.assertEqual("equal", self.copy(code=1)[CHILD]["outcome"])

    def test_a_provider_without_root(self) -> None:
        self.assertEqual(("create", "it has no root there"), self.copy_odd(
            CHILD, "UPDATE resource_providers SET root_provider_id = NULL"))
        self.assertEqual((HOST, HOST), self.read_ours("providers", CHILD)[0][2:])

    def test_a_provider_whose_parent_is_gone(self) -> None:
        self.assertEqual(
            ("create", f"its parent (row 77) is not there: it is a root; its root there is "
             f"{HOST}, but {CHILD} is above it"),
            self.copy_odd(CHILD, "UPDATE resource_providers SET parent_provider_id = 77 "
                          f"WHERE uuid = '{CHILD}'"))
        self.assertEqual((None, CHILD), self.read_ours("providers", CHILD)[0][2:])

    def test_a_root_that_is_not_above(self) -> None:
        outcome, details = self.copy_odd(
            CHILD, f"UPDATE resource_providers SET root_provider_id = {self.id_of(SHARED)} "
            f"WHERE uuid = '{CHILD}'")
        self.assertEqual(("create", f"its root there is {SHARED}, but {HOST} is above it"),
                         (outcome, details))

    def test_a_provider_that_is_its_own_ancestor(self) -> None:
        loop = (f"UPDATE resource_providers SET parent_provider_id = {self.id_of(CHILD)} "
                f"WHERE uuid = '{HOST}'")
        self.assertEqual(("refused", "it is its own ancestor, or below one that is"),
                         self.copy_odd(HOST, loop, code=2))
        self.assertEqual("refused", self.copy(code=2)[SERVER]["outcome"])

    def test_a_provider_without_name(self) -> None:
        self.assertEqual(("refused", "it has no name"), self.copy_odd(
            SHARED, f"UPDATE resource_providers SET name = NULL WHERE uuid = '{SHARED}'",
            code=2))
        self.assertEqual(f"its resource provider {SHARED} is refused",
                         self.copy(code=2)[VOLUME]["details"])

    def test_a_provider_without_generation(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            HOST, f"UPDATE resource_providers SET generation = NULL WHERE uuid = '{HOST}'",
            code=0))
        self.assertEqual(0, self.read_ours("providers", HOST)[0][1])

    def test_a_consumer_without_allocations(self) -> None:
        self.assertEqual(("skipped", "it holds nothing"), self.copy_odd(
            VOLUME, f"DELETE FROM allocations WHERE consumer_id = '{VOLUME}'"))
        self.assertEqual([], self.read_ours("consumers", VOLUME))

    def test_a_consumer_whose_project_is_gone(self) -> None:
        self.assertEqual(
            ("create", "its project or user is not recorded there"),
            self.copy_odd(VOLUME, f"UPDATE consumers SET project_id = 77 WHERE uuid = '{VOLUME}'"))
        self.assertEqual(NOBODY, self.read_ours("consumers", VOLUME)[0][0])

    def test_a_consumer_without_type(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(VOLUME, code=0))
        self.assertEqual([("project-1", "user-1", None, 1)], self.read_ours("consumers", VOLUME))

    def test_a_consumer_whose_client_named_no_project(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(OLD_CLIENT, code=0))
        self.assertEqual((NOBODY, NOBODY), self.read_ours("consumers", OLD_CLIENT)[0][:2])

    def test_two_allocations_for_one(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            VOLUME, "INSERT INTO allocations (resource_provider_id, consumer_id, "
            "resource_class_id, used) SELECT resource_provider_id, consumer_id, "
            f"resource_class_id, 5 FROM allocations WHERE consumer_id = '{VOLUME}'", code=0))
        self.assertEqual([(SHARED, "DISK_GB", 65)], self.read_ours("allocations", VOLUME))

    def test_a_standard_trait_that_is_newer(self) -> None:
        self.assertEqual(
            ("create", "it is a standard trait there, and newer than those here"),
            self.copy_odd("HW_CPU_X86_TOMORROW", "UPDATE traits SET name = "
                          "'HW_CPU_X86_TOMORROW' WHERE name = 'CUSTOM_FAST'"))
        self.assertIn(("HW_CPU_X86_TOMORROW",), self.read_ours("traits", SHARED))

    def test_a_standard_class_that_is_newer(self) -> None:
        self.assertEqual(
            ("create", "it is a standard resource class there, and newer than those here"),
            self.copy_odd("QUBITS", "UPDATE resource_classes SET name = 'QUBITS' "
                          "WHERE name = 'CUSTOM_GOLD'"))
        self.assertIn("QUBITS", [row[0] for row in self.read_ours("inventories", HOST)])
        self.assert_audited()

    def test_a_class_of_a_name_that_none_can_have(self) -> None:
        outcome, details = self.copy_odd(
            "custom_gold", "UPDATE resource_classes SET name = 'custom_gold' "
            "WHERE name = 'CUSTOM_GOLD'", code=2)
        self.assertEqual(("refused", "no resource class can have this name"), (outcome, details))
        self.assertIn("left out", self.copy(code=2)[SERVER]["details"])
        self.assert_audited()

    def insert_providers(self, *names: str) -> list[str]:
        return [
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) "
            f"VALUES ({number}, 'odd-{number}', '{name}', 0, {number})"
            for number, name in enumerate(names, 90)]

    def test_names_that_differ_in_case(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("HOST", "Host"), code=0))

    def test_names_that_differ_in_blanks(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("host ", "host  "), code=0))

    def test_names_that_differ_in_their_unicode(self) -> None:
        self.assertEqual(("create", ""), self.copy_odd(
            "odd-90", *self.insert_providers("h\u00f6st", "ho\u0308st"), code=0))
