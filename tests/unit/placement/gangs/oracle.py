"""Gangs the naive way: every choice of places is tried.

It uses the naive candidates, and none of the code that it judges.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

from tests.unit.placement.candidates import oracle


class GangOracle:
    """All ways to place members.

    :ivar places: (what a member takes, as {(provider, class): amount}; its anchor).
    """

    def __init__(self, rows, request):
        self.request = request
        self.judge = oracle.Oracle(rows, request.shape)
        self.rows = {row.id: row for row in rows}
        self.places = []
        found = defaultdict(set)
        for (allocations, _), anchors in self.judge.combinations().items():
            found[allocations] |= anchors
        for allocations, anchors in found.items():
            taken = {(uuid, name): amount for uuid, name, amount in allocations}
            for anchor in anchors:
                if all(self.domain(level, taken, anchor) is not None for level in request.levels):
                    self.places.append((taken, anchor))

    def domain(self, level, taken, anchor):
        """Return the domain of a place; None: it is in none."""
        if level.kind == "host":
            return anchor
        if level.kind == "tree":
            providers = [self.judge.by_uuid[uuid] for uuid, _ in taken]
            tops = {each.line[-1 - level.depth] if len(each.line) > level.depth else None
                    for each in providers}
            return tops.pop() if len(tops) == 1 else None
        marked = {
            uuid for each in self.judge.providers.values() for uuid in each.aggregates
            if (each.shares or not each.inventories) and (
                level.value in each.traits if level.kind == "trait"
                else self.rows[each.id].name.startswith(level.value))}
        own = sorted(marked & self.judge.providers[anchor].aggregates)
        return own[0] if own else None

    def choices(self):
        """Return all legal choices of at most ``members`` places, as tuples of positions."""
        legal = []

        def extend(chosen, start):
            legal.append(chosen)
            if len(chosen) == self.request.members:
                return
            for at in range(start, len(self.places)):
                if self.is_legal((*chosen, at)):
                    extend((*chosen, at), at)

        extend((), 0)
        return legal

    def is_legal(self, chosen):
        return self.fits([self.places[at] for at in chosen])

    def fits(self, places):
        request, sums = self.request, Counter()
        for taken, _ in places:
            sums.update(taken)
        for (uuid, name), amount in sums.items():
            each = self.judge.by_uuid[uuid].inventories[name]
            if each.used + amount > each.capacity:
                return False
        hosts = Counter(anchor for _, anchor in places)
        if request.max_per_host is not None and any(
                count > request.max_per_host for count in hosts.values()):
            return False
        return request.within is None or len(
            {self.domain(request.within, *place) for place in places}) <= 1

    def is_ordered(self, places):
        """Say whether neighbours lie in one domain, as far as possible, and parts are sorted."""
        request, anchors = self.request, [anchor for _, anchor in places]
        sequences = [anchors]
        if request.order_by is not None and request.order_by.kind != "tree":
            sequences.append([self.domain(request.order_by, *place) for place in places])
        depths = sorted({
            level.depth for level in (*request.levels, request.order_by)
            if level is not None and level.kind == "tree"})
        by_host = [[[self.parts(depth, *place) for depth in depths] for place in group]
                   for _, group in itertools.groupby(places, key=lambda place: place[1])]
        return all(map(_is_together, sequences)) and all(
            parts == sorted(parts) for parts in by_host)

    def parts(self, depth, taken, anchor):
        """Return the parts of its host that a member uses, by the numbers in their names."""
        lines = [self.judge.by_uuid[uuid].line for uuid, _ in taken]
        return sorted({
            int(self.rows[line[::-1][depth]].name.rpartition("-")[2])
            for line in lines if line[-1] == anchor and len(line) > depth})

    def cost(self, places):
        """Return what is to be low: the domains used, or the members in the fullest."""
        if self.request.divided_by is None:
            return 0
        domains = Counter(self.domain(self.request.divided_by, *place) for place in places)
        if self.request.pack_by is not None:
            return len(domains)
        return max(domains.values(), default=0)

    def best(self):
        """Return how many members fit at most, and the lowest cost of so many."""
        choices = self.choices()
        most = max(map(len, choices))
        return most, min(self.cost([self.places[at] for at in chosen])
                         for chosen in choices if len(chosen) == most)


def _is_together(values):
    """Say whether equal values follow each other."""
    distinct = [value for value, _ in itertools.groupby(values)]
    return len(distinct) == len(set(distinct))
