"""Backtracking over the parts of a request, within one tree.

It cuts a branch as soon as no rest can complete it, and remembers branches that came to
nothing by what they had taken, where providers that are alike for the plan count as one: so
a request that cannot be met ends soon even among many devices.
Source: spec placement_api §4.3.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placement_core.placement.candidates import matching, search_budget
from placement_core.placement.candidates.subtrees import Subtree, Top

if TYPE_CHECKING:
    from placement_core.placement.candidates.combine import AnchorTree, Combination

#: So many branches may come to nothing before they are remembered.
_DEAD_ENDS_UNTIL_REMEMBERED = 32
#: So many nodes may come to nothing in a tree, and after each combination, before the budget of
#: the request is charged.
ALLOWANCE = 32
#: A node in which more rows are looked at counts as several: it takes their time.
_ROWS_PER_NODE = 16


class Search:
    """Backtracking over the parts, one independent group after the other.

    Within a group the top of each same_subtree comes first, because it decides
    where the others may lie; then parts with the fewest options that are left,
    after those that have to bring traits together. Whether each group can be
    satisfied is found out before: then a choice in one is never the reason for
    a dead end in another.

    A level is a position in that order. What a list holds for each level is
    how things stand when the level is entered.
    """

    def __init__(self, tree: AnchorTree, *, distinct: bool) -> None:
        self.tree = tree
        self.plan = plan = tree.plan
        self.distinct = distinct
        self.options = list(tree.options)
        self.foreign = plan.snapshot.sharing_providers() if tree.own else {}
        self.node_cost = 1 + len(set().union(*self.options)) // _ROWS_PER_NODE
        # Nobody finds the first combination with fewer; an independent group is tried before.
        levels = len(self.options) + len(plan.subtrees)
        self.credit = ALLOWANCE + 2 * levels * self.node_cost
        self.dead_ends = 0
        self.dead: set[Hashable] = set()
        self._contested_by_level: dict[int, dict[int, tuple[bool, list[int]]]] = {}
        self._needs_by_level: dict[int, list[tuple[int, list[tuple[int, int]]]]] = {}
        self._row_kinds_by_level: dict[int, dict[int, int]] = {}
        self._state_numbers: dict[Hashable, int] = {}

    def run(self) -> Iterator[Combination]:
        """Find all combinations."""
        try:
            if self._prepare() and self._is_feasible():
                for _ in self._walk(0, self.end, 0, not self.tree.own):
                    yield tuple(self.chosen)
        except search_budget.BudgetExhausted:
            self.plan.budget.abandoned_trees += 1

    # Before the search

    def _prepare(self) -> bool:
        """Look at what there is to choose from; say whether there is anything."""
        plan = self.plan
        self.subtrees: list[Subtree] = []
        self.member: list[list[int]] = [[] for _ in self.options]
        for at, numbers in enumerate(plan.subtrees):
            subtree = Subtree(plan, self.options, numbers)
            self.subtrees.append(subtree)
            for number in numbers:
                self.member[number].append(at)
                self.options[number] = [
                    row for row in self.options[number] if row in subtree.masks]
        for subtree in self.subtrees:
            subtree.narrow(self.options)
        if not all(self.options):
            return False
        #: A part's number at each level, or the complement of a same_subtree's.
        self.order = sorted(
            [*range(len(self.options)), *(~at for at in range(len(self.subtrees)))],
            key=self._get_rank)
        self._find_independent_groups()
        self.coverage = {
            row: plan.coverage(plan.snapshot.entry(row))
            for number, rows in enumerate(self.options) if not plan.parts[number].granular
            for row in rows} if plan.required else {}
        self.full = (1 << len(plan.required)) - 1
        self.end = len(self.order)
        self.chosen = [-1] * len(self.options)
        self.taken = [-1] * self.end
        self.tries: list[Iterator[Any]] = [iter(()) for _ in self.order]
        self.states: list[Hashable | None] = [None] * self.end
        self.covered = [0] * (self.end + 1)
        self.own = [False] * (self.end + 1)
        #: For each same_subtree its top and the first part that this serves.
        self.tops: list[list[Top | None]] = [[]] * (self.end + 1)
        self.limits = [self._find_limits(number) for number in range(len(self.options))]
        #: What the tops that are chosen leave of the options.
        self.narrowed = list(self.options)
        self.coverage_from = [0] * (self.end + 1)
        self.own_from = [False] * (self.end + 1)
        self._reset_usage()
        self._look_ahead(0, self.end)
        return True

    def _get_rank(self, step: int) -> tuple[int, int, int, int]:
        """Return what decides when a part or a same_subtree is dealt with."""
        if step < 0:
            return self._get_independent_group(step), 0, len(self.subtrees[~step].rows), ~step
        return self._get_independent_group(step), *self._rank_part(step, self.options)

    def _rank_part(self, number: int, options: list[list[int]]) -> tuple[int, int, int]:
        late = bool(self.plan.required) and self.plan.parts[number].granular
        return 2 if late else 1, len(options[number]), number

    def _find_independent_groups(self) -> None:
        """Find where the independent group of each level begins, its parts begin, and it ends."""
        self.independent_groups: list[tuple[int, int]] = []
        self.group_begin: list[int] = []
        self.parts_begin: list[int] = []
        self.group_end: list[int] = []
        for _, steps in itertools.groupby(self.order, self._get_independent_group):
            group = list(steps)
            begin = len(self.group_end)
            tops = sum(step < 0 for step in group)
            self.independent_groups.append((begin, begin + len(group)))
            self.group_begin += [begin] * len(group)
            self.parts_begin += [begin + tops] * len(group)
            self.group_end += [begin + len(group)] * len(group)

    def _get_independent_group(self, step: int) -> int:
        return self.plan.independent_groups[step if step >= 0 else self.plan.subtrees[~step][0]]

    def _reset_usage(self) -> None:
        #: How many parts chose each row.
        self.uses: dict[int, int] = defaultdict(int)
        self.granular: set[int] = set()
        self.sums: dict[tuple[int, int], int] = defaultdict(int)
        self.tree_used: dict[int, list[int]] = defaultdict(list)

    def _find_limits(self, number: int) -> dict[int, list[tuple[tuple[int, int], int, int]]]:
        """Return the contested classes that not all fit on a row at once.

        :returns: {row: [((row, class), amount, room), …]}.
        """
        plan = self.plan
        limits: dict[int, list[tuple[tuple[int, int], int, int]]] = {}
        for class_id, amount in plan.contested[number]:
            for row in self.options[number]:
                room = plan.useful_room(row, class_id)
                if room < plan.demand[class_id]:
                    limits.setdefault(row, []).append(((row, class_id), amount, room))
        return limits

    def _look_ahead(self, begin: int, end: int) -> None:
        """Prepare what the levels from each one on can still bring."""
        for level in range(end - 1, begin - 1, -1):
            number = self.order[level]
            bits = self.coverage_from[level + 1]
            own = self.own_from[level + 1]
            if number >= 0:
                rows = self.narrowed[number]
                if self.full and not self.plan.parts[number].granular:
                    for row in rows:
                        bits |= self.coverage[row]
                own = bool(self.foreign) and (
                    own or any(row not in self.foreign for row in rows))
            self.coverage_from[level] = bits
            self.own_from[level] = own

    def _is_feasible(self) -> bool:
        """Say whether there can be a combination, as far as is easily seen."""
        plan = self.plan
        if plan.isolate and not matching.can_have_one_each(plan, [
                rows for number, rows in enumerate(self.options)
                if plan.parts[number].granular]):
            return False
        for class_id, amount in plan.demand.items():
            rows = {row for number, rows in enumerate(self.options)
                    if class_id in plan.parts[number].resources for row in rows}
            if not matching.have_room(plan, class_id, amount, rows):
                return False
        # The first needs no try: the search begins with it.
        return all(self._has_answer(begin, end)
                   for begin, end in self.independent_groups[1:] if end - begin > 1)

    def _has_answer(self, begin: int, end: int) -> bool:
        """Say whether the parts of these levels can be satisfied by themselves."""
        together = any(not self.plan.parts[number].granular
                       for number in self.order[begin:end] if number >= 0)
        found = any(True for _ in self._walk(begin, end, 0 if together else self.full, True))
        self._reset_usage()
        return found

    # The search

    def _walk(self, begin: int, end: int, covered: int, own: bool) -> Iterator[None]:
        """Choose rows for the levels from ``begin`` to ``end``; pause when that is done.

        :param covered: which required conditions are met, as bits.
        :param own: whether a provider that shares nothing was chosen, or need
            not be.
        """
        self.covered[begin] = covered
        self.own[begin] = own
        self.tops[begin] = [None] * len(self.subtrees)
        found = 0
        #: How many were found before each level was entered.
        before = [0] * end
        level = begin
        self._enter_level(level)
        while True:
            row = self._find_next_row(level)
            if row is None:
                if found == before[level]:
                    self.dead_ends += 1
                    if self.states[level] is not None:
                        self.dead.add(self.states[level])
                level -= 1
                if level < begin:
                    return
                self._undo_choice(level)
                continue
            self._choose_row(level, row)
            if level + 1 < end:
                level += 1
                before[level] = found
                self._enter_level(level)
            else:
                found += 1
                self.credit = ALLOWANCE
                yield
                self._undo_choice(level)

    def _enter_level(self, level: int) -> None:
        """Prepare what there is to try at a level.

        :raises search_budget.BudgetExhausted: too much came to nothing.
        """
        after_top = level > 0 and self.order[level - 1] < 0
        if after_top and level == self.parts_begin[level] and not self._narrow_to_tops(level):
            self.states[level] = None
            self.tries[level] = iter(())
            self._charge_node()
            return
        number = self.order[level]
        rows = self.narrowed[number] if number >= 0 else self.subtrees[~number].rows
        self.plan.budget.steps += len(rows) + 1
        self._charge_node()
        self.states[level] = None
        many = self.dead_ends > _DEAD_ENDS_UNTIL_REMEMBERED
        if many:
            self.states[level] = self._describe_state(level)
        # What is left below a top that was just chosen is worth a look always.
        if (many and self.states[level] in self.dead) or (
                (many or after_top) and not self._may_succeed(level)):
            self.tries[level] = iter(())
            return
        tries = self._skip_equal_rows(rows) if self.distinct else iter(rows)
        self.tries[level] = tries if number >= 0 else self.subtrees[~number].list_choices(tries)

    def _charge_node(self) -> None:
        """Count a node.

        :raises search_budget.BudgetExhausted: too many came to nothing.
        """
        self.credit -= self.node_cost
        if self.credit < 0:
            self.credit = self.plan.budget.draw()

    def _narrow_to_tops(self, level: int) -> bool:
        """Narrow the options of a group to what its tops leave, and order its parts anew.

        :returns: False where nothing is left for a part.
        """
        end = self.group_end[level]
        numbers = self.order[level:end]
        for number in numbers:
            self.narrowed[number] = self._list_rows_below_tops(level, number)
            if not self.narrowed[number]:
                return False
        self.order[level:end] = sorted(
            numbers, key=lambda number: self._rank_part(number, self.narrowed))
        self._look_ahead(level, end)
        self._row_kinds_by_level.pop(level, None)
        for each in range(level, end):
            self._contested_by_level.pop(each, None)
            self._needs_by_level.pop(each, None)
        return True

    def _find_next_row(self, level: int) -> int | None:
        """Return the next row that may be chosen at a level."""
        number = self.order[level]
        if number < 0:
            self.tops[level + 1] = list(self.tops[level])
            top = self.tops[level + 1][~number] = next(self.tries[level], None)
            return None if top is None else top[0]
        granular = self.plan.parts[number].granular
        limits = self.limits[number]
        row: int
        for row in self.tries[level]:
            if granular and row in self.granular:
                continue
            if row in limits and any(
                    self.sums.get(key, 0) + amount > room for key, amount, room in limits[row]):
                continue
            if self.plan.has_strict_rules and not self._passes_strict_rules(level, number, row):
                continue
            if self.foreign and not (
                    self.own[level] or row not in self.foreign or self.own_from[level + 1]):
                continue
            return row
        return None

    def _passes_strict_rules(self, level: int, number: int, row: int) -> bool:
        """Judge a choice by the rules that few requests have."""
        plan = self.plan
        if self.full:
            bits = self.covered[level] | self.coverage_from[level + 1]
            if not plan.parts[number].granular:
                bits |= self.coverage[row]
            if bits != self.full:
                return False
        if plan.one_per_tree and plan.parts[number].resources:
            used = self.tree_used.get(int(plan.snapshot.layout.root[row]))
            if used and used[0] != row:
                return False
        return True

    def _skip_equal_rows(self, rows: list[int]) -> Iterator[int]:
        """Return the rows, of unused equals only the first."""
        if len(rows) == 1:
            yield rows[0]
            return
        classes = self.tree.exchange_classes()
        seen: set[Hashable] = set()
        for row in rows:
            if not self.uses.get(row):
                if classes[row] in seen:
                    continue
                seen.add(classes[row])
            yield row

    def _choose_row(self, level: int, row: int) -> None:
        """Choose ``row`` at a level."""
        plan = self.plan
        number = self.order[level]
        self.taken[level] = row
        self.uses[row] += 1
        if number < 0:
            self.covered[level + 1] = self.covered[level]
            self.own[level + 1] = self.own[level]
            return
        self.chosen[number] = row
        if plan.isolate and plan.parts[number].granular:
            self.granular.add(row)
        for key, amount, _ in self.limits[number].get(row, ()):
            self.sums[key] += amount
        self.own[level + 1] = self.own[level] or row not in self.foreign
        if not plan.has_strict_rules:
            return
        self.covered[level + 1] = self.covered[level]
        if self.full and not plan.parts[number].granular:
            self.covered[level + 1] |= self.coverage[row]
        if plan.one_per_tree and plan.parts[number].resources:
            self.tree_used[int(plan.snapshot.layout.root[row])].append(row)
        self.tops[level + 1] = self.tops[level]

    def _undo_choice(self, level: int) -> None:
        """Undo the choice at a level."""
        plan = self.plan
        number = self.order[level]
        row = self.taken[level]
        self.uses[row] -= 1
        if number < 0:
            return
        if plan.isolate and plan.parts[number].granular:
            self.granular.discard(row)
        for key, amount, _ in self.limits[number].get(row, ()):
            self.sums[key] -= amount
        if plan.one_per_tree and plan.parts[number].resources:
            self.tree_used[int(plan.snapshot.layout.root[row])].pop()

    # After some dead ends

    def _may_succeed(self, level: int) -> bool:
        """Say whether the group can be completed from a level on, as far as is easily seen."""
        plan = self.plan
        settled = level >= self.parts_begin[level]
        needs = self._needs_by_level.get(level) if settled else None
        left: dict[int, list[int]] = {}
        if needs is None or plan.isolate:
            left = {number: self.narrowed[number] if settled
                    else self._list_rows_below_tops(level, number)
                    for number in self.order[level:self.group_end[level]] if number >= 0}
            if not all(left.values()):
                return False
        if plan.isolate and not matching.can_have_one_each(plan, [
                [row for row in rows if row not in self.granular]
                for number, rows in left.items() if plan.parts[number].granular]):
            return False
        if needs is None:
            needs = self._add_up_needs(left)
            if settled:
                self._needs_by_level[level] = needs
        taken = self.sums
        for need, keys in needs:
            plan.budget.steps += len(keys)
            for key in keys:
                if key in taken:
                    need += taken[key]
            if need > 0:
                return False
        return True

    def _add_up_needs(
        self, left: Mapping[int, Sequence[int]]
    ) -> list[tuple[int, list[tuple[int, int]]]]:
        """Return what parts need beyond the room of their rows, and what else takes some of it.

        :param left: {part: rows it may choose}.
        :returns: for each contested class the need, negative while there is more room, and the
            keys of ``sums``.
        """
        needs: dict[int, int] = defaultdict(int)
        rows: dict[int, set[int]] = defaultdict(set)
        for number, options in left.items():
            for class_id, amount in self.plan.contested[number]:
                needs[class_id] += amount
                rows[class_id].update(options)
        return [
            (need - sum(self.plan.useful_room(row, class_id) for row in rows[class_id]),
             [(row, class_id) for row in rows[class_id]])
            for class_id, need in needs.items()]

    def _list_rows_below_tops(self, level: int, number: int) -> list[int]:
        """Return the options of a part that the tops chosen before a level leave."""
        rows = self.options[number]
        for at in self.member[number]:
            top = self.tops[level][at]
            if top is not None:
                subtree = self.subtrees[at]
                below = subtree.below[number].get(top[0], ())
                rows = [row for row in (below if rows is self.options[number] else rows)
                        if row in subtree.masks and subtree.allows(top, number, row)]
                self.plan.budget.steps += len(below)
        return rows

    def _describe_state(self, level: int) -> Hashable:
        """Return all that decides whether the rest of the group can be completed."""
        begin = self.parts_begin[level]
        tops = tuple([self.tops[level][~step]
                      for step in self.order[self.group_begin[level]:min(begin, level)]])
        rows = []
        if level >= begin:
            kinds = self._number_row_kinds(level)
            used = {row for using in self.tree_used.values() for row in using}
            for row, (isolated, classes) in self._find_contested(level).items():
                if self.uses.get(row):
                    taken = tuple([(class_id, self.sums[row, class_id]) for class_id in classes
                                   if self.sums.get((row, class_id))])
                    alone = isolated and row in self.granular
                    if taken or alone or row in used:
                        # A number takes far less room than what it stands for.
                        mark = (kinds[row], alone, row in used, taken)
                        rows.append(self._state_numbers.setdefault(mark, len(self._state_numbers)))
            rows.sort()
        trees = frozenset([root for root, using in self.tree_used.items() if using])
        return level, self.covered[level], self.own[level], tops, trees, tuple(rows)

    def _find_contested(self, level: int) -> dict[int, tuple[bool, list[int]]]:
        """Return what the parts from a level on may compete for.

        :returns: {row: (whether it must be nobody's yet, contested classes)}.
        """
        known = self._contested_by_level.get(level)
        if known is None:
            plan = self.plan
            isolated: dict[int, bool] = defaultdict(bool)
            classes: dict[int, set[int]] = defaultdict(set)
            for number in self.order[level:self.group_end[level]]:
                for row in self.narrowed[number]:
                    isolated[row] |= plan.isolate and plan.parts[number].granular
                    classes[row].update(
                        class_id for (_, class_id), _, _ in self.limits[number].get(row, ()))
            known = {row: (isolated[row], sorted(classes[row])) for row in isolated}
            self._contested_by_level[level] = known
        return known

    def _number_row_kinds(self, level: int) -> dict[int, int]:
        """Number the rows of a group by what they can still do; equals have one number."""
        begin = self.parts_begin[level]
        kinds = self._row_kinds_by_level.get(begin)
        if kinds is None:
            plan = self.plan
            numbers: dict[Hashable, int] = {}
            kinds = self._row_kinds_by_level[begin] = {}
            parts = group_parts_by_row({
                number: self.narrowed[number]
                for number in sorted(self.order[begin:self.group_end[level]])})
            for row, usable in parts.items():
                room = tuple(sorted({
                    (class_id, min(plan.useful_room(row, class_id), plan.demand[class_id]))
                    for number in usable for class_id, _ in plan.contested[number]}))
                kind = (tuple(usable), room, self.coverage.get(row, 0), row in self.foreign,
                        int(plan.snapshot.layout.root[row]) if plan.one_per_tree else -1)
                kinds[row] = numbers.setdefault(kind, len(numbers))
        return kinds


def group_parts_by_row(options: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return which parts each row is an option of."""
    parts: dict[int, list[int]] = defaultdict(list)
    for number, rows in options.items():
        for row in rows:
            parts[row].append(number)
    return parts
