from placement_core.placement import errors, records, tables
from placement_core.placement.records import TypeUsage
from placement_core.placement.usage import usages
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims


@databases.on_each_database
class TestUsages(claims.ClaimsTestCase):

    def of_project(self, project="project", **options):
        found = usages.for_project(self.ctx, project, **options)
        return {usage.consumer_type: (usage.consumer_count, dict(usage.resources))
                for usage in found}

    def test_of_a_provider(self):
        host = self.provider(VCPU=8, MEMORY_MB=64)
        self.claim({host: {"VCPU": 2}})
        found = usages.for_provider(self.ctx, host.uuid)
        self.assertEqual(host.generation + 1, found.generation)
        self.assertEqual({"VCPU": 2, "MEMORY_MB": 0}, dict(found.usages))
        bare = usages.for_provider(self.ctx, self.provider().uuid)
        self.assertEqual({}, dict(bare.usages))
        self.assertRaises(errors.ProviderNotFound, usages.for_provider, self.ctx,
                          factories.new_uuid())

    def test_of_a_project_by_type(self):
        host = self.provider(VCPU=80, MEMORY_MB=640)
        for kind in ("INSTANCE", "INSTANCE", "MIGRATION", None):
            self.claim({host: {"VCPU": 2, "MEMORY_MB": 5}}, kind=kind,
                       consumer=factories.new_uuid())
        self.claim({host: {"VCPU": 1}}, project="other", consumer=factories.new_uuid())
        expected = {
            "INSTANCE": (2, {"VCPU": 4, "MEMORY_MB": 10}),
            "MIGRATION": (1, {"VCPU": 2, "MEMORY_MB": 5}),
            None: (1, {"VCPU": 2, "MEMORY_MB": 5}),
        }
        self.assertEqual(expected, self.of_project())
        self.assertEqual({"MIGRATION": expected["MIGRATION"]},
                         self.of_project(consumer_type="MIGRATION"))
        self.assertEqual({None: expected[None]},
                         self.of_project(consumer_type=records.UNKNOWN_TYPE))
        self.assertEqual({}, self.of_project(consumer_type="NOBODY"))
        self.assertEqual({"INSTANCE": (1, {"VCPU": 1})}, self.of_project("other"))
        self.assertEqual({}, self.of_project("nobody"))
        self.assertEqual({}, self.of_project("\0"))

    def test_of_a_user(self):
        host = self.provider(VCPU=80)
        self.claim({host: {"VCPU": 2}})
        self.claim({host: {"VCPU": 3}}, user="second", consumer=factories.new_uuid())
        self.assertEqual({"INSTANCE": (1, {"VCPU": 3})}, self.of_project(user_id="second"))
        self.assertEqual({"INSTANCE": (2, {"VCPU": 5})}, self.of_project())
        self.assertEqual({}, self.of_project(user_id="third"))

    def test_counters_follow_project_user_type_and_amount(self):
        host = self.provider(VCPU=80, DISK_GB=10)
        self.claim({host: {"VCPU": 2}})
        self.claim({host: {"VCPU": 2}}, project="second")
        self.assertEqual({}, self.of_project())
        self.assertEqual({"INSTANCE": (1, {"VCPU": 2})}, self.of_project("second"))
        self.claim({host: {"VCPU": 3, "DISK_GB": 1}}, project="second", user="u2")
        self.assertEqual({"INSTANCE": (1, {"VCPU": 3, "DISK_GB": 1})},
                         self.of_project("second", user_id="u2"))
        self.assertEqual({}, self.of_project("second", user_id="user"))
        self.claim({host: {"VCPU": 3}}, project="second", user="u2", kind="MIGRATION")
        self.assertEqual({"MIGRATION": (1, {"VCPU": 3})}, self.of_project("second"))
        self.claim({})
        self.assertEqual({}, self.of_project("second"))

    def test_a_new_project_named_only_by_a_move(self):
        host = self.provider(VCPU=80)
        self.claim({host: {"VCPU": 2}}, seen=None)
        self.claim({host: {"VCPU": 2}}, seen=1, project="brand new", user="brand new",
                   kind="BRAND_NEW")
        self.assertEqual([TypeUsage("BRAND_NEW", 1, {"VCPU": 2})],
                         usages.for_project(self.ctx, "brand new"))
        self.assertEqual(2, self.count(tables.projects))
