"""Who is bound by what, and how much of it is used: what every answer about quota is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import texts
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.counting import Count, CountingDriver, MissingCell
from placement_core.plugin_api.enforcement import Binding
from placement_core.plugin_api.limits import LimitDriver
from placement_core.quota import counts, errors, limit_sources
from placement_core.quota.decisions import Bounds, Decisions
from placement_core.quota.guard import Rules
from placement_core.quota.limit_sources import ServiceKey
from placement_core.quota.records import Bound, Overrun

OnMissingCell = Literal["refuse", "allow", "last_known"]

#: So many projects are remembered to exist.
_MOST_KNOWN = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """Where a project, or a user in it, stands: what binds it.

    :ivar key: whose limits; None: the catalog has no such service.
    :ivar of_user: what was set for the user, by resource name.
    """

    key: ServiceKey | None
    bounds: Bounds
    user_id: str | None
    of_user: Mapping[str, Amount]

    @property
    def project_id(self) -> str:
        """Return the project that is bound."""
        return self.bounds.project_id

    def unregistered(self, names: Iterable[str]) -> list[str]:
        """Return those of some names that no limit is registered for."""
        return sorted(set(names) - self.bounds.limits.defaults.keys())


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """What binds a project, and what is used of it.

    :ivar bounds: {resource name: the project's own bound first, then upwards, the
        user's last}; a name without any may be had without end.
    :ivar count: how it was counted; None: nothing had to be.
    """

    subject: Subject
    bounds: Mapping[str, Sequence[Bound]]
    count: Count | None

    @property
    def missing_cells(self) -> Sequence[MissingCell]:
        """Return the cells that the count lacks."""
        return () if self.count is None else self.count.missing_cells


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaQueries:
    """Brings what is allowed and what is used together. Any thread may ask.

    :ivar rules: whose limits count.
    """

    decisions: Decisions
    counting: CountingDriver
    catalog: CatalogDriver
    limits: LimitDriver
    cells: CellDatabases
    rules: Rules
    on_missing_cell: OnMissingCell
    _known: dict[str, int] = dataclasses.field(default_factory=dict, repr=False)

    def subject(self, ctx: Context, project_id: str, user_id: str | None = None) -> Subject:
        """Return what binds a project, and a user in it, by what was committed before.

        :raises errors.UnknownProject: the catalog has projects, but not this one, and
            it uses nothing.
        :raises errors.ImpossibleId: no database can keep one of the ids.
        :raises errors.Unavailable: limits or the catalog are not known now.
        """
        if not texts.is_storable(project_id) or not texts.is_storable(user_id or ""):
            raise errors.ImpossibleId
        usages = self.decisions.present(ctx)
        key = self.service_key(ctx)
        bounds = self.decisions.bounds(ctx, project_id, key, usages.revision)
        if not usages.has_usage(project_id):
            self._require(ctx, bounds)
        of_user: Mapping[str, Amount] = {}
        if user_id is not None:
            of_user = self.decisions.user_limits(ctx, project_id, user_id, key, bounds.revision)
        return Subject(key, bounds, user_id, of_user)

    def service_key(self, ctx: Context) -> ServiceKey | None:
        """Return whose limits count; None: the catalog has no such service."""
        return self.decisions.service_key(ctx, self.rules.service_type, self.rules.region_id)

    def describe_source(self, key: ServiceKey | None) -> str:
        """Return whose limits count, for people; it can follow the word "for"."""
        return limit_sources.describe(self.rules.service_type, key)

    def countable(self, name: str) -> bool:
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
        """Return what the counting driver is asked about for names that it counts."""
        units = {unit for name in names for unit in self.decisions.resources.units(name)}
        return units if self.counting.units is None else units & set(self.counting.units)

    def require_countable(self, names: Iterable[str]) -> None:
        """Check that all of some names can be counted.

        :raises errors.UnknownResource: nothing is counted by one of them.
        :raises errors.Uncounted: this counting driver does not count one of them.
        """
        for name in sorted(names):
            self.decisions.resources.units(name)
            if not self.countable(name):
                raise errors.Uncounted(name)

    def measure(
        self, ctx: Context, subject: Subject, names: Collection[str],
        *, without: Collection[str] = (), everything: bool = False,
    ) -> Measure:
        """Count what is used of the bounds on some names.

        One usage question; a second one only where a limit was set for the user.

        :param names: that can be counted.
        :param without: consumers (instances) that shall not count.
        :param everything: count what nothing binds, too: what the project uses itself,
            and the user in it.
        :raises errors.Unavailable: nothing could be counted at all.
        """
        bindings = {name: self.decisions.bindings(subject.bounds, name) for name in names}
        of_user = {name: limit for name, limit in subject.of_user.items()
                   if name in bindings and limit != amounts.UNLIMITED}
        wanted = set(names) if everything else {
            name for name, found in bindings.items() if found} | of_user.keys()
        count = None
        if wanted:
            projects = {
                project for found in bindings.values() for binding in found
                for project in subject.bounds.counted(binding).project_ids}
            if everything:
                projects.add(subject.project_id)
            for_user = bool(of_user) or (everything and subject.user_id is not None)
            count = self._count(
                ctx, subject, projects, self.units(wanted), for_user, without)
        return Measure(subject, {
            name: [*self._bounds(subject, name, found, count),
                   *self._bound_of_user(subject, name, of_user, count)]
            for name, found in bindings.items()}, count)

    def overruns(self, measure: Measure, deltas: Mapping[str, int]) -> list[Overrun]:
        """Return the bounds that a request would break, as the enforcement model judges.

        :param deltas: {resource name: amount}, of the names that were measured.
        """
        units = self.decisions.resources.units
        used = {(units(name), bound.node_id, bound.scope): bound.used
                for name, bounds in measure.bounds.items() for bound in bounds}
        excesses = self.decisions.judge(
            measure.subject.bounds, deltas,
            lambda binding, units: used[frozenset(units), binding.node_id, binding.scope])
        found = [
            Overrun(each.binding.node_id, each.resource_name, each.binding.scope,
                    each.binding.source, each.binding.limit, each.usage, each.delta)
            for each in excesses]
        for name in sorted(deltas):
            found += (
                bound.overrun(deltas[name]) for bound in measure.bounds[name]
                if bound.scope == "user" and bound.breaks(deltas[name]))
        return found

    def require_cells(self, missing: Iterable[MissingCell]) -> None:
        """Check that a count lacks no cell that must not be missing.

        :raises errors.MissingCells: it does.
        """
        lacking = [cell for cell in missing
                   if self.on_missing_cell == "refuse" or (
                       self.on_missing_cell == "last_known"
                       and cell.known_since_seconds is None)]
        if lacking:
            raise errors.MissingCells(lacking)

    def _count(
        self, ctx: Context, subject: Subject, projects: set[str], units: set[str],
        for_user: bool, without: Collection[str],
    ) -> Count:
        project_id = subject.project_id
        if not for_user:
            return self.counting.count(ctx, sorted(projects), units=units, without=without)
        own = self.counting.count(
            ctx, [project_id], units=units, user_id=subject.user_id, without=without)
        others = sorted(projects - {project_id})
        if not others:
            return own
        return counts.together(
            own, self.counting.count(ctx, others, units=units, without=without))

    def _bounds(
        self, subject: Subject, name: str, bindings: Sequence[Binding], count: Count | None
    ) -> list[Bound]:
        units = self.decisions.resources.units(name)
        return [
            Bound(binding.node_id, name, binding.scope, binding.source, binding.limit,
                  counts.used(count, subject.bounds.counted(binding).project_ids, units))
            for binding in bindings]

    def _bound_of_user(
        self, subject: Subject, name: str, of_user: Mapping[str, Amount], count: Count | None
    ) -> list[Bound]:
        if name not in of_user:
            return []
        assert count is not None and count.user is not None  # of_user had it asked for
        return [Bound(
            subject.project_id, name, "user", "set", of_user[name],
            sum(count.user.get(unit, 0) for unit in self.decisions.resources.units(name)),
            subject.user_id)]

    def _require(self, ctx: Context, bounds: Bounds) -> None:
        """Check that a project exists that uses nothing."""
        project_id, known = bounds.project_id, self._known
        if known.get(project_id) == bounds.revision or _has_a_place(bounds.lineage[-1]):
            return
        exists = self.catalog.project(ctx, project_id) or self.catalog.domain(ctx, project_id)
        # A catalog without any project is not meant to know them.
        if not exists and self.catalog.depth(ctx):
            raise errors.UnknownProject(project_id)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[project_id] = bounds.revision


def _has_a_place(node: Node) -> bool:
    return node.is_domain or node.parent_id is not None
