"""Looks for requests that the search answers wrongly, or with too much work.

    python -m tests.fuzz.candidates --seconds 600 [--seed 1]

Small snapshots are compared with the oracle; large ones, made so that much is
equal, nearly equal or just too little, with the bound on work below. Each case
is a seed, and is printed so that ``--seed N --cases 1`` repeats it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time

from placement_core.placement.candidates import answers, backtracking, errors, search
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import snapshots
from tests.unit.placement.candidates import oracle, strategies

#: What an offer of a provider for a part may cost, and one row of those among
#: which each part of a combination is chosen.
STEPS_EACH = 8
#: What a request may cost beyond, for branches that come to nothing. Nearly all
#: stay within it; the rest is refused, or cut short, at ``ceiling``.
STEPS_IN_VAIN = 100_000


@dataclasses.dataclass(frozen=True)
class Work:
    """What a request did cost, and what it may."""

    steps: int
    bound: int
    ceiling: int
    seconds: float
    found: int | None

    @property
    def ratio(self) -> float:
        return self.steps / self.bound


def bounds(snapshot, request, found: int) -> tuple[int, int]:
    """Return how many rows a search for so many combinations may look at.

    :returns: (what is usual, what is never exceeded). Both are linear in what
        the providers offer and in the combinations found.
    """
    layout = snapshot.layout
    trees = int((layout.root >= 0).sum()) - len(layout.parents)
    widest = max((len(rows) for rows in layout.trees.values()), default=1)
    widest += len(snapshot.sharing_providers())
    parts = sum(1 if group.suffix else len(group.resources) for group in request.groups)
    offers = parts * (len(layout.row_of_id) + trees * len(snapshot.sharing_providers()))
    usual = STEPS_EACH * (offers + found * parts * widest) + STEPS_IN_VAIN
    # A node of the search looks at the rows of each part for each rule, and
    # matches parts with rows.
    node = widest * parts * (parts + len(request.same_subtree) + 1)
    allowances = backtracking.ALLOWANCE * (2 * trees + found + 1)
    levels = 4 * trees * (parts + len(request.same_subtree))
    return usual, node * (allowances + levels + request.most_dead_ends)


def work(rows, request) -> Work:
    """Search, and say what it cost."""
    snapshot = snapshots.build(*rows)
    started = time.process_time()
    try:
        found = search.find(snapshot, request)
    except errors.TooHard:
        return Work(0, 1, 1, time.process_time() - started, None)
    seconds = time.process_time() - started
    return Work(found.steps, *bounds(snapshot, request, len(found)), seconds, len(found))


def disagreement(chance: random.Random) -> str | None:
    """Compare a small case with the oracle; say how they differ, if they do."""
    rows = strategies.make_providers(chance, chance.randint(1, 9))
    request = strategies.make_request(chance, chance.randint(0, 4))
    expected = set(oracle.Oracle(rows, request).combinations())
    snapshot = snapshots.build(*rows)
    for limit in (None, chance.randint(1, 20)):
        limited = dataclasses.replace(request, limit=limit)
        found = search.find(snapshot, limited, randomize=chance.random() < 0.2)
        offered = oracle.canonical(json.loads(answers.render(snapshot, limited, found)))
        count = len(expected) if limit is None else min(limit, len(expected))
        if len(set(offered)) != len(offered):
            return f"{limited}: something twice"
        if len(offered) != count or not set(offered) <= expected:
            return (f"{limited}: {len(offered)} instead of {count}; "
                    f"wrong: {set(offered) - expected}")
    return None


def large(chance: random.Random):
    """Make a snapshot that has much to combine, and a request to it.

    :returns: rows of providers, request.
    """
    rows = _hosts(chance)
    count = chance.choice((1, 2, 3, 4, 6, 8, 8, 12))
    equal = _group(chance, "_") if chance.random() < 0.5 else None
    groups = []
    for number in range(count):
        group = equal or _group(chance, "_")
        traits = group.traits if chance.random() < 0.7 else _traits(chance)
        groups.append(dataclasses.replace(group, suffix=f"_{number}", traits=traits))
    suffixes = [group.suffix for group in groups]
    subtrees = []
    if count > 1 and chance.random() < 0.5:
        subtrees = [frozenset(chance.sample(suffixes, chance.randint(2, count)))
                    for _ in range(chance.choice((1, 1, 2, 4)))]
    if chance.random() < 0.5:
        classes = chance.sample(snapshots.CLASSES, chance.choice((1, 2, 3)))
        groups.insert(0, RequestGroup(
            "", {name: _amount(chance) for name in classes}, _traits(chance)))
    return rows, CandidatesRequest(
        tuple(groups), isolate=chance.random() < 0.5, same_subtree=tuple(subtrees),
        limit=chance.choice((1, 10, 100, 1000)),
        nested=bool(subtrees) or chance.random() < 0.9)


def _hosts(chance: random.Random):
    hosts, devices = chance.choice(
        ((1, 8), (1, 20), (1, 64), (4, 20), (10, 8), (30, 8), (200, 3), (500, 1)))
    form = chance.choice(("flat", "flat", "two levels", "deep", "any"))
    likeness = chance.choice(("equal", "nearly", "kinds", "any"))
    template = [_inventories(chance) for _ in range(3)]
    rows = []

    def add(parent, inventories, *more, traits=(), aggregates=()):
        rows.append(snapshots.provider(
            len(rows) + 1, *inventories, *more, parent=parent, traits=traits,
            aggregates=aggregates))
        return len(rows)

    for each in range(hosts):
        aggregates = [number for number in range(101, 104) if chance.random() < 0.5]
        root = add(None, _inventories(chance) if likeness == "any" else template[0],
                   traits=_some_traits(chance), aggregates=aggregates)
        members = [root]
        for device in range(devices):
            kind = device % 2 if likeness == "kinds" else 0
            inventories = template[1 + kind]
            if likeness == "nearly":
                inventories = [inventory._replace(
                    capacity=inventory.capacity + device, used=device + each % 3)
                    for inventory in inventories]
            elif likeness == "any":
                inventories = _inventories(chance)
            if form == "flat":
                parent = root
            elif form == "two levels":
                parent = members[1 + device % 4] if device >= 4 else root
            elif form == "deep":
                parent = members[-1]
            else:
                parent = chance.choice(members)
            traits = _some_traits(chance) if likeness in ("any", "kinds") else ("CUSTOM_A",)
            members.append(add(parent, inventories, traits=traits))
    for _ in range(chance.choice((0, 0, 0, 2, 5))):
        add(None, _inventories(chance), traits=(snapshots.SHARES, *_some_traits(chance)),
            aggregates=[number for number in range(101, 104) if chance.random() < 0.7])
    return rows


def _inventories(chance: random.Random):
    return [snapshots.inventory(
        name, chance.choice((1, 1, 2, 3, 7, 10, 23)),
        max_unit=chance.choice((1, 4, 100)) if chance.random() < 0.3 else 100)
        for name in snapshots.CLASSES if chance.random() < 0.6]


def _some_traits(chance: random.Random):
    return [name for name in snapshots.TRAITS[1:] if chance.random() < 0.5]


def _traits(chance: random.Random):
    if chance.random() < 0.6:
        return TraitFilter()
    wanted = chance.sample(snapshots.TRAITS[1:], chance.choice((1, 1, 2)))
    return TraitFilter(tuple(frozenset([name]) for name in wanted))


def _amount(chance: random.Random):
    return chance.choice((1, 1, 1, 2, 3, 5))


def _group(chance: random.Random, suffix: str):
    classes = chance.sample(snapshots.CLASSES, chance.choice((1, 1, 1, 2)))
    return RequestGroup(
        suffix, {name: _amount(chance) for name in classes}, _traits(chance),
        AggregateFilter((frozenset([snapshots.uuid_of(101)]),)) if chance.random() < 0.05
        else AggregateFilter())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.candidates")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first case (0)")
    parser.add_argument("--cases", type=int, help="stop after so many")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    seed = options.seed
    bad = slow = hard = 0
    worst = longest = 0.0
    while time.monotonic() < until and (
            options.cases is None or seed < options.seed + options.cases):
        wrong = disagreement(random.Random(seed))
        if wrong:
            bad += 1
            print(f"seed {seed}: wrong: {wrong}")
        rows, request = large(random.Random(seed))
        cost = work(rows, request)
        if cost.found is None:
            hard += 1
            print(f"seed {seed}: too hard, {cost.seconds:.2f} s", flush=True)
        if cost.ratio > 1:
            slow += 1
        if cost.steps > cost.ceiling:
            bad += 1
            print(f"seed {seed}: {cost.steps} steps, more than {cost.ceiling}")
        if cost.ratio > worst or cost.seconds > longest:
            print(f"seed {seed}: {cost.ratio:.3f} of the bound, {cost.steps} steps, "
                  f"{cost.found} found of {request.limit}, {cost.seconds:.2f} s", flush=True)
        worst, longest = max(worst, cost.ratio), max(longest, cost.seconds)
        seed += 1
    print(f"{seed - options.seed} cases, {bad} bad, {slow} beyond the usual bound, "
          f"{hard} too hard; at most {worst:.3f} of the bound, {longest:.2f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
