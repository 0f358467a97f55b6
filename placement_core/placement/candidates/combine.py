"""The combinations of one tree: one provider for each part, under the plan's rules.

A backtracking search. It cuts a branch as soon as no rest can complete it, and
remembers branches that came to nothing by what they had taken, where providers
that are alike for the plan count as one: so a request that cannot be met ends
soon even among many devices. The highest provider of each same_subtree is
chosen before the parts, because it decides where they may lie.
Source: spec placement_api §4.3.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator

from placement_core.placement.candidates.plans import Plan

#: So many branches may come to nothing before they are remembered.
_FORGETFUL = 32

Combination = tuple[int, ...]


class Tree:
    """The choices that one anchor offers.

    :ivar options: for each part the rows to choose from.
    :ivar own: at least one provider has to be one that shares nothing. (The
        combinations of sharing providers alone are another tree's to give.)
    """

    __slots__ = ("_looks", "options", "own", "plan")

    def __init__(self, plan: Plan, options: list[list[int]], *, own: bool = False) -> None:
        self.plan = plan
        self.options = options
        self.own = own
        self._looks: dict[int, Hashable] | None = None

    def combinations(self, *, distinct: bool = False) -> Iterator[Combination]:
        """Find all combinations, each a row for each part.

        :param distinct: leave out those that become another one when
            providers that look the same are exchanged.
        """
        if self.plan.has_rules or self.own:
            return self._search(distinct)
        if not distinct:
            return itertools.product(*self.options)
        return self._first_and_rest()

    def symmetric(self) -> bool:
        """Say whether some providers look the same."""
        looks = self.looks()
        return len(set(looks.values())) < len(looks)

    def looks(self) -> dict[int, Hashable]:
        """Return what each row is to the request: equals can be exchanged."""
        if self._looks is None:
            self._looks = self._look()
        return self._looks

    def _search(self, distinct: bool) -> Iterator[Combination]:
        for options, tops in self._choose_tops(self.options, (), distinct):
            yield from _Search(self, options, tops, distinct).run()

    def _first_and_rest(self) -> Iterator[Combination]:
        """Find what is distinct; the first costs nothing, often it is enough."""
        yield tuple(rows[0] for rows in self.options)
        yield from itertools.islice(self._search(True), 1, None)

    def _look(self) -> dict[int, Hashable]:
        plan, world = self.plan, self.plan.world
        parts = _parts_by_row(self.options)
        if len(parts) == 1:
            return dict.fromkeys(parts)
        above: set[int] = set()
        if plan.subtrees:
            for row in parts:
                above.update(world.layout.ancestors(row)[1:])
        sharing = world.sharing()
        looks: dict[int, Hashable] = {}
        for row, numbers in parts.items():
            # Where subtrees matter, only children of one parent can be
            # exchanged, and only when nothing to choose hangs below them.
            place = None
            if plan.subtrees:
                place = row if row in above else -1 - world.layout.parents.get(row, row)
            looks[row] = (
                tuple(numbers), place, int(world.layout.root[row]), row in sharing,
                plan.look(world.entry(row)))
        return looks

    def _choose_tops(
        self, options: list[list[int]], tops: tuple[int, ...], distinct: bool
    ) -> Iterator[tuple[list[list[int]], tuple[int, ...]]]:
        """Choose which provider is the highest of each same_subtree.

        :returns: (options that are left, the highest of each), …
        """
        plan = self.plan
        if len(tops) == len(plan.subtrees):
            yield options, tops
            return
        numbers = plan.subtrees[len(tops)]
        lines = {row: plan.world.layout.ancestors(row)
                 for number in numbers for row in options[number]}
        news = _News(self)
        for top in sorted(lines):
            # The highest is above one provider of every part.
            if any(all(top not in lines[row] for row in options[number]) for number in numbers):
                continue
            if distinct and top not in tops and not news.is_new(top):
                continue
            narrowed = list(options)
            for number in numbers:
                narrowed[number] = [row for row in options[number] if top in lines[row]]
            yield from self._choose_tops(narrowed, (*tops, top), distinct)


class _News:
    """Tells whether a row looks like one that came before.

    The first always is new: rows are not looked at before a second one comes,
    because most trees are left after their first combination.
    """

    __slots__ = ("_first", "_seen", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._first: int | None = None
        self._seen: set[Hashable] = set()

    def is_new(self, row: int) -> bool:
        """Say whether no row that looks like this one was asked about."""
        if self._first is None:
            self._first = row
            return True
        looks = self._tree.looks()
        self._seen.add(looks[self._first])
        if looks[row] in self._seen:
            return False
        self._seen.add(looks[row])
        return True


class _Search:
    """Backtracking over the parts, one bond after the other.

    Within a bond those with the fewest options come first, after those that
    have to bring traits together. Whether each bond can be satisfied is found
    out before: then a choice in one is never the reason for a dead end in
    another.
    """

    def __init__(
        self, tree: Tree, options: list[list[int]], tops: tuple[int, ...], distinct: bool
    ) -> None:
        self.tree = tree
        self.plan = plan = tree.plan
        self.options = options = _with_tops_given(plan, options, tops)
        self.tops = tops
        self.distinct = distinct
        self.order = sorted(
            range(len(options)), key=lambda number: (
                plan.bonds[number], bool(plan.required) and plan.parts[number].granular,
                len(options[number])))
        self.end = len(options)
        self._start_over()
        self.foreign = plan.world.sharing() if tree.own else {}
        self.coverage = {
            row: plan.coverage(plan.world.entry(row))
            for number, rows in enumerate(options) if not plan.parts[number].granular
            for row in rows} if plan.required else {}
        self.full = (1 << len(plan.required)) - 1
        self.dead_ends = 0
        self.dead: set[Hashable] = set()
        self._kinds: dict[int, int] | None = None
        self._cares: dict[int, dict[int, tuple[bool, list[int]]]] = {}
        self._look_ahead()

    def run(self) -> Iterator[Combination]:
        """Find all combinations."""
        if self._feasible():
            yield from self._descend(0, 0, not self.tree.own)

    def _start_over(self) -> None:
        self.chosen = [-1] * len(self.options)
        #: How many parts (and same_subtrees) chose each row.
        self.uses: dict[int, int] = dict.fromkeys(self.tops, 1)
        self.granular: set[int] = set()
        self.sums: dict[tuple[int, int], int] = defaultdict(int)
        self.tree_used: dict[int, int] = {}
        self.met: set[int] = set()

    def _look_ahead(self) -> None:
        """Prepare what the levels from each one on can still bring."""
        levels = len(self.order)
        self.coverage_from = [0] * (levels + 1)
        self.own_from = [False] * (levels + 1)
        if self.full or self.foreign:
            for level in range(levels - 1, -1, -1):
                number = self.order[level]
                rows = self.options[number]
                bits = self.coverage_from[level + 1]
                if self.full and not self.plan.parts[number].granular:
                    for row in rows:
                        bits |= self.coverage[row]
                self.coverage_from[level] = bits
                self.own_from[level] = self.own_from[level + 1] or any(
                    row not in self.foreign for row in rows)
        #: For the last level that can choose a same_subtree's top: which those are.
        self.last_chance: dict[int, list[int]] = defaultdict(list)
        for at, top in enumerate(self.tops):
            able = [level for level, number in enumerate(self.order)
                    if number in self.plan.subtrees[at] and top in self.options[number]]
            self.last_chance[max(able, default=-1)].append(at)

    def _feasible(self) -> bool:
        """Say whether there can be a combination, as far as is easily seen."""
        if -1 in self.last_chance or not all(self.options):
            return False
        if self.plan.isolate and not self._enough_providers():
            return False
        if not all(self._enough_room(class_id) for class_id in self.plan.demand):
            return False
        levels: dict[int, list[int]] = defaultdict(list)
        for level, number in enumerate(self.order):
            levels[self.plan.bonds[number]].append(level)
        # The first needs no try: the search begins with it.
        return all(self._has_answer(tied[0], tied[-1] + 1)
                   for tied in list(levels.values())[1:] if len(tied) > 1)

    def _has_answer(self, begin: int, end: int) -> bool:
        """Say whether the parts of these levels can be satisfied by themselves."""
        together = any(not self.plan.parts[number].granular for number in self.order[begin:end])
        self.end = end
        found = next(self._descend(begin, 0 if together else self.full, True), None)
        self.end = len(self.order)
        self._start_over()
        return found is not None

    def _enough_room(self, class_id: int) -> bool:
        """Say whether all providers together have room for all that is asked."""
        plan = self.plan
        rows = {row for number, rows in enumerate(self.options)
                if class_id in plan.parts[number].resources for row in rows}
        missing = plan.demand[class_id]
        for row in rows:
            missing -= plan.useful_room(plan.world.entry(row), class_id)
            if missing <= 0:
                return True
        return False

    def _enough_providers(self) -> bool:
        """Say whether every granular part can have a provider to itself."""
        owner: dict[int, int] = {}

        def place(number: int, seen: set[int]) -> bool:
            for row in self.options[number]:
                if row not in seen:
                    seen.add(row)
                    if row not in owner or place(owner[row], seen):
                        owner[row] = number
                        return True
            return False

        return all(place(number, set()) for number in self.order
                   if self.plan.parts[number].granular)

    def _descend(self, level: int, covered: int, own: bool) -> Iterator[Combination]:
        """Find the combinations that complete what is chosen below ``level``.

        :param covered: which required conditions are met, as bits.
        :param own: whether a provider that shares nothing was chosen, or need
            not be.
        """
        if level == self.end:
            yield tuple(self.chosen)
            return
        state = None
        if self.dead_ends > _FORGETFUL:
            state = self._state(level, covered, own)
            if state in self.dead:
                return
        number = self.order[level]
        fruitful = False
        for row in self._different(number) if self.distinct else self.options[number]:
            if not self._allowed(level, number, row):
                continue
            bits = covered
            if self.full and not self.plan.parts[number].granular:
                bits |= self.coverage[row]
            if bits | self.coverage_from[level + 1] != self.full:
                continue
            has_own = own or row not in self.foreign
            if not has_own and not self.own_from[level + 1]:
                continue
            undo = self._take(number, row)
            for combination in self._descend(level + 1, bits, has_own):
                fruitful = True
                yield combination
            self._give_back(number, row, undo)
        if not fruitful:
            self.dead_ends += 1
            if state is not None:
                self.dead.add(state)

    def _different(self, number: int) -> Iterator[int]:
        """Return the options of a part, of unused equals only the first."""
        news = _News(self.tree)
        for row in self.options[number]:
            if self.uses.get(row) or news.is_new(row):
                yield row

    def _allowed(self, level: int, number: int, row: int) -> bool:
        plan = self.plan
        part = plan.parts[number]
        if part.granular and row in self.granular:
            return False
        for class_id, amount in plan.contested[number]:
            taken = self.sums.get((row, class_id), 0)
            if taken and taken + amount > plan.room(plan.world.entry(row), class_id):
                return False
        if plan.one_per_tree and part.resources:
            root = int(plan.world.layout.root[row])
            if self.tree_used.get(root, row) != row:
                return False
        return all(self.tops[at] == row or at in self.met
                   for at in self.last_chance.get(level, ()))

    def _take(self, number: int, row: int) -> tuple[list[int], bool]:
        """Choose ``row`` for a part; return what ``_give_back`` needs."""
        plan = self.plan
        self.chosen[number] = row
        self.uses[row] = self.uses.get(row, 0) + 1
        if plan.isolate and plan.parts[number].granular:
            self.granular.add(row)
        for class_id, amount in plan.contested[number]:
            self.sums[row, class_id] += amount
        first = False
        if plan.one_per_tree and plan.parts[number].resources:
            root = int(plan.world.layout.root[row])
            first = root not in self.tree_used
            self.tree_used[root] = row
        met = [at for at, top in enumerate(self.tops)
               if top == row and at not in self.met and number in plan.subtrees[at]]
        self.met.update(met)
        return met, first

    def _give_back(self, number: int, row: int, undo: tuple[list[int], bool]) -> None:
        plan = self.plan
        met, first = undo
        self.uses[row] -= 1
        if plan.isolate and plan.parts[number].granular:
            self.granular.discard(row)
        for class_id, amount in plan.contested[number]:
            self.sums[row, class_id] -= amount
        if first:
            del self.tree_used[int(plan.world.layout.root[row])]
        self.met.difference_update(met)

    def _state(self, level: int, covered: int, own: bool) -> Hashable:
        """Return all that decides whether the rest can be completed."""
        kinds = self._row_kinds()
        rows = []
        for row, (isolated, classes) in self._what_matters(level).items():
            if self.uses.get(row):
                taken = [(class_id, self.sums[row, class_id]) for class_id in classes
                         if self.sums.get((row, class_id))]
                alone = isolated and row in self.granular
                if taken or alone:
                    rows.append((kinds[row], alone, tuple(taken)))
        trees = frozenset(self.tree_used.items()) if self.plan.one_per_tree else None
        return level, self.end, covered, own, trees, frozenset(self.met), tuple(sorted(rows))

    def _what_matters(self, level: int) -> dict[int, tuple[bool, list[int]]]:
        """Return what the parts from a level on may compete for.

        :returns: {row: (whether it must be nobody's yet, contested classes)}.
        """
        known = self._cares.get(level)
        if known is None:
            plan = self.plan
            isolated: dict[int, bool] = defaultdict(bool)
            classes: dict[int, set[int]] = defaultdict(set)
            for number in self.order[level:self.end]:
                for row in self.options[number]:
                    isolated[row] |= plan.isolate and plan.parts[number].granular
                    classes[row].update(
                        class_id for class_id, _ in plan.contested[number]
                        if self._is_scarce(row, class_id))
            known = {row: (isolated[row], sorted(classes[row])) for row in isolated}
            self._cares[level] = known
        return known

    def _is_scarce(self, row: int, class_id: int) -> bool:
        """Say whether not all that asks for a class could meet on a provider."""
        plan = self.plan
        return plan.useful_room(plan.world.entry(row), class_id) < plan.demand[class_id]

    def _row_kinds(self) -> dict[int, int]:
        """Number the rows by what they can still do; equals have one number."""
        if self._kinds is None:
            plan = self.plan
            numbers: dict[Hashable, int] = {}
            self._kinds = {}
            for row, usable in _parts_by_row(self.options).items():
                entry = plan.world.entry(row)
                room = tuple(
                    (class_id, min(plan.useful_room(entry, class_id), demand))
                    for class_id, demand in sorted(plan.demand.items())
                    if any(each.class_id == class_id for each in entry.inventories))
                top = row if row in self.tops else -1
                kind = (tuple(usable), room, self.coverage.get(row, 0), row in self.foreign, top)
                self._kinds[row] = numbers.setdefault(kind, len(numbers))
        return self._kinds


def _with_tops_given(
    plan: Plan, options: list[list[int]], tops: tuple[int, ...]
) -> list[list[int]]:
    """Return the options when a part that alone can choose a top has to."""
    options = list(options) if tops else options
    for numbers, top in zip(plan.subtrees, tops, strict=True):
        able = [number for number in numbers if top in options[number]]
        if len(able) == 1:
            options[able[0]] = [top]
    return options


def _parts_by_row(options: list[list[int]]) -> dict[int, list[int]]:
    """Return which parts each row is an option of."""
    parts: dict[int, list[int]] = defaultdict(list)
    for number, rows in enumerate(options):
        for row in rows:
            parts[row].append(number)
    return parts
