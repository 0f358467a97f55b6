"""Quota of all projects at once: each source is asked one question, however many they are.

What binds a project does not change until limits or the catalog do; so it is cached as
arrays, to which an overview adds the usage that was counted.
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
from placement_core.quota import limit_sources
from placement_core.quota.decisions import Decisions
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.queries import QuotaQueries
from placement_core.quota.records import Source

NO_LIMIT = amounts.to_wire(amounts.UNLIMITED)


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceColumn:
    """One resource of the projects of an overview, in their order (see ``usage.ResourceQuota``).

    :ivar limits: as the APIs spell them, ``NO_LIMIT`` included.
    :ivar used: None: nothing counts this resource.
    :ivar free: spelt likewise; None likewise.
    :ivar held_by: the node whose limit leaves no more than that; None: none binds the
        project.
    """

    limits: Sequence[int]
    sources: Sequence[Source]
    used: Sequence[int] | None
    free: Sequence[int] | None
    held_by: Sequence[str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Overview:
    """Quota of many projects.

    :ivar project_ids: sorted.
    :ivar names: of the projects that the catalog knows.
    :ivar resources: {resource name: its column}, every registered one.
    :ivar count: how usage was counted; None: there is nothing to count.
    """

    project_ids: Sequence[str]
    names: Mapping[str, str]
    resources: Mapping[str, ResourceColumn]
    count: Count | None


class Overviews:
    """Makes overviews; for any number of threads."""

    def __init__(self, queries: QuotaQueries) -> None:
        self._queries = queries
        self._cached: tuple[int, _Forest] | None = None

    def make(self, ctx: Context, visible: Collection[str] | None = None) -> Overview:
        """Return the quota of all projects: the catalog's, and those that use something.

        Missing cells are named in the count, and do not stop the answer.

        :param visible: only of these; counted is what they use, and what counts against
            the limits above them. None: of all.
        :raises errors.Unavailable: limits, catalog or usage are not known now.
        """
        queries = self._queries
        revision = queries.decisions.present(ctx).revision
        forest = self._get_cached(revision) or _Forest.read(ctx, queries)
        names = list(filter(queries.countable, forest.limits.defaults))
        count = None
        if names and visible is None:
            count = queries.counting.count_all(ctx, units=queries.units(names))
            forest = forest.with_strangers(queries.decisions, count.projects.keys())
        if queries.decisions.cacheable:
            self._cached = revision, forest
        if names and visible is not None:
            count = queries.counting.count(
                ctx, forest.list_counted(visible, names), units=queries.units(names))
            forest = forest.with_more_strangers(queries.decisions, [
                project_id for project_id, used in count.projects.items() if any(used.values())])
        rows = forest.rows_of(visible)
        usage = {} if count is None else forest.sum_usage(count, queries.units(names))
        return Overview([forest.project_ids[row] for row in rows], forest.names, {
            name: forest.columns[name].with_usage([
                usage[unit] for unit in queries.units([name])] if name in names else None, rows)
            for name in sorted(forest.columns)}, count)

    def _get_cached(self, revision: int) -> _Forest | None:
        cached = self._cached
        return cached[1] if cached is not None and cached[0] == revision else None


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
        lineages = _find_lineages(nodes)
        trees = lineages if decisions.model.hierarchical else {}
        of_projects = [trees.get(each) or (Node(each, None),) for each in self.project_ids]
        self._levels = list(self._by_level(lineages.values()))
        self._rows = np.array(
            [self._place[project_id] for project_id in self.project_ids], dtype=np.intp)
        self.columns = {
            name: _ResourceLimits(decisions, of_projects, limits, name, self._place, self._rows)
            for name in limits.defaults}

    @classmethod
    def read(cls, ctx: Context, queries: QuotaQueries) -> _Forest:
        """Ask the catalog and the limits."""
        projects = queries.catalog.projects(ctx)
        nodes = _nodes(ctx, queries.catalog)
        nodes |= {each.id: Node(each.id, each.parent_id) for each in projects}
        key = queries.service_key(ctx)
        return cls(
            queries.decisions, nodes, {each.id: each.name for each in projects},
            _limits(ctx, queries, nodes, key), ())

    def with_strangers(self, decisions: Decisions, project_ids: Iterable[str]) -> _Forest:
        """Return the same with exactly these projects that the catalog does not know.

        :param project_ids: of those that use something.
        """
        strangers = {project_id for project_id in project_ids if project_id not in self._nodes}
        if strangers == self._strangers:
            return self
        return _Forest(decisions, self._nodes, self.names, self.limits, strangers)

    def with_more_strangers(
        self, decisions: Decisions, project_ids: Iterable[str]
    ) -> _Forest:
        """Return the same with these, too, as far as the catalog does not know them."""
        return self.with_strangers(decisions, {*self._strangers, *project_ids})

    def rows_of(self, visible: Collection[str] | None) -> np.ndarray:
        """Return the rows of projects, in their order; None: of all."""
        return np.array([
            row for row, project_id in enumerate(self.project_ids)
            if visible is None or project_id in visible], dtype=np.intp)

    def list_counted(self, visible: Collection[str], names: Iterable[str]) -> list[str]:
        """Return the projects whose usage is in what some of them see, sorted."""
        rows = self.rows_of(visible)
        subtrees = np.zeros(len(self._place), dtype=bool)
        alone = np.zeros(len(self._place), dtype=bool)
        alone[self._rows[rows]] = True
        for name in names:
            nodes, subtree = self.columns[name].bounding(rows)
            alone[nodes[~subtree]] = True
            subtrees[nodes[subtree]] = True
        # From the top: what is below a node that counts as a whole counts, too.
        for children, parents in reversed(self._levels):
            subtrees[children] |= subtrees[parents]
        unknown = {project_id for project_id in visible if project_id not in self._place}
        return sorted({*unknown, *(
            node_id for node_id, counts in zip(self._place, alone | subtrees, strict=True)
            if counts)})

    def sum_usage(
        self, count: Count, units: Iterable[str]
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return what each node uses itself, and with all that is below it, by unit."""
        places_used = [
            (self._place[project_id], used) for project_id, used in count.projects.items()
            if project_id in self._place]
        places = np.array([place for place, _ in places_used], dtype=np.intp)
        usage = {}
        for unit in units:
            own = np.zeros(len(self._place), dtype=np.int64)
            own[places] = [used.get(unit, 0) for _, used in places_used]
            total = own.copy()
            for children, parents in self._levels:
                np.add.at(total, parents, total[children])
            usage[unit] = own, total
        return usage

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


