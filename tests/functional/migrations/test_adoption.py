"""Taking over databases that upstream Placement really made, and giving them back."""

from __future__ import annotations

import dataclasses
import uuid as uuid_module
from typing import Any

import sqlalchemy as sa
import testtools
from testtools import matchers

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import (
    adoption,
    checks,
    compatibility,
    exclusive,
    online,
    revisions,
    sync,
)
from placement_core.placement import allocations, inventories, providers, records, traits
from placement_core.placement.allocations import missing_consumers
from placement_core.placement.usage import audit
from placement_core.testing import factories
from tests import databases
from tests.functional.migrations import test_sync, upstream

PROJECT, USER = "project-1", "user-1"


def uuid(number: int) -> str:
    """Return a uuid that can be told from others at a glance."""
    return str(uuid_module.UUID(int=number))


HOST, CHILD, SHARED, FRESH = uuid(1), uuid(2), uuid(3), uuid(4)
SERVER, VOLUME, OLD_CLIENT = uuid(101), uuid(102), uuid(103)
AGGREGATE = uuid(201)


def fill(placement: upstream.Upstream) -> None:
    """Write something of every kind through upstream's API."""
    do = placement.do
    do("POST", "/resource_providers", {"name": "host", "uuid": HOST})
    do("POST", "/resource_providers",
       {"name": "numa0", "uuid": CHILD, "parent_provider_uuid": HOST})
    do("POST", "/resource_providers", {"name": "nfs ☃", "uuid": SHARED})
    do("PUT", "/resource_classes/CUSTOM_GOLD")
    do("PUT", "/traits/CUSTOM_FAST")
    wanted: dict[str, dict[str, dict[str, Any]]] = {
        HOST: {
            "MEMORY_MB": {"total": 65536, "reserved": 512, "allocation_ratio": 1.5},
            # 10 x 0.7 is 6.99... where a FLOAT column is multiplied in SQL.
            "CUSTOM_GOLD": {"total": 10, "allocation_ratio": 0.7},
        },
        CHILD: {"VCPU": {"total": 16, "allocation_ratio": 16.0}},
        SHARED: {"DISK_GB": {"total": 2147483647, "allocation_ratio": 3.4e38}},
    }
    for provider, values in wanted.items():
        do("PUT", f"/resource_providers/{provider}/inventories",
           {"resource_provider_generation": 0, "inventories": values})
    do("PUT", f"/resource_providers/{SHARED}/traits",
       {"resource_provider_generation": 1,
        "traits": ["MISC_SHARES_VIA_AGGREGATE", "CUSTOM_FAST"]})
    for provider, generation in ((SHARED, 2), (HOST, 1)):
        do("PUT", f"/resource_providers/{provider}/aggregates",
           {"resource_provider_generation": generation, "aggregates": [AGGREGATE]})
    claim = {"project_id": PROJECT, "user_id": USER, "consumer_generation": None}
    do("PUT", f"/allocations/{SERVER}",
       {**claim, "consumer_type": "INSTANCE", "allocations": {
           HOST: {"resources": {"MEMORY_MB": 2048, "CUSTOM_GOLD": 7}},
           CHILD: {"resources": {"VCPU": 2}},
           SHARED: {"resources": {"DISK_GB": 40}}}})
    do("PUT", f"/allocations/{VOLUME}",
       {**claim, "allocations": {SHARED: {"resources": {"DISK_GB": 60}}}}, "1.37")
    do("PUT", f"/allocations/{OLD_CLIENT}",
       {"allocations": [{"resource_provider": {"uuid": CHILD}, "resources": {"VCPU": 1}}]}, "1.0")


