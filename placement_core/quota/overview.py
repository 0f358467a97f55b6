"""Quota of all projects at once, with one query to each source, however many projects there are.

The limits that bind a project do not change until limits or the catalog do; so they are
cached as arrays, to which an overview adds the usage that was counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from placement_core import amounts
from placement_core.context import Context
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.counting import Count, MissingCell
from placement_core.plugin_api.enforcement import Scope
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

    :ivar limits: in the spelling of the APIs, with ``NO_LIMIT``.
    :ivar used: None: the resource is not counted; ``used_below``: what all projects below use,
        as far as their usage was counted.
    :ivar free: in the same spelling; None: the resource is not counted.
    :ivar held_by: the node with the tightest limit, which leaves just ``free``; None: no
        limit binds the project.
    """

    limits: Sequence[int]
    sources: Sequence[Source]
    used: Sequence[int] | None
    free: Sequence[int] | None
    held_by: Sequence[str | None]
    used_below: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DomainLimits:
    """A domain, and the limits that are set for it.

    :ivar limits: in the spelling of the APIs, by resource name.
    """

    name: str
    limits: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Overview:
    """Quota of many projects.

    :ivar project_ids: sorted.
    :ivar names: {project id: name}, for the projects in the catalog.
    :ivar resources: {resource name: its column}, for every registered resource.
    :ivar count: the count of usage; None: there is nothing to count.
    :ivar nodes: all domains and projects of the catalog, by id.
    :ivar domains: by id.
    """

    project_ids: Sequence[str]
    names: Mapping[str, str]
    resources: Mapping[str, ResourceColumn]
    count: Count | None
    nodes: Mapping[str, Node] = dataclasses.field(default_factory=dict)
    domains: Mapping[str, DomainLimits] = dataclasses.field(default_factory=dict)


class LimitUsage(NamedTuple):
    """A limit that binds projects or a user, and what counts against it.

    :ivar scope: whether only the usage of the node counts, or that of all below, too; or that of
        a user in it.
    :ivar limit: never unlimited.
    :ivar user_id: None: it is no user's.
    """

    node_id: str
    scope: Scope | Literal["user"]
    resource_name: str
    limit: int
    used: int
    user_id: str | None = None


class Overviews:
    """Makes overviews. Thread-safe."""

    def __init__(self, queries: QuotaQueries) -> None:
        self._queries = queries
        self._cached: tuple[int, _Forest] | None = None

    def make(self, ctx: Context, visible: Collection[str] | None = None) -> Overview:
        """Return the quota of all projects in the catalog, and of others that use something.

        Missing cells are listed in the count; they are no error.

        :param visible: return only these projects. Their usage is counted, and what counts
            against the limits above them. None: all projects.
        :raises errors.Unavailable: limits, catalog or usage are not known now.
        """
        queries = self._queries
        forest, names, count = self._read(ctx, count_all=visible is None)
        if names and visible is not None:
            count = queries.counting.count(
                ctx, forest.list_counted(visible, names), units=queries.units(names))
            forest = forest.add_unlisted(queries.decisions, [
                project_id for project_id, used in count.projects.items() if any(used.values())])
        rows = forest.select_rows(visible)
        usage = {} if count is None else forest.sum_usage(count, queries.units(names))
        return Overview([forest.project_ids[row] for row in rows], forest.names, {
            name: forest.columns[name].with_usage([
                usage[unit] for unit in queries.units([name])] if name in names else None, rows)
            for name in sorted(forest.columns)}, count, forest.nodes, forest.domains)

    def measure_limits(
        self, ctx: Context, project_ids: Collection[str]
    ) -> tuple[list[LimitUsage], Sequence[MissingCell]]:
        """Return all limits that bind projects, each once, and the cells that did not answer.

        Those of what nobody counts are not among them.

        :param project_ids: projects that are among them also if the catalog does not have them
            and they use nothing.
        :raises errors.Unavailable: limits, catalog or usage are not known now.
        """
        queries = self._queries
        forest, names, count = self._read(ctx, count_all=True)
        if count is None:
            return [], ()
        forest = forest.add_unlisted(queries.decisions, project_ids)
        usage = forest.sum_usage(count, queries.units(names))
        of_nodes = [limit for name in sorted(names) for limit in forest.columns[name].measure(
            name, [usage[unit] for unit in queries.units([name])])]
        of_users, missing_cells = self._measure_user_limits(ctx, names)
        return [*of_nodes, *of_users], [*count.missing_cells, *missing_cells]

    def _measure_user_limits(
        self, ctx: Context, names: Collection[str]
    ) -> tuple[list[LimitUsage], Sequence[MissingCell]]:
        queries = self._queries
        key = queries.service_key(ctx)
        set_for_users = {} if key is None else {
            owner: limits for owner, set_for in limit_sources.list_user_limits(
                ctx, queries.limits, key).items()
            if (limits := {name: int(set_for[name]) for name in sorted(set_for.keys() & set(names))
                           if set_for[name] != amounts.UNLIMITED})}
        if not set_for_users:
            return [], ()
        count = queries.counting.count_users(ctx, set_for_users.keys(), units=queries.units(
            {name for limits in set_for_users.values() for name in limits}))
        return [
            LimitUsage(project_id, "user", name, limit, sum(
                count.users.get((project_id, user_id), {}).get(unit, 0)
                for unit in queries.units([name])), user_id)
            for (project_id, user_id), limits in sorted(set_for_users.items())
            for name, limit in limits.items()], count.missing_cells

    def _read(
        self, ctx: Context, *, count_all: bool
    ) -> tuple[_Forest, list[str], Count | None]:
        """Return the trees, the names of what is counted, and perhaps what all projects use."""
        queries = self._queries
        revision = queries.decisions.read_usages(ctx).revision
        forest = self._get_cached(revision) or _Forest.read(ctx, queries)
        names = list(filter(queries.is_countable, forest.limits.defaults))
        count = None
        if names and count_all:
            count = queries.counting.count_all(ctx, units=queries.units(names))
            forest = forest.replace_unlisted(queries.decisions, count.projects.keys())
        if queries.decisions.cacheable:
            self._cached = revision, forest
        return forest, names, count

    def _get_cached(self, revision: int) -> _Forest | None:
        cached = self._cached
        return cached[1] if cached is not None and cached[0] == revision else None


