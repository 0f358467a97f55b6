"""Limits that bind a project, and their usage: the base of every answer about quota."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.caches import BoundedCache
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import texts
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.counting import Count, CountingDriver, MissingCell
from placement_core.plugin_api.enforcement import Binding
from placement_core.plugin_api.limits import LimitDriver
from placement_core.quota import counts, errors, limit_sources
from placement_core.quota.decisions import Decisions, ProjectLimits
from placement_core.quota.limit_sources import LimitSource, ServiceKey
from placement_core.quota.records import ExceededLimit, LimitUsage

OnMissingCell = Literal["refuse", "allow", "last_known"]

#: How many existing projects are cached.
_MOST_PROJECTS = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A project, or a user in it, with the limits that bind it.

    :ivar key: which limits count; None: the catalog has no such service.
    :ivar of_user: the limits of the user, by resource name.
    """

    key: ServiceKey | None
    project_limits: ProjectLimits
    user_id: str | None
    of_user: Mapping[str, Amount]

    @property
    def project_id(self) -> str:
        """Return the project that is bound."""
        return self.project_limits.project_id

    def unregistered(self, names: Iterable[str]) -> list[str]:
        """Return the names that have no registered limit, sorted."""
        return sorted(set(names) - self.project_limits.effective.defaults.keys())


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """The limits that bind a project, and their usage.

    :ivar limit_usages: {resource name: the project's own limit first, then upwards, the
        user's last}; a name without any is unlimited.
    :ivar count: the count of usage; None: nothing had to be counted.
    """

    subject: Subject
    limit_usages: Mapping[str, Sequence[LimitUsage]]
    count: Count | None

    @property
    def missing_cells(self) -> Sequence[MissingCell]:
        """Return the cells that the count lacks."""
        return () if self.count is None else self.count.missing_cells


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaQueries:
    """Answers questions about limits and usage. Thread-safe.

    :ivar source: the service and region whose limits count.
    """

    decisions: Decisions
    counting: CountingDriver
    catalog: CatalogDriver
    limits: LimitDriver
    cells: CellDatabases
    source: LimitSource
    on_missing_cell: OnMissingCell
    #: {project: the revision of limits and catalog at which it existed}
    _existing: BoundedCache[str, int] = dataclasses.field(
        default_factory=lambda: BoundedCache(_MOST_PROJECTS), repr=False)

    def subject(self, ctx: Context, project_id: str, user_id: str | None = None) -> Subject:
        """Return a project, and a user in it, with their committed limits.

        :raises errors.UnknownProject: the catalog has projects, but not this one, and
            it uses nothing.
        :raises errors.InvalidId: no database can store one of the ids.
        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        if not texts.is_storable(project_id) or not texts.is_storable(user_id or ""):
            raise errors.InvalidId
        usages = self.decisions.read_usages(ctx)
        key = self.service_key(ctx)
        limits = self.decisions.project_limits(ctx, project_id, key, usages.revision)
        if not usages.has_usage(project_id):
            self._require_project(ctx, limits)
        of_user: Mapping[str, Amount] = {}
        if user_id is not None:
            of_user = self.decisions.user_limits(ctx, project_id, user_id, key, limits.revision)
        return Subject(key, limits, user_id, of_user)

    def service_key(self, ctx: Context) -> ServiceKey | None:
        """Return the key of the limits that count; None: the catalog has no such service."""
        return self.decisions.service_key(ctx, self.source.service_type, self.source.region_id)

    def describe_source(self, key: ServiceKey | None) -> str:
        """Describe whose limits count, in words that can follow "for"."""
        return limit_sources.describe(self.source.service_type, key)

    def is_countable(self, name: str) -> bool:
        """Say whether the counting driver counts what a name stands for."""
        resources, counted = self.decisions.resources, self.counting.units
        if not resources.knows(name):
            return False
        if counted is None:
            return True
        units = resources.units(name)
        return all(unit in counted or (self.counting.folded.get(unit) in units & set(counted))
                   for unit in units)

    def units(self, names: Iterable[str]) -> set[str]:
        """Return the units that the counting driver counts for some names."""
        units = {unit for name in names for unit in self.decisions.resources.units(name)}
        return units if self.counting.units is None else units & set(self.counting.units)

    def require_countable(self, names: Iterable[str]) -> None:
        """Check that all names can be counted.

        :raises errors.UnknownResource: a name maps to nothing that is counted.
        :raises errors.UncountedResource: this counting driver does not count one of them.
        """
        for name in sorted(names):
            self.decisions.resources.units(name)
            if not self.is_countable(name):
                raise errors.UncountedResource(name)

    def measure(
        self, ctx: Context, subject: Subject, names: Collection[str],
        *, without: Collection[str] = (), everything: bool = False,
    ) -> Measure:
        """Count the usage that counts against the limits on some names.

        It takes one count; a second one only if a limit was set for the user.

        :param names: resource names that can be counted.
        :param without: consumers (instances) to exclude from the count.
        :param everything: also count the project's and the user's own usage of resources
            that no limit binds.
        :raises errors.Unavailable: nothing could be counted at all.
        """
        bindings = {name: self.decisions.bindings(subject.project_limits, name) for name in names}
        of_user = {name: limit for name, limit in subject.of_user.items()
                   if name in bindings and limit != amounts.UNLIMITED}
        counted_names = set(names) if everything else {
            name for name, of_name in bindings.items() if of_name} | of_user.keys()
        count = None
        if counted_names:
            project_ids = {
                project for of_name in bindings.values() for binding in of_name
                for project in subject.project_limits.counted_projects(binding).project_ids}
            if everything:
                project_ids.add(subject.project_id)
            for_user = bool(of_user) or (everything and subject.user_id is not None)
            count = self._count(
                ctx, subject, project_ids, self.units(counted_names), for_user, without)
        return Measure(subject, {
            name: [*self._list_limit_usages(subject, name, of_name, count),
                   *self._list_user_limit_usages(subject, name, of_user, count)]
            for name, of_name in bindings.items()}, count)

    def exceeded_limits(self, measure: Measure, deltas: Mapping[str, int]) -> list[ExceededLimit]:
        """Return the limits that a request would exceed, according to the enforcement model.

        :param deltas: {resource name: amount}, for names that were measured.
        """
        units = self.decisions.resources.units
        used = {(units(name), usage.node_id, usage.scope): usage.used
                for name, usages in measure.limit_usages.items() for usage in usages}
        excesses = self.decisions.judge(
            self.decisions.bind(measure.subject.project_limits, deltas),
            lambda binding, _, units: used[frozenset(units), binding.node_id, binding.scope])
        exceeded = [
            ExceededLimit(excess.binding.node_id, excess.resource_name, excess.binding.scope,
                    excess.binding.source, excess.binding.limit, excess.usage, excess.delta)
            for excess in excesses]
        for name in sorted(deltas):
            exceeded += (
                usage.as_exceeded(deltas[name]) for usage in measure.limit_usages[name]
                if usage.scope == "user" and usage.is_exceeded_by(deltas[name]))
        return exceeded

    def require_cells(self, missing: Iterable[MissingCell]) -> None:
        """Check that a count lacks no cell that ``[quota] on_missing_cell`` requires.

        :raises errors.MissingCells: it lacks one.
        """
        lacking = [cell for cell in missing
                   if self.on_missing_cell == "refuse" or (
                       self.on_missing_cell == "last_known"
                       and cell.known_since_seconds is None)]
        if lacking:
            raise errors.MissingCells(lacking)

    def _count(
        self, ctx: Context, subject: Subject, project_ids: set[str], units: set[str],
        for_user: bool, without: Collection[str],
    ) -> Count:
        project_id = subject.project_id
        if not for_user:
            return self.counting.count(ctx, sorted(project_ids), units=units, without=without)
        own = self.counting.count(
            ctx, [project_id], units=units, user_id=subject.user_id, without=without)
        others = sorted(project_ids - {project_id})
        if not others:
            return own
        return counts.merge(
            own, self.counting.count(ctx, others, units=units, without=without))

    def _list_limit_usages(
        self, subject: Subject, name: str, bindings: Sequence[Binding], count: Count | None
    ) -> list[LimitUsage]:
        units = self.decisions.resources.units(name)
        return [
            LimitUsage(
                binding.node_id, name, binding.scope, binding.source, binding.limit,
                counts.sum_used(
                    count, subject.project_limits.counted_projects(binding).project_ids, units))
            for binding in bindings]

    def _list_user_limit_usages(
        self, subject: Subject, name: str, of_user: Mapping[str, Amount], count: Count | None
    ) -> list[LimitUsage]:
        if name not in of_user:
            return []
        assert count is not None and count.user is not None  # counted because of of_user
        return [LimitUsage(
            subject.project_id, name, "user", "set", of_user[name],
            sum(count.user.get(unit, 0) for unit in self.decisions.resources.units(name)),
            subject.user_id)]

    def _require_project(self, ctx: Context, limits: ProjectLimits) -> None:
        """Check that a project without usage exists."""
        project_id = limits.project_id
        if _is_in_catalog(limits.lineage[-1]):
            return
        # The catalogs of other services have no revision; their drivers cache what they read.
        if self.catalog.local and self._existing.get(project_id) == limits.revision:
            return
        exists = self.catalog.project(ctx, project_id) or self.catalog.domain(ctx, project_id)
        # A catalog without any project does not manage projects.
        if not exists and self.catalog.depth(ctx):
            raise errors.UnknownProject(project_id)
        self._existing.put(project_id, limits.revision)


def _is_in_catalog(node: Node) -> bool:
    return node.is_domain or node.parent_id is not None
