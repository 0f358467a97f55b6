"""Small random snapshots and requests, where most things fit somewhere.

Hypothesis picks the sizes and a seed; the rest comes from the seed, because
only then the odds are ours: its own choices crowd at the edges, where hardly
any request has an answer.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import snapshots

AGGREGATES = (101, 102, 103)
_PLAIN_TRAITS = snapshots.TRAITS[1:]
#: A seed rather than st.randoms: that too is drawn by hypothesis.
_CHANCE = st.integers(0, 2**64).map(random.Random)


def provider_lists(*, most=8):
    """Make lists of providers: trees, twins, sharing providers."""
    return _CHANCE.map(lambda chance: make_providers(chance, chance.randint(1, most)))


def requests(*, groups=3, subtrees=True):
    """Make requests of at most so many granular groups."""
    return st.builds(
        make_request, _CHANCE, st.sampled_from(range(groups + 1)), st.just(subtrees))


def make_providers(chance: random.Random, count: int):
    rows = []
    for number in range(1, count + 1):
        if rows and chance.random() < 0.35:
            # A copy of another: only copies make equal devices likely.
            twin = chance.choice(rows)
            rows.append(snapshots.provider(
                number, *twin.inventories, parent=twin.parent_id,
                traits=[snapshots.NAMES.trait_names[each] for each in twin.traits],
                aggregates=[each for each in AGGREGATES
                            if snapshots.uuid_of(each) in twin.aggregates]))
            continue
        parent = chance.choice(rows).id if rows and chance.random() < 0.7 else None
        traits = [name for name in _PLAIN_TRAITS if chance.random() < 0.5]
        if chance.random() < 0.15:
            traits.append(snapshots.SHARES)
        rows.append(snapshots.provider(
            number, *_inventories(chance), parent=parent, traits=traits,
            aggregates=[each for each in AGGREGATES if chance.random() < 0.35]))
    return rows


def _inventories(chance: random.Random):
    return [
        snapshots.inventory(
            name, chance.choice((1, 2, 4, 8)), chance.choice((0, 0, 0, 1, 2)),
            min_unit=2 if chance.random() < 0.05 else 1,
            max_unit=chance.choice((1, 2, 3)) if chance.random() < 0.25 else 100,
            step_size=2 if chance.random() < 0.05 else 1)
        for name in snapshots.CLASSES if chance.random() < 0.65]


def make_request(chance: random.Random, count: int, subtrees: bool = True):
    suffixes = [f"_{number}" for number in range(count)]
    same_subtree = []
    if subtrees and count > 1 and chance.random() < 0.5:
        same_subtree = [
            frozenset(chance.sample(suffixes, chance.randint(1, count)))
            for _ in range(chance.choice((1, 1, 2)))]
    named = frozenset().union(*same_subtree)
    asked = [_group(chance, suffix, resourceless=suffix in named and chance.random() < 0.3)
             for suffix in suffixes]
    if not any(group.resources for group in asked) or chance.random() < 0.6:
        asked.insert(0, _group(chance, ""))
    return CandidatesRequest(
        tuple(asked), isolate=chance.random() < 0.4,
        root_traits=_traits(chance, any_of=False) if chance.random() < 0.1 else TraitFilter(),
        same_subtree=tuple(same_subtree), nested=chance.random() < 0.85)


def _group(chance: random.Random, suffix: str, *, resourceless: bool = False):
    classes = chance.sample(snapshots.CLASSES, chance.choice((1, 1, 2)))
    return RequestGroup(
        suffix,
        {} if resourceless else {name: chance.choice((1, 1, 1, 2)) for name in classes},
        _traits(chance) if resourceless or chance.random() < 0.2 else TraitFilter(),
        _aggregates(chance) if chance.random() < 0.15 else AggregateFilter(),
        snapshots.uuid_of(chance.choice((1, 1, 2, 3, 77))) if chance.random() < 0.08 else None)


def _traits(chance: random.Random, *, any_of: bool = True):
    required = [
        frozenset(chance.sample(_PLAIN_TRAITS, chance.choice((1, 2)) if any_of else 1))
        for _ in range(chance.choice((0, 1, 1, 2)))]
    left = sorted(set(_PLAIN_TRAITS) - frozenset().union(*required))
    forbidden = frozenset(chance.sample(left, 1)) if left and chance.random() < 0.3 else ()
    return TraitFilter(tuple(required), frozenset(forbidden))


def _aggregates(chance: random.Random):
    uuids = [snapshots.uuid_of(number) for number in (*AGGREGATES, 999)]
    member_of = [frozenset(chance.sample(uuids, chance.choice((1, 2))))
                 for _ in range(chance.choice((0, 1, 1, 2)))]
    forbidden = chance.sample(uuids, 1) if chance.random() < 0.3 else ()
    return AggregateFilter(tuple(member_of), frozenset(forbidden))
