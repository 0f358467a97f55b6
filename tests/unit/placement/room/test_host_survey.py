"""The survey of hosts: how full each is, its states, and the groups that they form."""

from __future__ import annotations

import dataclasses

from placement_core.placement.index.records import NameIndex, ProviderRow
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import host_survey, sums
from placement_core.placement.room.host_survey import HostState, HostSurvey
from tests import base, snapshots
from tests.snapshots import inventory, provider

_DISABLED = "COMPUTE_STATUS_DISABLED"
_TRAITS = NameIndex(
    snapshots.NAMES.class_names, {**snapshots.NAMES.trait_names, 9: _DISABLED})


def _survey(
    *rows: ProviderRow, leased: tuple[str, ...] = (), resource_class: str | None = None
) -> HostSurvey:
    snapshot = CapacitySnapshot.build(rows, _TRAITS)
    names = {entry.provider.name: row for row, entry in enumerate(snapshot.entries) if entry}
    return host_survey.make(
        snapshot, sums.build_columns(snapshot, {}), [names[name] for name in leased],
        resource_class)


def _describe(survey: HostSurvey) -> list[HostState]:
    return survey.describe(range(len(survey.roots)))


class TestHostSurvey(base.TestCase):
    def test_fullest_class(self) -> None:
        """The class of which the least is left counts, over the whole tree of a host."""
        states = _describe(_survey(
            provider(1, inventory("MEMORY_MB", 100, 25), name="b"),
            provider(2, inventory("VCPU", 4, 4), parent=1),
            provider(3, inventory("VCPU", 4, 2), parent=1),
            provider(4, inventory("VCPU", 8), inventory("DISK_GB", 10, 1), name="a")))
        self.assertEqual(
            [("a", 0.1, "DISK_GB"), ("b", 0.75, "VCPU")],
            [(state.name, state.used_share, state.fullest) for state in states])
        self.assertEqual(snapshots.uuid_of(1), states[1].uuid)

    def test_one_class(self) -> None:
        """Only the usage of one class is wanted, over-commitment is that of any."""
        states = _describe(_survey(
            provider(1, inventory("MEMORY_MB", 100, 25), inventory("VCPU", 4, 4, total=2)),
            provider(2, inventory("VCPU", 4, 4)), resource_class="MEMORY_MB"))
        self.assertEqual(
            [(0.25, "MEMORY_MB", True), (0.0, None, False)],
            [(state.used_share, state.fullest, state.overcommitted) for state in states])

    def test_states(self) -> None:
        """Leased by bookings, over-committed by what is there, disabled by the trait."""
        disabled = dataclasses.replace(
            provider(3, inventory("VCPU", 8), name="disabled"), traits=frozenset({9}))
        states = {state.name: state for state in _describe(_survey(
            provider(1, inventory("VCPU", 16, 8, total=8), name="full"),
            provider(2, inventory("VCPU", 16, 8, total=8, reserved=1), name="over"),
            disabled, provider(4, inventory("VCPU", 8), name="leased"),
            leased=("leased",)))}
        self.assertEqual(
            {"full": (False, False, False), "over": (False, True, False),
             "disabled": (False, False, True), "leased": (True, False, False)},
            {name: (state.leased, state.overcommitted, state.disabled)
             for name, state in states.items()})

    def test_no_capacity(self) -> None:
        """What has no inventory is no host; what has no capacity has no share of it in use."""
        survey = _survey(
            provider(1, name="bare"), provider(2, inventory("VCPU", 0, 3), name="reserved"),
            provider(3, inventory("VCPU", 2, 3), name="shrunk"))
        self.assertEqual([("reserved", 0.0, None), ("shrunk", 1.5, "VCPU")], [
            (state.name, state.used_share, state.fullest) for state in _describe(survey)])
        self.assertEqual([], _describe(_survey()))
        self.assertEqual([], _survey().group("aggregate"))

    def test_huge_amounts(self) -> None:
        [state] = _describe(_survey(provider(1, inventory("VCPU", 10**45, 10**45, total=1))))
        self.assertEqual((1.0, True), (state.used_share, state.overcommitted))

    def test_groups(self) -> None:
        """Each host is in one group: those in the same aggregates, or with the same own traits."""
        survey = _survey(*(
            provider(number, inventory("VCPU", 1), aggregates=aggregates, traits=traits,
                     name=f"host{number}")
            for number, (aggregates, traits) in enumerate([
                ((101,), ("CUSTOM_A",)), ((102, 101), ("CUSTOM_A", snapshots.SHARES)),
                ((101,), ("CUSTOM_B", "CUSTOM_A")), ((), ())], 1)))
        both, first = (tuple(map(snapshots.uuid_of, aggregates))
                       for aggregates in ((101, 102), (101,)))
        for by, groups in (
                ("aggregate", [(first, [0, 2]), ((), [3]), (both, [1])]),
                ("trait", [(("CUSTOM_A",), [0, 1]), ((), [3]), (("CUSTOM_A", "CUSTOM_B"), [2])])):
            self.assertEqual(groups, [
                (group.keys, group.positions.tolist()) for group in survey.group(by)])

    def test_pages(self) -> None:
        """The hosts after a name, whether there is a host of that name or not."""
        survey = _survey(*(provider(number, inventory("VCPU", 1), name=f"host{number}")
                           for number in (2, 4, 6)))
        positions = survey.group("trait")[0].positions
        self.assertEqual([[0, 1, 2], [1, 2], [1, 2], []], [
            survey.find_after(positions, name).tolist()
            for name in ("a", "host2", "host3", "host6")])
