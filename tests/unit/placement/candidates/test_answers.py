import dataclasses
import json

from placement_core.placement.candidates import answers, search
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import base, snapshots

HOST, NUMA, CARD, POOL, OTHER = (snapshots.uuid_of(number) for number in range(1, 6))


def snapshot():
    return snapshots.build(
        snapshots.provider(1, snapshots.inventory("VCPU", 8, 2),
                           snapshots.inventory("MEMORY_MB", 64),
                           traits=["CUSTOM_B", "CUSTOM_A"], aggregates=[101]),
        snapshots.provider(2, parent=1),
        snapshots.provider(3, snapshots.inventory("CUSTOM_GPU", 4), parent=2, traits=["CUSTOM_C"]),
        snapshots.provider(4, snapshots.inventory("DISK_GB", 100, 60), traits=[snapshots.SHARES],
                           aggregates=[101]),
        snapshots.provider(5, snapshots.inventory("VCPU", 1)))


REQUEST = CandidatesRequest((
    RequestGroup("", {"VCPU": 2, "DISK_GB": 10}),
    RequestGroup("_gpu", {"CUSTOM_GPU": 1}),
    RequestGroup("_more", {"CUSTOM_GPU": 2})))


def ask(request, form=answers.NEWEST, of=None):
    of = of or snapshot()
    return json.loads(answers.render(of, request, search.find(of, request), form))


