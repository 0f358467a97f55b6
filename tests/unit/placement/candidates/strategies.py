"""Small random worlds and requests, where most things fit somewhere."""

from __future__ import annotations

from hypothesis import strategies as st

from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import worlds

AGGREGATES = (101, 102, 103)

_plain_traits = st.sampled_from(worlds.TRAITS[1:])


def _seldom(strategy, default):
    """Mostly the default: too many conditions at once leave nothing to compare."""
    return st.one_of(st.just(default), st.just(default), strategy)


@st.composite
def inventories(draw):
    classes = draw(st.lists(st.sampled_from(worlds.CLASSES), unique=True, max_size=3))
    return [
        worlds.inventory(
            name, draw(st.sampled_from((1, 2, 4))), draw(_seldom(st.integers(0, 2), 0)),
            min_unit=draw(_seldom(st.just(2), 1)), max_unit=draw(_seldom(st.integers(1, 3), 4)),
            step_size=draw(_seldom(st.just(2), 1)))
        for name in classes]


@st.composite
def provider_lists(draw, *, most=7):
    rows = []
    for number in range(1, draw(st.integers(1, most)) + 1):
        parents = st.just(None)
        if rows:
            parents = st.one_of(st.none(), st.sampled_from([row.id for row in rows]))
        if rows and draw(st.integers(0, 2)) == 0:
            # A copy of another: only copies make equal devices likely.
            twin = draw(st.sampled_from(rows))
            rows.append(worlds.provider(
                number, *twin.inventories, parent=twin.parent_id,
                traits=[worlds.NAMES.trait_names[each] for each in twin.traits],
                aggregates=[number for number in AGGREGATES
                            if worlds.uuid_of(number) in twin.aggregates]))
            continue
        traits = draw(st.lists(_plain_traits, unique=True, max_size=2))
        if draw(st.integers(0, 4)) == 0:
            traits.append(worlds.SHARES)
        rows.append(worlds.provider(
            number, *draw(inventories()), parent=draw(parents), traits=traits,
            aggregates=draw(st.lists(st.sampled_from(AGGREGATES), unique=True, max_size=2))))
    return rows


@st.composite
def trait_filters(draw, *, any_of=True):
    sets = st.frozensets(_plain_traits, min_size=1, max_size=2 if any_of else 1)
    return TraitFilter(
        tuple(draw(st.lists(sets, max_size=2))),
        draw(_seldom(st.frozensets(_plain_traits, min_size=1, max_size=1), frozenset())))


@st.composite
def aggregate_filters(draw):
    uuids = st.sampled_from([worlds.uuid_of(number) for number in (*AGGREGATES, 999)])
    return AggregateFilter(
        tuple(draw(st.lists(st.frozensets(uuids, min_size=1, max_size=2), max_size=2))),
        draw(_seldom(st.frozensets(uuids, min_size=1, max_size=1), frozenset())))


@st.composite
def groups(draw, suffix, *, resourceless=False):
    classes = draw(st.lists(
        st.sampled_from(worlds.CLASSES), unique=True, min_size=1, max_size=2 if suffix else 3))
    resources = {} if resourceless else {
        name: draw(_seldom(st.integers(1, 3), 1)) for name in classes}
    return RequestGroup(
        suffix, resources,
        draw(_seldom(trait_filters(), TraitFilter())),
        draw(_seldom(aggregate_filters(), AggregateFilter())),
        draw(_seldom(st.sampled_from(
            [worlds.uuid_of(number) for number in (1, 2, 3, 77)]), None)))


@st.composite
def requests(draw, *, subtrees=True):
    suffixes = [f"_{number}" for number in range(draw(st.integers(0, 3)))]
    same_subtree = ()
    if subtrees and len(suffixes) > 1:
        same_subtree = draw(_seldom(st.lists(
            st.frozensets(st.sampled_from(suffixes), min_size=1), min_size=1, max_size=2), ()))
    named = frozenset().union(*same_subtree)
    asked = [draw(groups(suffix, resourceless=suffix in named and draw(st.booleans())))
             for suffix in suffixes]
    if not any(group.resources for group in asked) or draw(st.booleans()):
        asked.insert(0, draw(groups("")))
    return CandidatesRequest(
        tuple(asked), isolate=draw(st.booleans()),
        root_traits=draw(_seldom(trait_filters(any_of=False), TraitFilter())),
        same_subtree=tuple(same_subtree), nested=draw(_seldom(st.just(False), True)))