class _Forest:
    """All trees of projects, and the limits that bind each project. Immutable.

    :ivar project_ids: sorted; the projects of the catalog, and *unlisted* ones, which the
        catalog does not have, and which use something or are asked for.
    """

    def __init__(
        self, decisions: Decisions, nodes: Mapping[str, Node], names: Mapping[str, str],
        domain_names: Mapping[str, str], limits: EffectiveLimits, unlisted: Collection[str],
    ) -> None:
        self.limits = limits
        self.names = names
        self.project_ids = sorted({*names, *unlisted})
        self.nodes = nodes
        self.domains = {
            id_: DomainLimits(name, {
                resource: amounts.to_wire(limit)
                for resource, limit in limits.overrides.get(id_, {}).items()})
            for id_, name in domain_names.items()}
        self._unlisted = frozenset(unlisted)
        ids = [*nodes, *sorted(self._unlisted)]
        self._indices = {node_id: index for index, node_id in enumerate(ids)}
        lineages = _find_lineages(nodes)
        trees = lineages if decisions.model.hierarchical else {}
        project_lineages = [
            trees.get(project_id) or (Node(project_id, None),) for project_id in self.project_ids]
        self._levels = list(self._iterate_levels(lineages.values()))
        self._rows = np.array(
            [self._indices[project_id] for project_id in self.project_ids], dtype=np.intp)
        self.columns = {
            name: _ResourceLimits(
                decisions, project_lineages, limits, name, self._indices, self._rows)
            for name in limits.defaults}

    @classmethod
    def read(cls, ctx: Context, queries: QuotaQueries) -> _Forest:
        """Read the catalog and the limits."""
        projects = queries.catalog.projects(ctx)
        domains = queries.catalog.domains(ctx)
        nodes = {domain.id: Node(domain.id, None, is_domain=True) for domain in domains}
        nodes |= {project.id: Node(project.id, project.parent_id) for project in projects}
        key = queries.service_key(ctx)
        return cls(
            queries.decisions, nodes, {project.id: project.name for project in projects},
            {domain.id: domain.name for domain in domains},
            _read_limits(ctx, queries, nodes, key), ())

    def replace_unlisted(self, decisions: Decisions, project_ids: Iterable[str]) -> _Forest:
        """Return the forest with exactly these unlisted projects.

        :param project_ids: projects that use something; those in the catalog are ignored.
        """
        unlisted = {project_id for project_id in project_ids if project_id not in self.nodes}
        if unlisted == self._unlisted:
            return self
        domain_names = {id_: domain.name for id_, domain in self.domains.items()}
        return _Forest(
            decisions, self.nodes, self.names, domain_names, self.limits, unlisted)

    def add_unlisted(
        self, decisions: Decisions, project_ids: Iterable[str]
    ) -> _Forest:
        """Return the forest with these unlisted projects added."""
        return self.replace_unlisted(decisions, {*self._unlisted, *project_ids})

    def select_rows(self, visible: Collection[str] | None) -> np.ndarray:
        """Return the row numbers of projects, in their order; None: of all."""
        return np.array([
            row for row, project_id in enumerate(self.project_ids)
            if visible is None or project_id in visible], dtype=np.intp)

    def list_counted(self, visible: Collection[str], names: Iterable[str]) -> list[str]:
        """Return the projects whose usage is needed for the quota of some, sorted."""
        rows = self.select_rows(visible)
        subtrees = np.zeros(len(self._indices), dtype=bool)
        alone = np.zeros(len(self._indices), dtype=bool)
        alone[self._rows[rows]] = True
        for name in names:
            nodes, subtree = self.columns[name].find_binding_nodes(rows)
            alone[nodes[~subtree]] = True
            subtrees[nodes[subtree]] = True
        # From the top down: everything below a node counts if its whole subtree does.
        for children, parents in reversed(self._levels):
            subtrees[children] |= subtrees[parents]
        unknown = {project_id for project_id in visible if project_id not in self._indices}
        return sorted({*unknown, *(
            node_id for node_id, counts in zip(self._indices, alone | subtrees, strict=True)
            if counts)})

    def sum_usage(
        self, count: Count, units: Iterable[str]
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return, by unit, the usage of each node alone and of its subtree."""
        used_by_index = [
            (self._indices[project_id], used) for project_id, used in count.projects.items()
            if project_id in self._indices]
        indices = np.array([index for index, _ in used_by_index], dtype=np.intp)
        usage = {}
        for unit in units:
            own = np.zeros(len(self._indices), dtype=np.int64)
            own[indices] = [used.get(unit, 0) for _, used in used_by_index]
            total = own.copy()
            for children, parents in self._levels:
                np.add.at(total, parents, total[children])
            usage[unit] = own, total
        return usage

    def _iterate_levels(
        self, lineages: Iterable[Sequence[Node]]
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Yield the nodes of each level and their parents, the deepest level first."""
        levels: dict[int, list[tuple[int, int]]] = {}
        for lineage in lineages:
            if len(lineage) > 1:
                levels.setdefault(len(lineage), []).append(
                    (self._indices[lineage[-1].id], self._indices[lineage[-2].id]))
        for _, pairs in sorted(levels.items(), reverse=True):
            children, parents = zip(*pairs, strict=True)
            yield np.array(children, dtype=np.intp), np.array(parents, dtype=np.intp)


class _ResourceLimits:
    """The limits on one resource that bind each project."""

    def __init__(
        self, decisions: Decisions, lineages: Sequence[Sequence[Node]],
        limits: EffectiveLimits, name: str, indices: Mapping[str, int], rows: np.ndarray,
    ) -> None:
        default = limits.defaults[name]
        overrides = [limits.overrides.get(lineage[-1].id, {}) for lineage in lineages]
        self._limits = [
            amounts.to_wire(node_limits.get(name, default)) for node_limits in overrides]
        self._sources: list[Source] = [
            "set" if name in node_limits else "default" for node_limits in overrides]
        bindings = [
            (row, indices[binding.node_id], binding.scope == "subtree", int(binding.limit))
            for row, lineage in enumerate(lineages)
            for binding in decisions.bindings_of(lineage, limits, name)
            if binding.limit != amounts.UNLIMITED]
        columns: Any = zip(*bindings, strict=True) if bindings else ((), (), (), ())
        projects, nodes, subtrees, values = columns
        self._nodes = np.array(nodes, dtype=np.intp)
        self._subtree = np.array(subtrees, dtype=bool)
        self._values = np.array(values, dtype=np.int64)
        #: The rows of the projects that are bound, and where the bindings of each begin.
        self._bound, self._starts = np.unique(
            np.array(projects, dtype=np.intp), return_index=True)
        self._lengths = np.diff(np.append(self._starts, len(bindings)))
        self._owners = np.repeat(np.arange(len(self._bound)), self._lengths)
        self._ids = np.array(list(indices), dtype=object)
        self._rows = rows

    def find_binding_nodes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes that bind some projects, and for each whether its subtree counts."""
        binds = np.isin(self._bound[self._owners], rows)
        return self._nodes[binds], self._subtree[binds]

    def measure(
        self, name: str, usage: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> list[LimitUsage]:
        """Return the limits on the resource, each once, with what counts against it.

        :param usage: (alone, subtree) for each unit.
        """
        own = np.sum([of_unit for of_unit, _ in usage], axis=0)
        total = np.sum([of_unit for _, of_unit in usage], axis=0)
        limits = np.unique(
            np.stack([self._nodes, self._subtree, self._values], axis=1), axis=0).tolist()
        return [LimitUsage(
            self._ids[node], "subtree" if subtree else "own", name, limit,
            int(total[node] if subtree else own[node])) for node, subtree, limit in limits]

    def with_usage(
        self, usage: Sequence[tuple[np.ndarray, np.ndarray]] | None, rows: np.ndarray
    ) -> ResourceColumn:
        """Return some rows of the column, with the usage of its units.

        :param usage: (alone, subtree) for each unit; None: they are not counted.
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
            # Of several bindings that leave the same, the nearest: it is written last.
            first = np.empty(len(self._bound), dtype=np.intp)
            first[self._owners[tightest[::-1]]] = tightest[::-1]
            free[self._bound] = np.maximum(least, 0)
            holders[self._bound] = self._ids[self._nodes[first]]
        return ResourceColumn(
            limits, sources, own[self._rows[rows]].tolist(), free[rows].tolist(),
            holders[rows].tolist(), (total - own)[self._rows[rows]].tolist())


def _read_limits(
    ctx: Context, queries: QuotaQueries, nodes: Mapping[str, Node], key: ServiceKey | None
) -> EffectiveLimits:
    if key is None:
        return EffectiveLimits({}, {})
    return limit_sources.effective_of_many(ctx, queries.limits, key, nodes)


def _find_lineages(nodes: Mapping[str, Node]) -> dict[str, tuple[Node, ...]]:
    """Return the lineage of each node, the root first; cycles are cut."""
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