class _ResourceLimits:
    """What binds each project by one resource."""

    def __init__(
        self, decisions: Decisions, lineages: Sequence[Sequence[Node]],
        limits: EffectiveLimits, name: str, place: Mapping[str, int], rows: np.ndarray,
    ) -> None:
        default = limits.defaults[name]
        overrides = [limits.overrides.get(lineage[-1].id, {}) for lineage in lineages]
        self._limits = [amounts.to_wire(found.get(name, default)) for found in overrides]
        self._sources: list[Source] = [
            "set" if name in found else "default" for found in overrides]
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

    def bounding(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes that bind some projects, and whether by their whole subtree."""
        binds = np.isin(self._bound[self._owners], rows)
        return self._nodes[binds], self._subtree[binds]

    def with_usage(
        self, usage: Sequence[tuple[np.ndarray, np.ndarray]] | None, rows: np.ndarray
    ) -> ResourceColumn:
        """Return some rows of the column, with what is used of its units.

        :param usage: None: nobody counts them.
        """
        limits = [self._limits[row] for row in rows]
        sources = [self._sources[row] for row in rows]
        if usage is None:
            return ResourceColumn(limits, sources, None, None, [None] * len(rows))
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
        return ResourceColumn(limits, sources, own[self._rows[rows]].tolist(), free[rows].tolist(),
                      holders[rows].tolist())


def _nodes(ctx: Context, catalog: CatalogDriver) -> dict[str, Node]:
    return {domain.id: Node(domain.id, None, is_domain=True) for domain in catalog.domains(ctx)}


def _limits(
    ctx: Context, queries: QuotaQueries, nodes: Mapping[str, Node], key: ServiceKey | None
) -> EffectiveLimits:
    if key is None:
        return EffectiveLimits({}, {})
    return limit_sources.effective_of_many(ctx, queries.limits, key, nodes)


def _find_lineages(nodes: Mapping[str, Node]) -> dict[str, tuple[Node, ...]]:
    """Return each node and what is above it, the root first; loops are cut."""
    lineages: dict[str, tuple[Node, ...]] = {}
    for node in nodes.values():
        path: list[Node] = []
        ancestor: Node | None = node
        while ancestor is not None and ancestor.id not in lineages and ancestor not in path:
            path.append(ancestor)
            ancestor = nodes.get(ancestor.parent_id) if ancestor.parent_id is not None else None
        lineage = lineages.get(ancestor.id, ()) if ancestor is not None else ()
        for path_node in reversed(path):
            lineage = (*lineage, path_node)
            lineages[path_node.id] = lineage
    return lineages
