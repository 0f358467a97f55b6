import hypothesis
from hypothesis import strategies as st

from placement_core.placement.candidates import errors, providers
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    ProviderFilter,
    TraitFilter,
)
from tests import base, examples, snapshots
from tests.unit.placement.candidates import oracle, strategies


class TestFind(base.TestCase):

    @examples.draw(300)
    @hypothesis.given(strategies.provider_lists(), strategies.requests(), st.booleans())
    def test_against_the_oracle(self, rows, request, named):
        group = request.groups[0]
        wanted = ProviderFilter(
            resources=group.resources, traits=group.traits, aggregates=group.aggregates,
            in_tree=group.in_tree, uuid=rows[0].uuid if named else None)
        judge = oracle.Oracle(rows, CandidatesRequest(()))
        tree = judge.by_uuid.get(group.in_tree)
        expected = {
            each.uuid for each in judge.providers.values()
            if all(each.fits(*pair) for pair in group.resources.items())
            and all(names & each.traits for names in group.traits.required)
            and not group.traits.forbidden & each.traits
            and all(uuids & each.aggregates for uuids in group.aggregates.member_of)
            and not group.aggregates.forbidden & each.aggregates
            and (not group.in_tree or (tree is not None and tree.root == each.root))
            and (not named or each.uuid == rows[0].uuid)}
        found = providers.find(snapshots.build(*rows), wanted)
        self.assertEqual(expected, {each.provider.uuid for each in found})
        self.assertEqual(len(expected), len(found))

    def test_by_name_and_uuid(self):
        snapshot = snapshots.build(
            snapshots.provider(1, name="a"), snapshots.provider(2, name="b"))
        for wanted, ids in (
                (ProviderFilter(), [1, 2]),
                (ProviderFilter(name="b"), [2]),
                (ProviderFilter(uuid=snapshots.uuid_of(1)), [1]),
                (ProviderFilter(uuid=snapshots.uuid_of(1), name="b"), []),
                (ProviderFilter(uuid=snapshots.uuid_of(9)), []),
                (ProviderFilter(in_tree=snapshots.uuid_of(9)), [])):
            self.assertEqual(ids, [each.provider.id for each in providers.find(snapshot, wanted)])

    def test_unknown_names(self):
        error = self.assertRaises(
            errors.UnknownRequestedTraits, providers.find, snapshots.build(),
            ProviderFilter(traits=TraitFilter((frozenset(["CUSTOM_A", "NO"]),))))
        self.assertEqual(
            'Invalid trait(s) in "required" parameter: No such trait(s): NO.', str(error))
        error = self.assertRaises(
            errors.UnknownRequestedClass, providers.find, snapshots.build(),
            ProviderFilter(resources={"NO": 1}))
        self.assertEqual("Invalid resource class in resources parameter: "
                         "No such resource class NO.", str(error))
