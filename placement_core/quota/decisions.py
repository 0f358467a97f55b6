"""Decides whether a claim fits the limits that bind its project, without taking locks."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.caches import BoundedCache
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex, Usages
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.plugin_api.enforcement import Binding, EnforcementModel, Excess
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver
from placement_core.quota import limit_sources
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.resources import Resources

T = TypeVar("T")

#: How many projects, users and subtrees have their limits cached.
_MOST_CACHED = 4096
#: How many results of callers, which may be larger, are cached.
_MOST_DERIVED = 1024

#: Returns the sum of the usage of some units that counts against a limit.
UsageLookup = Callable[[Binding, ProjectSet, Collection[str]], int]


class Totals(Protocol):
    """Knows what projects use together."""

    def total(self, projects: ProjectSet, resource_class: str) -> int:
        """Return what some projects use of a resource class, or of CONSUMERS, together."""


def add_up(usages: Totals) -> UsageLookup:
    """Return a function that looks up what counts against a limit."""
    return lambda _, projects, units: sum([usages.total(projects, unit) for unit in units])


@dataclasses.dataclass(frozen=True)
class BoundDelta:
    """How much more of a resource is claimed, and the limits that bind it.

    :ivar units: what counts as the resource.
    :ivar bindings: of the project's own limit first, then upwards.
    :ivar counted: for each binding, the projects that count against its limit.
    :ivar others: for each binding, how much more others of these projects claim at the same
        time, or less.
    """

    resource_name: str
    amount: int
    units: Collection[str]
    bindings: Sequence[Binding]
    counted: Sequence[ProjectSet]
    others: Sequence[int]

    @functools.cached_property
    def lowest(self) -> Amount:
        """Return the lowest of the limits."""
        return min((binding.limit for binding in self.bindings), default=amounts.UNLIMITED)

    @functools.cached_property
    def most(self) -> int:
        """Return the most that is claimed together against any of the limits."""
        return self.amount + max(self.others, default=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """Whether a claim fits.

    :ivar excesses: the limits that the deltas would exceed; empty: it fits.
    """

    project_id: str
    excesses: Sequence[Excess]

    @property
    def fits(self) -> bool:
        """Say whether no limit would be exceeded."""
        return not self.excesses


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectLimits:
    """The limits that bind a project, without usage.

    :ivar lineage: the nodes above the project, the root first, and the project last.
    :ivar effective: the limits of the nodes of the lineage.
    :ivar subtrees: {node: the projects below it, itself included}, for each node
        whose limit binds its subtree.
    :ivar revision: the revision of limits and catalog in the usage index at the time of the
        read.
    :ivar state: the same revision as text from the database, read before the limits were.
    :ivar bindings: {resource name: its bindings}, computed on first use.
    :ivar alone: {node: the set of itself}, likewise.
    """

    lineage: Sequence[Node]
    effective: EffectiveLimits
    subtrees: Mapping[str, ProjectSet]
    revision: int
    state: str = ""
    bindings: dict[str, list[Binding]] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)
    alone: dict[str, ProjectSet] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)

    @property
    def project_id(self) -> str:
        """Return the id of the project that is bound."""
        return self.lineage[-1].id

    def counted_projects(self, binding: Binding) -> ProjectSet:
        """Return the projects whose usage counts against one of the limits."""
        node_id = binding.node_id
        if binding.scope == "subtree":
            return self.subtrees[node_id]
        return self.alone.get(node_id) or self.alone.setdefault(node_id, ProjectSet((node_id,)))


class Decisions:
    """Decides on claims. Thread-safe.

    If limits and catalog are in the service's own database, the limits that bind a project
    are cached until they change; a decision then costs one statement.
    """

    def __init__(
        self, usage: UsageIndex, catalog: CatalogDriver, limits: LimitDriver,
        model: EnforcementModel, *, resources: Resources = Resources({}),  # noqa: B008
        unregistered: Amount = 0,
    ) -> None:
        """Initialize the decisions.

        :param unregistered: the limit on resources without a registered limit.
        """
        self._usage = usage
        self._catalog = catalog
        self._limits = limits
        self.model = model
        self.resources = resources
        self.unregistered = unregistered
        self.cacheable = catalog.local and limits.transactional
        self._lock = threading.Lock()
        self._cache = _RevisionCache(-1)

    def decide(
        self, ctx: Context, *, project_id: str, deltas: Mapping[str, int], service_id: str,
        region_id: str | None,
    ) -> Decision:
        """Decide whether a project may have more of what placement allocates.

        :param deltas: {resource name: amount}; 0 asks whether a limit is exceeded
            already.
        :raises errors.UnknownResource: a name maps to nothing that is counted.
        :raises errors.Unavailable: limits or the catalog are not known now.
        Source: oslo.limit ``Enforcer.enforce``; a name that is not registered
        has a limit of 0.
        """
        for name in deltas:
            self.resources.units(name)
        usages = self._usage.usages(ctx)
        key = ServiceKey(service_id, (region_id,))
        limits = self.project_limits(ctx, project_id, key, usages.revision)
        return Decision(
            limits.project_id, self.judge(self.bind(limits, deltas), add_up(usages)))

    def bind(
        self, limits: ProjectLimits, deltas: Mapping[str, int],
        others: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    ) -> list[BoundDelta]:
        """Return what binds a claim of a project.

        :param deltas: {resource name: amount}.
        :param others: {project: likewise}, of other projects at the same time; less is negative.
        """
        return [self._bind_one(limits, name, deltas[name], others) for name in sorted(deltas)]

    def _bind_one(
        self, limits: ProjectLimits, name: str, amount: int,
        others: Mapping[str, Mapping[str, int]],
    ) -> BoundDelta:
        bound = []
        for binding in self.bindings(limits, name):
            counted = limits.counted_projects(binding)
            more = sum(changes.get(name, 0) for project, changes in others.items()
                       if project in counted.project_ids)
            # What they use together does not grow if others give back as much.
            if not more or amount + more > 0:
                bound.append((binding, counted, more))
        bindings, counted_projects, more_of_others = zip(*bound, strict=True) if bound else (
            (), (), ())
        return BoundDelta(
            name, amount, self.resources.units(name), bindings, counted_projects, more_of_others)

    def judge(self, deltas: Iterable[BoundDelta], used: UsageLookup) -> list[Excess]:
        """Return the limits that a claim would exceed."""
        excesses = []
        for delta in deltas:
            others = {
                (binding.node_id, binding.scope): more
                for binding, more in zip(delta.bindings, delta.others, strict=True)}
            usage = {
                (binding.node_id, binding.scope): used(binding, projects, delta.units) + more
                for binding, projects, more in zip(
                    delta.bindings, delta.counted, delta.others, strict=True)}
            for excess in self.model.judge(
                    delta.resource_name, delta.bindings, usage, delta.amount):
                more = others[excess.binding.node_id, excess.binding.scope]
                excesses.append(dataclasses.replace(
                    excess, usage=excess.usage - more, delta=excess.delta + more))
        return excesses

    def service_key(
        self, ctx: Context, service_type: str, region_id: str | None
    ) -> ServiceKey | None:
        """Return the key of the limits that count; None: the catalog has no such service.

        :raises errors.Error: as ``limit_sources.find``.
        """
        cache = self._get_cache(self._usage.revision(ctx))
        source = (service_type, region_id)
        if source not in cache.service_keys:
            self._read_state(ctx, cache)
            cache.service_keys[source] = self._find_key(ctx, service_type, region_id)
        return cache.service_keys[source]

    def _find_key(
        self, ctx: Context, service_type: str, region_id: str | None
    ) -> ServiceKey | None:
        return limit_sources.find(
            ctx, self._catalog, self._limits, service_type, region_id)

    def project_limits(
        self, ctx: Context, project_id: str, key: ServiceKey | None,
        revision: int | None = None,
    ) -> ProjectLimits:
        """Return the limits that bind a project.

        :param key: None: no limits are registered.
        :param revision: the one that the caller read; None: the current one of the usage
            index. A caller that keeps the result compares ``ProjectLimits.revision`` later.
        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        if revision is None:
            revision = self._usage.revision(ctx)
        cache = self._get_cache(revision)
        state = self._read_state(ctx, cache)
        if key is None:
            return _unbound(project_id, revision, state)
        limits = cache.project_limits.get((project_id, key))
        if limits is None:
            limits = self._read_project_limits(
                ctx, project_id, key, revision, state, cache.subtrees)
            cache.project_limits.put((project_id, key), limits)
        return limits

    def read_project_limits(
        self, ctx: Context, project_id: str, service_type: str, region_id: str | None
    ) -> ProjectLimits:
        """Return the limits that bind a project, for a caller with a cache of its own.

        The result's ``revision`` has no meaning.

        :raises errors.Error: as ``limit_sources.find``.
        """
        key = self._find_key(ctx, service_type, region_id)
        return (_unbound(project_id, 0, "") if key is None
                else self._read_project_limits(
                    ctx, project_id, key, 0, "", BoundedCache(_MOST_CACHED)))

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, key: ServiceKey | None, revision: int
    ) -> Mapping[str, Amount]:
        """Return the limits that were set for a user in a project, by resource name.

        Most users have none.

        :param revision: the one of the project's limits that are used with them.
        :raises errors.Unavailable: limits are not known now.
        """
        if key is None:
            return {}
        cache = self._get_cache(revision).user_limits
        limits = cache.get((project_id, user_id, key))
        if limits is None:
            limits = limit_sources.user_limits(ctx, self._limits, key, project_id, user_id)
            cache.put((project_id, user_id, key), limits)
        return limits

    def read_usages(self, ctx: Context) -> Usages:
        """Return the current usages, with the current revision of limits and catalog."""
        return self._usage.usages(ctx)

    def read_usages_under_locks(self, ctx: Context) -> Usages:
        """Return the current usages, for a caller that has just locked the limit nodes."""
        return self._usage.renew_usages(ctx)

    def is_current(self, limits: ProjectLimits, usages: Usages) -> bool:
        """Say whether a project's limits are those of the usages' revision.

        Remote limits and catalogs are as old as their drivers' options allow.
        """
        return not self.cacheable or limits.revision == usages.revision

    def matches_state(self, limits: ProjectLimits, state: str) -> bool:
        """Say the same for a caller that read the revision of limits and catalog itself."""
        return not self.cacheable or limits.state == state

    def derive(self, ctx: Context, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what a caller computes from limits and catalog, again only after a change.

        :param key: names the result among those of all callers.
        """
        cache = self._get_cache(self._usage.revision(ctx)).derived
        result = cache.get(key)
        if result is None:
            result = compute()
            cache.put(key, result)
        return cast("T", result)

    def forget(self) -> None:
        """Empty the cache: limits, the catalog, or what was derived from them, have changed."""
        with self._lock:
            self._cache = _RevisionCache(-1)

    def bindings(self, limits: ProjectLimits, name: str) -> list[Binding]:
        """Return the bindings of a resource, the project's own limit first, then upwards."""
        bindings = limits.bindings.get(name)
        if bindings is None:
            bindings = limits.bindings[name] = self.bindings_of(
                limits.lineage, limits.effective, name)
        return bindings

    def bindings_of(
        self, lineage: Sequence[Node], limits: EffectiveLimits, name: str
    ) -> list[Binding]:
        """Return the same for the last project of a lineage.

        :param limits: those of the nodes of the lineage, perhaps with those of others.
        """
        set_for = {
            node.id: overrides[name] for node in lineage
            if (overrides := limits.overrides.get(node.id)) is not None and name in overrides}
        return self.model.bindings(
            lineage, set_for, limits.defaults.get(name, self.unregistered))

    def limit_names(self, limits: ProjectLimits, units: Collection[str]) -> list[str]:
        """Return the names of the limits that a claim of some units has to fit.

        These are the names that have a limit and, if unregistered resources may not be used, the
        resource classes that none of these counts.
        """
        effective = limits.effective
        names = [*effective.defaults, *sorted(
            limit_sources.list_limited_resources(effective) - effective.defaults.keys())]
        if self.unregistered != amounts.UNLIMITED:
            counted = {unit for name in names if self.resources.knows(name)
                       for unit in self.resources.units(name)}
            names += (self.resources.name_of(unit) for unit in sorted(units)
                      if unit not in counted and unit != CONSUMERS)
        return names

    def nodes_to_lock(self, limits: ProjectLimits, names: Collection[str]) -> set[str]:
        """Return the nodes that a claim of some resources locks: whose limits bind it."""
        return {binding.node_id for name in names for binding in self.bindings(limits, name)}

    def _get_cache(self, revision: int) -> _RevisionCache:
        if not self.cacheable:
            return _RevisionCache(revision)
        with self._lock:
            if self._cache.revision != revision:
                self._cache = _RevisionCache(revision)
            return self._cache

    def _read_state(self, ctx: Context, cache: _RevisionCache) -> str:
        """Return the revision of limits and catalog that a cache belongs to, or an older one.

        It is read before the first entry, so that a later change is noticed.
        """
        if not cache.state and self.cacheable:
            cache.state = revisions.read(ctx, revisions.LIMITS)
        return cache.state

    def _read_project_limits(
        self, ctx: Context, project_id: str, key: ServiceKey, revision: int, state: str,
        subtree_cache: BoundedCache[str, ProjectSet],
    ) -> ProjectLimits:
        """Read the limits that bind a project.

        :param subtree_cache: the subtrees that are read are added to it.
        """
        lineage: Sequence[Node] = (
            self._catalog.lineage(ctx, project_id) if self.model.hierarchical
            else (Node(project_id, None),))
        effective = limit_sources.effective(
            ctx, self._limits, key, [node.id for node in lineage])
        project_limits = ProjectLimits(lineage, effective, {}, revision, state)
        bound = {binding.node_id for name in limit_sources.list_limited_resources(effective)
                 for binding in self.bindings(project_limits, name) if binding.scope == "subtree"}
        subtrees = subtree_cache.get_many(bound)
        unread = bound - subtrees.keys()
        top = next((node.id for node in lineage if node.id in unread), None)
        if top is not None:
            # The subtree of the topmost node contains those of the others.
            below = dict(_iterate_subtrees(self._catalog.subtree(ctx, top)))
            for node_id in unread:
                subtrees[node_id] = ProjectSet(below.get(node_id, [node_id]))
                subtree_cache.put(node_id, subtrees[node_id])
        return dataclasses.replace(project_limits, subtrees=subtrees)


def _unbound(project_id: str, revision: int, state: str) -> ProjectLimits:
    return ProjectLimits((Node(project_id, None),), EffectiveLimits({}, {}), {}, revision, state)


class _RevisionCache:
    """Limits and catalog data of one revision. Thread-safe.

    :ivar state: the revision as text, read before the first entry; "": not read yet.
    :ivar derived: what callers computed from the rest.
    """

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.state = ""
        self.project_limits = BoundedCache[tuple[str, ServiceKey], ProjectLimits](_MOST_CACHED)
        #: {node: the projects below it, itself included}; entries of projects share them.
        self.subtrees = BoundedCache[str, ProjectSet](_MOST_CACHED)
        self.user_limits = BoundedCache[
            tuple[str, str, ServiceKey], Mapping[str, Amount]](_MOST_CACHED)
        self.derived = BoundedCache[Hashable, object](_MOST_DERIVED)
        #: {(type of service, region): its key}.
        self.service_keys: dict[tuple[str, str | None], ServiceKey | None] = {}


def _iterate_subtrees(subtree: Sequence[Node]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each node of a subtree the nodes below it, itself included."""
    members: dict[str, list[str]] = {}
    for node in reversed(subtree):
        node_ids = members.setdefault(node.id, [])
        node_ids.append(node.id)
        if node is not subtree[0] and node.parent_id is not None:
            members.setdefault(node.parent_id, []).extend(node_ids)
    yield from members.items()