class TestRender(base.TestCase):

    maxDiff = None

    def test_newest(self):
        self.assertEqual({
            "allocation_requests": [{
                "allocations": {
                    HOST: {"resources": {"VCPU": 2}},
                    POOL: {"resources": {"DISK_GB": 10}},
                    CARD: {"resources": {"CUSTOM_GPU": 3}}},
                "mappings": {"": [HOST, POOL], "_gpu": [CARD], "_more": [CARD]}}],
            "provider_summaries": {
                HOST: {"resources": {"VCPU": {"capacity": 8, "used": 2},
                                     "MEMORY_MB": {"capacity": 64, "used": 0}},
                       "traits": ["CUSTOM_A", "CUSTOM_B"],
                       "parent_provider_uuid": None, "root_provider_uuid": HOST},
                NUMA: {"resources": {}, "traits": [],
                       "parent_provider_uuid": HOST, "root_provider_uuid": HOST},
                CARD: {"resources": {"CUSTOM_GPU": {"capacity": 4, "used": 0}},
                       "traits": ["CUSTOM_C"],
                       "parent_provider_uuid": NUMA, "root_provider_uuid": HOST},
                POOL: {"resources": {"DISK_GB": {"capacity": 100, "used": 60}},
                       "traits": [snapshots.SHARES],
                       "parent_provider_uuid": None, "root_provider_uuid": POOL}},
        }, ask(REQUEST))

    def test_each_part_can_be_left_out(self):
        newest = ask(REQUEST)
        without = ask(REQUEST, answers.ResponseFormat(mappings=False))
        self.assertNotIn("mappings", without["allocation_requests"][0])
        self.assertEqual(newest["provider_summaries"], without["provider_summaries"])
        plain = ask(REQUEST, answers.ResponseFormat(traits=False, trees=False, all_classes=False))
        self.assertEqual({
            HOST: {"resources": {"VCPU": {"capacity": 8, "used": 2}}},
            NUMA: {"resources": {}},
            CARD: {"resources": {"CUSTOM_GPU": {"capacity": 4, "used": 0}}},
            POOL: {"resources": {"DISK_GB": {"capacity": 100, "used": 60}}},
        }, plain["provider_summaries"])
        self.assertEqual(newest["allocation_requests"], plain["allocation_requests"])

    def test_list_form(self):
        document = ask(CandidatesRequest((RequestGroup("", {"VCPU": 2, "MEMORY_MB": 3}),)),
                       answers.ResponseFormat(
                           keyed=False, mappings=False, traits=False, trees=False))
        self.assertEqual([{"allocations": [
            {"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 2, "MEMORY_MB": 3}}]}],
            document["allocation_requests"])

    def test_only_providers_used_where_trees_are_unknown(self):
        request = CandidatesRequest((RequestGroup("", {"CUSTOM_GPU": 2}),), nested=False)
        document = ask(request, answers.ResponseFormat(mappings=False, trees=False))
        self.assertEqual([CARD], list(document["provider_summaries"]))
        request = CandidatesRequest(
            (RequestGroup("", {"CUSTOM_GPU": 2, "VCPU": 1}),), nested=False)
        self.assertEqual([], ask(request)["allocation_requests"])

    def test_limit_shows_only_its_trees(self):
        request = CandidatesRequest((RequestGroup("", {"VCPU": 1}),), limit=1)
        self.assertEqual({HOST, NUMA, CARD}, set(ask(request)["provider_summaries"]))

    def test_resourceless_group_is_mapped_only(self):
        groups = (RequestGroup("_top", {}, traits=TraitFilter((frozenset(["CUSTOM_A"]),))),
                  RequestGroup("_gpu", {"CUSTOM_GPU": 1}))
        request = CandidatesRequest(groups, same_subtree=(frozenset(["_top", "_gpu"]),))
        found = ask(request)["allocation_requests"]
        self.assertEqual([{"allocations": {CARD: {"resources": {"CUSTOM_GPU": 1}}},
                           "mappings": {"_top": [HOST], "_gpu": [CARD]}}], found)

    def test_summaries_are_made_once_until_the_provider_changes(self):
        before = snapshot()
        request = CandidatesRequest((RequestGroup("", {"VCPU": 1}),))
        ask(request, of=before)
        after = before.apply_changes(
            {5: snapshots.provider(5, snapshots.inventory("VCPU", 2))}, snapshots.NAMES, None)
        rows = after.layout.row_of_uuid
        self.assertIs(before.entry(rows[HOST]).summary, after.entry(rows[HOST]).summary)
        self.assertIsNone(after.entry(rows[OTHER]).summary)
        self.assertEqual({"VCPU": {"capacity": 2, "used": 0}},
                         ask(request, of=after)["provider_summaries"][OTHER]["resources"])


class TestRenderMany(base.TestCase):
    """More candidates than are put together one by one."""

    COUNT = 3 * answers._FEW

    def setUp(self):
        super().setUp()
        self.rows = [snapshots.provider(number, snapshots.inventory("VCPU", 8),
                                        snapshots.inventory("MEMORY_MB", 64))
                     for number in range(1, self.COUNT + 1)]

    def expect(self, form=answers.NEWEST):
        uuids = [row.uuid for row in self.rows]
        resources = {"VCPU": 2, "MEMORY_MB": 3}
        if form.keyed:
            return [{"allocations": {uuid: {"resources": resources}},
                     "mappings": {"": [uuid]}} for uuid in uuids]
        return [{"allocations": [{"resource_provider": {"uuid": uuid}, "resources": resources}],
                 "mappings": {"": [uuid]}} for uuid in uuids]

    def ask(self, *groups, form=answers.NEWEST):
        request = CandidatesRequest(groups or (RequestGroup("", {"VCPU": 2, "MEMORY_MB": 3}),))
        return ask(request, form, snapshots.build(*self.rows))

    def test_on_one_provider(self):
        for form in (answers.NEWEST, answers.ResponseFormat(keyed=False)):
            self.assertEqual(self.expect(form), self.ask(form=form)["allocation_requests"])

    def test_limit_within_them(self):
        request = CandidatesRequest((RequestGroup("", {"VCPU": 2, "MEMORY_MB": 3}),),
                                    limit=2 * answers._FEW)
        found = ask(request, of=snapshots.build(*self.rows))
        self.assertEqual(self.expect()[:2 * answers._FEW], found["allocation_requests"])

    def test_uuids_of_other_lengths(self):
        for number, uuid in ((0, "a" * 32), (70, "short"), (self.COUNT - 1, "\u00e9" * 36)):
            self.rows[number] = dataclasses.replace(self.rows[number], uuid=uuid)
        found = self.ask()
        self.assertEqual(self.expect(), found["allocation_requests"])
        self.assertEqual([row.uuid for row in self.rows], list(found["provider_summaries"]))

    def test_groups_on_the_same_provider_and_on_two(self):
        pool = snapshots.provider(
            1000, snapshots.inventory("MEMORY_MB", 64), traits=[snapshots.SHARES],
            aggregates=[1])
        self.rows = [dataclasses.replace(row, aggregates=pool.aggregates) for row in self.rows]
        hosts = [row.uuid for row in self.rows]
        self.rows.append(pool)
        found = self.ask(RequestGroup("_A", {"VCPU": 2}), RequestGroup("_B", {"MEMORY_MB": 3}))
        mine = [{"allocations": {uuid: {"resources": {"VCPU": 2, "MEMORY_MB": 3}}},
                 "mappings": {"_A": [uuid], "_B": [uuid]}} for uuid in hosts]
        shared = [{"allocations": {uuid: {"resources": {"VCPU": 2}},
                                   pool.uuid: {"resources": {"MEMORY_MB": 3}}},
                   "mappings": {"_A": [uuid], "_B": [pool.uuid]}} for uuid in hosts]
        self.assertCountEqual(mine + shared, found["allocation_requests"])
