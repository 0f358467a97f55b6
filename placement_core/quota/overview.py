"""Quota of every project at once: each source is asked one question, however many there are.

What binds whom is the same until limits or the catalog change; so it is kept, as arrays,
and an answer is what was counted, laid over them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from placement_core import amounts
from placement_core.context import Context
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.counting import Count
from placement_core.plugin_api.limits import EffectiveLimits
from placement_core.quota.decisions import Decisions, ServiceKey
from placement_core.quota.enforcer import QuotaEnforcer
from placement_core.quota.records import Source

NO_LIMIT = amounts.to_wire(amounts.UNLIMITED)


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One resource of all projects, in their order (see ``usage.Share``).

    :ivar limits: as the APIs spell them, ``NO_LIMIT`` included.
    :ivar used: None: nothing counts this resource.
    :ivar free: spelt likewise; None likewise.
    :ivar held_by: whose limit leaves no more than that; None: nothing binds the project.
    """

    limits: Sequence[int]
    sources: Sequence[Source]
    used: Sequence[int] | None
    free: Sequence[int] | None
    held_by: Sequence[str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Overview:
    """Quota of all projects.

    :ivar project_ids: sorted.
    :ivar names: of the projects that the catalog knows.
    :ivar resources: {resource name: its column}, every registered one.
    :ivar count: how usage was counted; None: there is nothing to count.
    """

    project_ids: Sequence[str]
    names: Mapping[str, str]
    resources: Mapping[str, Column]
    count: Count | None


class Overviews:
    """Makes overviews. Any thread may ask."""

    def __init__(self, enforcer: QuotaEnforcer) -> None:
        self._enforcer = enforcer
        self._kept: tuple[int, _Forest] | None = None

    def make(self, ctx: Context) -> Overview:
        """Return the quota of all projects: the catalog's, and those that use something.

        Missing cells are named in the count, and do not stop the answer.

        :raises errors.Unavailable: limits, catalog or usage are not known now.
        """
        enforcer = self._enforcer
        revision = enforcer.decisions.present(ctx).revision
        forest = self._known(revision) or _Forest.read(ctx, enforcer)
        names = list(filter(enforcer.countable, forest.limits.defaults))
        count = None
        if names:
            count = enforcer.counting.count_all(ctx, units=enforcer.units(names))
            forest = forest.with_strangers(enforcer.decisions, count.projects.keys())
        if enforcer.decisions.cacheable:
            self._kept = revision, forest
        usage = {} if count is None else forest.usage(count, enforcer.units(names))
        return Overview(forest.project_ids, forest.names, {
            name: forest.columns[name].over([
                usage[unit] for unit in enforcer.units([name])] if name in names else None)
            for name in sorted(forest.columns)}, count)

    def _known(self, revision: int) -> _Forest | None:
        kept = self._kept
        return kept[1] if kept is not None and kept[0] == revision else None


class _Forest:
    """All trees of projects, and what binds each project; never changed.

    :ivar project_ids: those of the catalog, and strangers that use something; sorted.
    """

    def __init__(
        self, decisions: Decisions, nodes: Mapping[str, Node], names: Mapping[str, str],
        limits: EffectiveLimits, strangers: Collection[str],
    ) -> None:
        self.limits = limits
        self.names = names
        self.project_ids = sorted({*names, *strangers})
        self._nodes = nodes
        self._strangers = frozenset(strangers)
        ids = [*nodes, *sorted(self._strangers)]
        self._place = {node_id: place for place, node_id in enumerate(ids)}
        lineages = _lineages(nodes)
        trees = lineages if decisions.model.hierarchical else {}
        of_projects = [trees.get(each) or (Node(each, None),) for each in self.project_ids]
        self._levels = list(self._by_level(lineages.values()))
        self._rows = np.array(
            [self._place[project_id] for project_id in self.project_ids], dtype=np.intp)
        self.columns = {
            name: _Bounds(decisions, of_projects, limits, name, self._place, self._rows)
            for name in limits.defaults}

    @classmethod
    def read(cls, ctx: Context, enforcer: QuotaEnforcer) -> _Forest:
        """Ask the catalog and the limits."""
        projects = enforcer.catalog.projects(ctx)
        nodes = _nodes(ctx, enforcer.catalog)
        nodes |= {each.id: Node(each.id, each.parent_id) for each in projects}
        key = enforcer.service_key(ctx)
        return cls(
            enforcer.decisions, nodes, {each.id: each.name for each in projects},
            _limits(ctx, enforcer, nodes, key), ())

    def with_strangers(self, decisions: Decisions, project_ids: Iterable[str]) -> _Forest:
        """Return the same with exactly these projects that the catalog does not know.

        :param project_ids: of those that use something.
        """
        strangers = {each for each in project_ids if each not in self._nodes}
        if strangers == self._strangers:
            return self
        return _Forest(decisions, self._nodes, self.names, self.limits, strangers)

    def usage(
        self, count: Count, units: Iterable[str]
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return what each node uses itself, and with all that is below it, by unit."""
        places = np.array([self._place[each] for each in count.projects], dtype=np.intp)
        found = {}
        for unit in units:
            own = np.zeros(len(self._place), dtype=np.int64)
            own[places] = [used.get(unit, 0) for used in count.projects.values()]
            total = own.copy()
            for children, parents in self._levels:
                np.add.at(total, parents, total[children])
            found[unit] = own, total
        return found

    def _by_level(
        self, lineages: Iterable[Sequence[Node]]
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Yield the nodes of each level and their parents, the deepest level first."""
        levels: dict[int, list[tuple[int, int]]] = {}
        for lineage in lineages:
            if len(lineage) > 1:
                levels.setdefault(len(lineage), []).append(
                    (self._place[lineage[-1].id], self._place[lineage[-2].id]))
        for _, pairs in sorted(levels.items(), reverse=True):
            children, parents = zip(*pairs, strict=True)
            yield np.array(children, dtype=np.intp), np.array(parents, dtype=np.intp)


class _Bounds:
    """What binds each project by one resource."""

    def __init__(
        self, decisions: Decisions, lineages: Sequence[Sequence[Node]],
        limits: EffectiveLimits, name: str, place: Mapping[str, int], rows: np.ndarray,
    ) -> None:
        default = limits.defaults[name]
        set_for = [limits.overrides.get(lineage[-1].id, {}) for lineage in lineages]
        self._limits = [amounts.to_wire(found.get(name, default)) for found in set_for]
        self._sources: list[Source] = [
            "set" if name in found else "default" for found in set_for]
        found = [
            (row, place[binding.node_id], binding.scope == "subtree", int(binding.limit))
            for row, lineage in enumerate(lineages)
            for binding in decisions.bindings_of(lineage, limits, name)
            if binding.limit != amounts.UNLIMITED]
        columns: Any = zip(*found, strict=True) if found else ((), (), (), ())
        projects, nodes, subtrees, values = columns
        self._nodes = np.array(nodes, dtype=np.intp)
        self._subtree = np.array(subtrees, dtype=bool)
        self._values = np.array(values, dtype=np.int64)
        #: Which projects are bound, and where the bounds of each begin.
        self._bound, self._starts = np.unique(
            np.array(projects, dtype=np.intp), return_index=True)
        self._lengths = np.diff(np.append(self._starts, len(found)))
        self._owners = np.repeat(np.arange(len(self._bound)), self._lengths)
        self._ids = np.array(list(place), dtype=object)
        self._rows = rows

    def over(self, usage: Sequence[tuple[np.ndarray, np.ndarray]] | None) -> Column:
        """Return the column, with what is used of its units; None: nobody counts them."""
        if usage is None:
            return Column(self._limits, self._sources, None, None, [None] * len(self._rows))
        own = np.sum([of_unit for of_unit, _ in usage], axis=0)
        total = np.sum([of_unit for _, of_unit in usage], axis=0)
        free = np.full(len(self._rows), NO_LIMIT)
        holders = np.full(len(self._rows), None, dtype=object)
        if len(self._bound):
            left = self._values - np.where(
                self._subtree, total[self._nodes], own[self._nodes])
            least = np.minimum.reduceat(left, self._starts)
            tightest = np.flatnonzero(left == np.repeat(least, self._lengths))
            # Of bounds that leave the same, the nearest: the last one written.
            first = np.empty(len(self._bound), dtype=np.intp)
            first[self._owners[tightest[::-1]]] = tightest[::-1]
            free[self._bound] = np.maximum(least, 0)
            holders[self._bound] = self._ids[self._nodes[first]]
        return Column(self._limits, self._sources, own[self._rows].tolist(), free.tolist(),
                      holders.tolist())


def _nodes(ctx: Context, catalog: CatalogDriver) -> dict[str, Node]:
    return {each.id: Node(each.id, None, is_domain=True) for each in catalog.domains(ctx)}


def _limits(
    ctx: Context, enforcer: QuotaEnforcer, nodes: Mapping[str, Node], key: ServiceKey | None
) -> EffectiveLimits:
    if key is None:
        return EffectiveLimits({}, {})
    return enforcer.limits.effective_of_many(
        ctx, nodes, service_id=key.service_id, region_id=key.region_id)


def _lineages(nodes: Mapping[str, Node]) -> dict[str, tuple[Node, ...]]:
    """Return each node and what is above it, the root first; loops are cut."""
    found: dict[str, tuple[Node, ...]] = {}
    for node in nodes.values():
        way: list[Node] = []
        above: Node | None = node
        while above is not None and above.id not in found and above not in way:
            way.append(above)
            above = nodes.get(above.parent_id) if above.parent_id is not None else None
        lineage = found.get(above.id, ()) if above is not None else ()
        for each in reversed(way):
            lineage = (*lineage, each)
            found[each.id] = lineage
    return found
