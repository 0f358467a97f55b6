"""Does a claim fit the limits that bind its project? Decided without taking anything."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
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

#: So many projects' bounds are kept; beyond that they are made anew.
_MOST_KEPT = 4096


#: Returns what counts against a bound, units summed up.
Used = Callable[[Binding, Collection[str]], int]


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one question.

    :ivar excesses: the bounds that the deltas would break; none: it fits.
    """

    project_id: str
    excesses: Sequence[Excess]

    @property
    def fits(self) -> bool:
        """Say whether nothing stands in the way."""
        return not self.excesses


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What binds a project, as far as limits and the catalog decide it.

    :ivar lineage: the project, last, and what is above it.
    :ivar subtrees: {node: the projects below it, itself included}, of each node
        that is bound with its subtree.
    :ivar revision: of limits and catalog, as the usage index counts, when this was made.
    :ivar state: the same as the database says it, from before this was made.
    :ivar known: {resource name: the bounds of it}, as far as somebody asked.
    :ivar alone: {node: itself}, likewise.
    """

    lineage: Sequence[Node]
    limits: EffectiveLimits
    subtrees: Mapping[str, ProjectSet]
    revision: int
    state: str = ""
    known: dict[str, list[Binding]] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)
    alone: dict[str, ProjectSet] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)

    @property
    def project_id(self) -> str:
        """Return the project that is bound."""
        return self.lineage[-1].id

    def counted(self, binding: Binding) -> ProjectSet:
        """Return the projects whose usage counts against one of the bounds."""
        node_id = binding.node_id
        if binding.scope == "subtree":
            return self.subtrees[node_id]
        return self.alone.get(node_id) or self.alone.setdefault(node_id, ProjectSet((node_id,)))


class Decisions:
    """Judges claims. Any thread may ask.

    While limits and catalog are in the service's own database and do not
    change, what binds a project is made once; a decision then asks the database
    one question.
    """

    def __init__(
        self, usage: UsageIndex, catalog: CatalogDriver, limits: LimitDriver,
        model: EnforcementModel, *, resources: Resources = Resources({}),  # noqa: B008
        unregistered: Amount = 0,
    ) -> None:
        """Make it of its parts.

        :param unregistered: what may be had where no limit is registered.
        """
        self._usage = usage
        self._catalog = catalog
        self._limits = limits
        self.model = model
        self.resources = resources
        self.unregistered = unregistered
        self.cacheable = catalog.local and limits.transactional
        self._lock = threading.Lock()
        self._kept = _Kept(-1)

    def decide(
        self, ctx: Context, *, project_id: str, deltas: Mapping[str, int], service_id: str,
        region_id: str | None,
    ) -> Decision:
        """Say whether a project may have so much more of what placement allocates.

        :param deltas: {resource name: amount}; 0 asks whether a bound is broken
            already.
        :raises errors.UnknownResource: nothing is counted by a name.
        :raises errors.Unavailable: limits or the catalog are not known now.
        Source: oslo.limit ``Enforcer.enforce``; a name that is not registered
        has a limit of 0.
        """
        for name in deltas:
            self.resources.units(name)
        usages = self._usage.usages(ctx)
        key = ServiceKey(service_id, (region_id,))
        bounds = self.bounds(ctx, project_id, key, usages.revision)
        return self.decided(usages, bounds, deltas)

    def decided(
        self, usages: Usages, bounds: Bounds, deltas: Mapping[str, int]
    ) -> Decision:
        """Decide on usages and bounds that were fetched before."""
        return Decision(
            bounds.project_id, self.judge(bounds, deltas, self.used(usages, bounds)))

    def used(self, usages: Usages, bounds: Bounds) -> Used:
        """Return how to look up what counts against bounds, in the usage index."""
        return lambda binding, units: sum(
            usages.total(bounds.counted(binding), unit) for unit in units)

    def judge(
        self, bounds: Bounds, deltas: Mapping[str, int], used: Used
    ) -> list[Excess]:
        """Return the bounds that a claim would break.

        :param deltas: {resource name: amount}.
        :param used: returns what counts against a bound, units summed up.
        """
        excesses = []
        for name in sorted(deltas):
            units = self.resources.units(name)
            bindings = self.bindings(bounds, name)
            usage = {(each.node_id, each.scope): used(each, units) for each in bindings}
            excesses.extend(self.model.judge(name, bindings, usage, deltas[name]))
        return excesses

    def service_key(
        self, ctx: Context, service_type: str, region_id: str | None
    ) -> ServiceKey | None:
        """Return whose limits count; None: the catalog has no such service.

        :raises errors.Error: as ``limit_sources.find``.
        """
        kept = self._kept_at(self._usage.revision(ctx))
        asked = (service_type, region_id)
        if asked not in kept.service_keys:
            self._state(ctx, kept)
            kept.service_keys[asked] = self._found_key(ctx, service_type, region_id)
        return kept.service_keys[asked]

    def _found_key(
        self, ctx: Context, service_type: str, region_id: str | None
    ) -> ServiceKey | None:
        return limit_sources.find(
            ctx, self._catalog, self._limits, service_type, region_id)

    def bounds(
        self, ctx: Context, project_id: str, key: ServiceKey | None,
        revision: int | None = None,
    ) -> Bounds:
        """Return what binds a project.

        :param key: None: no limits are registered.
        :param revision: which one the caller saw; None: any that is known. A
            caller that keeps what it got compares ``Bounds.revision`` later.
        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        if revision is None:
            revision = self._usage.revision(ctx)
        kept = self._kept_at(revision)
        state = self._state(ctx, kept)
        if key is None:
            return _unbound(project_id, revision, state)
        question = (project_id, key)
        known = kept.bounds.get(question)
        if known is None:
            known = kept.bounds[question] = self._made(
                ctx, project_id, key, revision, state, kept.subtrees)
        return known

    def bounds_anew(
        self, ctx: Context, project_id: str, service_type: str, region_id: str | None
    ) -> Bounds:
        """Return what binds a project, for who finds out by itself when to ask again.

        Its revision says nothing.

        :raises errors.Error: as ``limit_sources.find``.
        """
        key = self._found_key(ctx, service_type, region_id)
        return (_unbound(project_id, 0, "") if key is None
                else self._made(ctx, project_id, key, 0, "", {}))

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, key: ServiceKey | None, revision: int
    ) -> Mapping[str, Amount]:
        """Return what was set for a user in a project, by resource name; mostly nothing.

        :param revision: of the bounds it is used with.
        :raises errors.Unavailable: limits are not known now.
        """
        if key is None:
            return {}
        kept = self._kept_at(revision)
        question = (project_id, user_id, key)
        if question not in kept.user_limits:
            kept.user_limits[question] = limit_sources.user_limits(
                ctx, self._limits, key, project_id, user_id)
        return kept.user_limits[question]

    def present(self, ctx: Context) -> Usages:
        """Return the present usages, with the revision of limits and catalog as of now."""
        return self._usage.usages(ctx)

    def present_under_locks(self, ctx: Context) -> Usages:
        """Return the present usages, to somebody who just locked the limit nodes."""
        return self._usage.renewed_usages(ctx)

    def is_current(self, bounds: Bounds, usages: Usages) -> bool:
        """Say whether bounds are still what limits and catalog say.

        Where those are remote, they are as old as their drivers' options allow.
        """
        return not self.cacheable or bounds.revision == usages.revision

    def is_current_in(self, bounds: Bounds, state: str) -> bool:
        """Say the same to somebody who read the state of limits and catalog."""
        return not self.cacheable or bounds.state == state

    def forget(self) -> None:
        """Make all bounds anew: limits or the catalog have changed."""
        with self._lock:
            self._kept = _Kept(-1)

    def bindings(self, bounds: Bounds, name: str) -> list[Binding]:
        """Return the bounds of one resource, the project's own first, then upwards."""
        found = bounds.known.get(name)
        if found is None:
            found = bounds.known[name] = self.bindings_of(bounds.lineage, bounds.limits, name)
        return found

    def bindings_of(
        self, lineage: Sequence[Node], limits: EffectiveLimits, name: str
    ) -> list[Binding]:
        """Return the same for the last project of a lineage.

        :param limits: of the nodes of the lineage, and perhaps of others.
        """
        set_for = {node.id: found[name] for node in lineage
                   if (found := limits.overrides.get(node.id)) is not None and name in found}
        return self.model.bindings(
            lineage, set_for, limits.defaults.get(name, self.unregistered))

    def names(self, bounds: Bounds, units: Collection[str]) -> list[str]:
        """Return the names by which a claim of some units is judged.

        The registered ones; and where nothing may be had that is not registered, the
        resource classes that none of those counts.
        """
        names = list(bounds.limits.defaults)
        if self.unregistered != amounts.UNLIMITED:
            counted = {unit for name in names if self.resources.knows(name)
                       for unit in self.resources.units(name)}
            names += (self.resources.name_of(unit) for unit in sorted(units)
                      if unit not in counted and unit != CONSUMERS)
        return names

    def bound_nodes(self, bounds: Bounds) -> set[str]:
        """Return the nodes that a registered limit binds the project by."""
        return {binding.node_id for name in bounds.limits.defaults
                for binding in self.bindings(bounds, name)}

    def _kept_at(self, revision: int) -> _Kept:
        if not self.cacheable:
            return _Kept(revision)
        with self._lock:
            if self._kept.revision != revision or max(
                    len(self._kept.bounds), len(self._kept.user_limits)) >= _MOST_KEPT:
                self._kept = _Kept(revision)
            return self._kept

    def _state(self, ctx: Context, kept: _Kept) -> str:
        """Return the state that what is kept is of, or newer.

        Asked before the first of it is made: a change since then will be seen as one.
        """
        if not kept.state and self.cacheable:
            kept.state = revisions.ask(ctx, revisions.LIMITS)
        return kept.state

    def _made(
        self, ctx: Context, project_id: str, key: ServiceKey, revision: int, state: str,
        subtrees: dict[str, ProjectSet],
    ) -> Bounds:
        """Return what binds a project.

        :param subtrees: those that are known; what is read is added.
        """
        lineage: Sequence[Node] = (
            self._catalog.lineage(ctx, project_id) if self.model.hierarchical
            else (Node(project_id, None),))
        limits = limit_sources.effective(
            ctx, self._limits, key, [node.id for node in lineage])
        made = Bounds(lineage, limits, {}, revision, state)
        bound = {binding.node_id for name in limits.defaults
                 for binding in self.bindings(made, name) if binding.scope == "subtree"}
        unread = bound - subtrees.keys()
        top = next((node.id for node in lineage if node.id in unread), None)
        if top is not None:
            # That of the highest has those of the others in it.
            below = dict(_members(self._catalog.subtree(ctx, top)))
            for node_id in unread:
                subtrees[node_id] = ProjectSet(below.get(node_id, [node_id]))
        return dataclasses.replace(
            made, subtrees={node_id: subtrees[node_id] for node_id in bound})


def _unbound(project_id: str, revision: int, state: str) -> Bounds:
    return Bounds((Node(project_id, None),), EffectiveLimits({}, {}), {}, revision, state)


class _Kept:
    """What was made of limits and catalog, while they do not change."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.state = ""
        self.bounds: dict[tuple[str, ServiceKey], Bounds] = {}
        #: {node: the projects below it, itself included}; the projects share them.
        self.subtrees: dict[str, ProjectSet] = {}
        self.user_limits: dict[tuple[str, str, ServiceKey], Mapping[str, Amount]] = {}
        #: {(type of service, region): its key}.
        self.service_keys: dict[tuple[str, str | None], ServiceKey | None] = {}


def _members(subtree: Sequence[Node]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each node of a subtree the nodes below it, itself included."""
    members: dict[str, list[str]] = {}
    for node in reversed(subtree):
        mine = members.setdefault(node.id, [])
        mine.append(node.id)
        if node is not subtree[0] and node.parent_id is not None:
            members.setdefault(node.parent_id, []).extend(mine)
    yield from members.items()