class AdoptionTestCase(test_sync.BareTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.upstream = upstream.Upstream(self.url)
        self.addCleanup(self.upstream.close)

    def content(self) -> dict[str, list[dict[str, Any]]]:
        """Return every row of upstream's tables, without our columns."""
        connection = self.connect()
        ours = {name for _, names in adoption.ADDED_COLUMNS for name in names}
        found = {}
        for table in adoption.UPSTREAM_TABLES:
            rows = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3")
            # Upstream has a column of that name there.
            dropped = ours if table != "allocations" else ours - {"used"}
            found[table] = sorted(
                ({k: v for k, v in row.items() if k not in dropped} for row in rows.mappings()),
                key=repr)
        connection.close()
        return found

    def service_context(self) -> context.Context:
        """Return a context of our service on the database."""
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        return context.Context(database)

    def inventories(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return {(provider uuid, class): (used, capacity)}."""
        connection = self.connect()
        rows = connection.exec_driver_sql(
            "SELECT p.uuid, c.name, i.used, i.capacity FROM inventories i "
            "JOIN resource_providers p ON p.id = i.resource_provider_id "
            "JOIN resource_classes c ON c.id = i.resource_class_id")
        found = {(row[0], row[1]): (row[2], row[3]) for row in rows}
        connection.close()
        return found

    def counters(self) -> dict[tuple[str, str, str | None, str | None], int]:
        """Return {(project, user, type, class or None for consumers): used}."""
        connection = self.connect()
        rows = connection.exec_driver_sql(
            "SELECT p.external_id, u.external_id, t.name, c.name, SUM(n.used) "
            "FROM usage_counters n JOIN projects p ON p.id = n.project_id "
            "JOIN users u ON u.id = n.user_id "
            "LEFT JOIN consumer_types t ON t.id = n.consumer_type_id "
            "LEFT JOIN resource_classes c ON c.id = n.resource_class_id GROUP BY 1, 2, 3, 4")
        found = {tuple(row[:4]): int(row[4]) for row in rows}
        connection.close()
        return found


@databases.on_each_database
class TestAdoption(AdoptionTestCase):
    def test_everything_stays_and_is_counted(self) -> None:
        fill(self.upstream)
        self.upstream.stop()
        before = self.content()
        lines: list[str] = []
        reports: dict[str, tuple[int, int]] = {}
        self.assertEqual(revisions.head(), sync.sync(
            self.settings, lines.append,
            lambda what, done, total: reports.update({what: (done, total)})))
        # Whatever takes long is followed to its end.
        self.assertLessEqual(
            {"capacities of inventories", "sums of usage", "revisions of the schema"},
            reports.keys())
        self.assertTrue(all(done == total > 0 for done, total in reports.values()), reports)
        self.assertEqual(before, self.content())
        self.assertEqual([], test_sync.differences(self.url))
        self.assertEqual(
            {
                (HOST, "MEMORY_MB"): (2048, 97536),
                (HOST, "CUSTOM_GOLD"): (7, 7),
                (CHILD, "VCPU"): (3, 256),
                (SHARED, "DISK_GB"): (100, 2**63 - 1),
            },
            self.inventories(),
        )
        nobody = uuid(0)
        self.assertEqual(
            {
                (PROJECT, USER, "INSTANCE", None): 1,
                (PROJECT, USER, "INSTANCE", "MEMORY_MB"): 2048,
                (PROJECT, USER, "INSTANCE", "CUSTOM_GOLD"): 7,
                (PROJECT, USER, "INSTANCE", "VCPU"): 2,
                (PROJECT, USER, "INSTANCE", "DISK_GB"): 40,
                (PROJECT, USER, None, None): 1,
                (PROJECT, USER, None, "DISK_GB"): 60,
                (nobody, nobody, None, None): 1,
                (nobody, nobody, None, "VCPU"): 1,
            },
            self.counters(),
        )
        self.assertIn("taking over a database of upstream Placement (a082b8bb98d0)", lines)
        ctx = self.service_context()
        self.assertEqual([], audit.audit(ctx, repair=False))
        held = allocations.list_for_consumer(ctx, SERVER)
        self.assertEqual((1, "INSTANCE", {"MEMORY_MB": 2048, "CUSTOM_GOLD": 7}),
                         (held.generation, held.consumer_type, held.providers[HOST].resources))
        again = self.content()
        sync.sync(self.settings)
        self.assertEqual(again, self.content())

    def test_before_the_api_ever_ran(self) -> None:
        """No standard class is there yet; the first has the id 0."""
        self.upstream.make_database()
        sync.sync(self.settings)
        ids = {row["name"]: row["id"] for row in self.content()["resource_classes"]}
        self.assertEqual((0, 1), (ids["VCPU"], ids["MEMORY_MB"]))

    def test_fence(self) -> None:
        """An old process that still runs fails at every kind of write."""
        fill(self.upstream)
        sync.sync(self.settings)
        before = self.content(), self.inventories()
        new = {"project_id": PROJECT, "user_id": USER, "consumer_generation": None,
               "consumer_type": "INSTANCE",
               "allocations": {CHILD: {"resources": {"VCPU": 2}}}}
        record = {"total": 1, "resource_provider_generation": 99}
        generation = self.upstream.do("GET", f"/resource_providers/{HOST}").json["generation"]
        for method, path, body in (
            ("PUT", f"/allocations/{uuid(150)}", new),
            ("PUT", f"/allocations/{SERVER}", {**new, "consumer_generation": 1}),
            ("DELETE", f"/allocations/{SERVER}", None),
            ("POST", f"/resource_providers/{CHILD}/inventories",
             {**record, "resource_class": "DISK_GB"}),
            ("PUT", f"/resource_providers/{HOST}/inventories/CUSTOM_GOLD",
             {**record, "total": 20, "resource_provider_generation": generation}),
            ("DELETE", f"/resource_providers/{CHILD}/inventories/VCPU", None),
            ("POST", "/resource_providers", {"name": "new", "uuid": FRESH}),
            ("PUT", f"/resource_providers/{HOST}", {"name": "renamed"}),
            ("PUT", f"/resource_providers/{HOST}/traits",
             {"resource_provider_generation": generation, "traits": ["CUSTOM_FAST"]}),
            ("PUT", f"/resource_providers/{HOST}/aggregates",
             {"resource_provider_generation": generation, "aggregates": []}),
            ("PUT", "/traits/CUSTOM_NEW", None),
            ("PUT", "/resource_classes/CUSTOM_NEW", None),
        ):
            reply = self.upstream.call(method, path, body)
            self.assertThat(
                (method, path, reply.status, reply.text),
                matchers.AfterPreprocessing(lambda seen: seen[2], matchers.Not(
                    matchers.MatchesPredicate(lambda status: status < 400, "%s succeeded"))))
        after = self.content(), self.inventories()
        for table in ("consumers", "projects", "users", "consumer_types", "placement_aggregates"):
            before[0].pop(table), after[0].pop(table)
        self.assertEqual(before, after)

    def test_without_the_right_to_make_triggers(self) -> None:
        if self.kind != "mysql":
            self.skipTest("only MariaDB and MySQL have such a privilege")
        fill(self.upstream)
        url = sa.make_url(self.url)
        user = f"plain_{url.database}"[-32:]
        databases.administer(
            url, f"CREATE USER {user} IDENTIFIED BY 'secret'",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, "
            f"LOCK TABLES ON {url.database}.* TO {user}")
        self.addCleanup(databases.administer, url, f"DROP USER {user}")
        plain = dataclasses.replace(self.settings, connection=url.set(
            username=user, password="secret").render_as_string(hide_password=False))
        lines: list[str] = []
        sync.sync(plain, lines.append)
        self.assertIn("WARNING: the server does not let us make triggers", "\n".join(lines))
        self.assertTrue(checks.read_state(plain).open_to_upstream)
        # What is left of the fence: inserts fail, in strict mode. A process that inserted
        # standard classes itself has left that mode on a connection it keeps.
        self.upstream.stop()
        reply = self.upstream.call("PUT", f"/allocations/{uuid(150)}", {
            "project_id": PROJECT, "user_id": USER, "consumer_generation": None,
            "consumer_type": "INSTANCE", "allocations": {CHILD: {"resources": {"VCPU": 2}}}})
        self.assertEqual(500, reply.status)
        sync.sync(self.settings)
        self.assertFalse(checks.read_state(self.settings).open_to_upstream)

    def test_a_fence_with_a_gap(self) -> None:
        """As after a run on MariaDB that was ended between two triggers."""
        fill(self.upstream)
        sync.sync(self.settings)
        database = self.service_context().database
        gap = ("placement_core_fence ON traits" if self.kind == "postgresql"
               else "placement_core_fence_traits_update")
        with database.writer.begin() as connection:
            connection.exec_driver_sql(f"DROP TRIGGER {gap}")
        self.assertTrue(checks.read_state(self.settings).open_to_upstream)
        sync.sync(self.settings)
        self.assertFalse(checks.read_state(self.settings).open_to_upstream)

    def test_way_back(self) -> None:
        fill(self.upstream)
        sync.sync(self.settings)
        # What our service writes, upstream finds afterwards.
        ctx = self.service_context()
        providers.create(ctx, name="ours", uuid=FRESH, parent_uuid=HOST)
        inventories.create(ctx, FRESH, "CUSTOM_GOLD", records.InventoryValues(total=4),
                           allow_fully_reserved=False)
        allocations.replace(ctx, [records.AllocationWrite(
            uuid(151), {FRESH: {"CUSTOM_GOLD": 3}}, "project-2", "user-2", "VOLUME")])
        allocations.delete(ctx, VOLUME)
        before = self.content()
        sync.release(self.settings)
        self.assertEqual(before, self.content())
        self.assertIsNone(sync.version(self.settings))
        self.assertEqual("a082b8bb98d0", self.upstream.manage("db", "version").stdout.strip())
        self.upstream.make_database()
        found = self.upstream.do("GET", f"/allocations/{SERVER}").json
        self.assertEqual(2, found["allocations"][CHILD]["resources"]["VCPU"])
        found = self.upstream.do("GET", f"/allocations/{uuid(151)}").json
        self.assertEqual(("project-2", "VOLUME", {"CUSTOM_GOLD": 3}), (
            found["project_id"], found["consumer_type"],
            found["allocations"][FRESH]["resources"]))
        self.assertEqual({}, self.upstream.do("GET", f"/allocations/{VOLUME}").json["allocations"])
        found = self.upstream.do("GET", f"/resource_providers?in_tree={HOST}").json
        self.assertEqual({HOST, CHILD, FRESH},
                         {provider["uuid"] for provider in found["resource_providers"]})
        self.upstream.do("DELETE", f"/allocations/{SERVER}")
        self.upstream.do("PUT", f"/allocations/{uuid(150)}", {
            "project_id": PROJECT, "user_id": USER, "consumer_generation": None,
            "consumer_type": "INSTANCE", "allocations": {CHILD: {"resources": {"VCPU": 5}}}})
        self.upstream.do("POST", "/resource_providers", {"name": "new", "uuid": uuid(5)})
        with testtools.ExpectedException(
                compatibility.SchemaError, ".*no schema of placement-core.*"):
            sync.release(self.settings)
        # And here again: nothing that was counted the first time is left over.
        sync.sync(self.settings)
        self.assertEqual((6, 256), self.inventories()[CHILD, "VCPU"])
        self.assertEqual(5, self.counters()[PROJECT, USER, "INSTANCE", "VCPU"])

    def test_older_and_newer_upstream_are_refused_by_name(self) -> None:
        self.upstream.make_database()
        for found in ("422ece571366", "b4ed3a175331", "feedc0ffee00"):
            self.run_sql(f"UPDATE alembic_version SET version_num = '{found}'")
            with testtools.ExpectedException(
                adoption.NotAdoptable, f".*{found}.*expected a082b8bb98d0.*"
            ):
                sync.sync(self.settings)
        self.assertIsNone(sync.version(self.settings))

    def test_ugly(self) -> None:
        """Things the schema allows and clean deployments do not have."""
        fill(self.upstream)
        self.upstream.stop()
        self.run_sql(
            # A tree without roots; its inner provider has a parent.
            "UPDATE resource_providers SET root_provider_id = NULL",
            # Allocations without a consumer record.
            f"DELETE FROM consumers WHERE uuid = '{OLD_CLIENT}'",
            # The same consumer, provider and class twice.
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
            f"SELECT resource_provider_id, consumer_id, resource_class_id, 5 FROM allocations "
            f"WHERE consumer_id = '{VOLUME}'",
            # More used than fits; nothing fits at all.
            "UPDATE inventories SET total = 1 WHERE allocation_ratio = 16.0",
            "UPDATE inventories SET reserved = total + 1 WHERE allocation_ratio = 1.5",
            # A class that its provider has no inventory of.
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
            f"SELECT id, '{SERVER}', 11, 3 FROM resource_providers WHERE uuid = '{HOST}'",
        )
        self.run_sql("UPDATE inventories SET allocation_ratio = 0.5 WHERE allocation_ratio = 16.0")
        before = self.content()
        lines: list[str] = []
        sync.sync(self.settings, lines.append)
        after = self.content()
        ids = {row["uuid"]: row["id"] for row in after["resource_providers"]}
        self.assertEqual(
            {HOST: ids[HOST], CHILD: ids[HOST], SHARED: ids[SHARED]},
            {row["uuid"]: row["root_provider_id"] for row in after["resource_providers"]},
        )
        before.pop("resource_providers"), after.pop("resource_providers")
        self.assertEqual(before, after)
        found = self.inventories()
        self.assertEqual((3, 0), found[CHILD, "VCPU"])
        self.assertEqual((2048, -1), found[HOST, "MEMORY_MB"])
        self.assertEqual((105, 2**63 - 1), found[SHARED, "DISK_GB"])
        counted = self.counters()
        self.assertEqual(65, counted[PROJECT, USER, None, "DISK_GB"])
        self.assertEqual(1, counted[PROJECT, USER, None, None])
        self.assertNotIn((uuid(0), uuid(0), None, "VCPU"), counted)
        ctx = self.service_context()
        self.assertEqual(["inventory"], [
            finding.what for finding in audit.audit(ctx, repair=False)])
        outcome = online.run(
            ctx, None, lines.append, {"create_incomplete_consumers": online.Migration(
                missing_consumers.create_incomplete, missing_consumers.count)})
        self.assertEqual(online.DONE, outcome.exit_code)
        self.assertEqual(1, self.counters()[uuid(0), uuid(0), None, "VCPU"])
        self.assertEqual((0, 0), missing_consumers.create_incomplete(ctx, 50))
        said = "\n".join(lines)
        for sentence in ("3 providers lacked their root", "1 consumers hold allocations without",
                         "1 allocations are of a class", "2 inventories have more used"):
            self.assertIn(sentence, said)

    def test_sequences_are_behind(self) -> None:
        """The rows were copied by logical replication, which leaves sequences where they are."""
        if self.kind != "postgresql":
            self.skipTest("has no sequences")
        fill(self.upstream)
        self.upstream.stop()
        behind = {"allocations", "consumers", "inventories", "placement_aggregates", "projects",
                  "resource_providers", "traits", "users"}
        self.run_sql(
            *(f"SELECT setval('{table}_id_seq', 1, false)" for table in behind),
            "DELETE FROM traits WHERE name = 'HW_CPU_X86_AVX'")
        self.assertEqual(behind, {
            each.table for each in checks.read_state(self.settings).behind_sequences})
        lines: list[str] = []
        sync.sync(self.settings, lines.append)
        self.assertEqual(len(behind), sum("is behind it" in line for line in lines))
        self.assertEqual((), checks.read_state(self.settings).behind_sequences)
        ctx = self.service_context()
        traits.get(ctx, "HW_CPU_X86_AVX")
        host = factories.provider(ctx, inventory={"VCPU": 8}, aggregates=[uuid(202)])
        allocations.replace(ctx, [records.AllocationWrite(
            uuid(150), {host.uuid: {"VCPU": 1}}, "another", "another", "INSTANCE", None)])
        self.assertEqual([], audit.audit(ctx, repair=False))

    def test_a_circle_of_parents_is_refused(self) -> None:
        fill(self.upstream)
        self.upstream.stop()
        self.run_sql("UPDATE resource_providers SET root_provider_id = NULL, "
                     "parent_provider_id = id")
        with testtools.ExpectedException(adoption.NotAdoptable, ".*its own ancestor.*"):
            sync.sync(self.settings)
        self.run_sql("UPDATE resource_providers SET parent_provider_id = NULL")
        sync.sync(self.settings)

    def test_waits_for_an_open_transaction_of_the_old_service(self) -> None:
        self.upstream.do("POST", "/resource_providers", {"name": "host", "uuid": HOST})
        with self.connect() as connection:
            connection.exec_driver_sql(
                "UPDATE resource_providers SET generation = generation + 1")
            impatient = dataclasses.replace(self.settings, lock_timeout_seconds=1)
            self.assertRaises(exclusive.Busy, sync.sync, impatient)
            connection.commit()
        self.assertIsNone(sync.version(self.settings))
        sync.sync(self.settings)
        self.assertEqual([1], [
            row["generation"] for row in self.content()["resource_providers"]])

    def test_run_again_after_dying_half_way(self) -> None:
        """On MariaDB each step commits by itself; elsewhere nothing is left at all."""
        fill(self.upstream)
        before = self.content()
        real = adoption._drop_defaults
        self.addCleanup(setattr, adoption, "_drop_defaults", real)

        def die(_alter: object) -> None:
            raise KeyboardInterrupt

        adoption._drop_defaults = die
        self.assertRaises(KeyboardInterrupt, sync.sync, self.settings)
        adoption._drop_defaults = real
        self.assertIsNone(sync.version(self.settings))
        # Upstream still works on what is left, and what it writes is counted.
        self.upstream.do("DELETE", f"/allocations/{VOLUME}")
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.assertEqual((40, 2**63 - 1), self.inventories()[SHARED, "DISK_GB"])
        self.assertEqual(before["inventories"], self.content()["inventories"])
