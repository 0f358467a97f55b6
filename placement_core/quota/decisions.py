"""Does a claim fit the limits that bind its project? Decided without taking anything."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from placement_core.context import Context
from placement_core.placement.usage_index import UsageIndex, Usages
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.enforcement import Binding, EnforcementModel, Excess, Scope
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver
from placement_core.quota import errors

#: How a limit names a resource class, as nova does.
_CLASS_PREFIX = "class:"
#: So many projects' bounds are kept; beyond that they are made anew.
_MOST_KEPT = 4096

#: What is asked about: (project, service, region).
_Question = tuple[str, str, str | None]


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
class _Bounds:
    """What binds a project, as far as limits and the catalog decide it.

    :ivar subtrees: the projects below each node that is bound with its subtree,
        itself included.
    """

    lineage: Sequence[Node]
    limits: EffectiveLimits
    subtrees: Mapping[str, Sequence[str]]


class Decisions:
    """Judges claims. Any thread may ask.

    While limits and catalog are in the service's own database and do not
    change, what binds a project is made once; a decision then asks the database
    one question.
    """

    def __init__(
        self, usage: UsageIndex, catalog: CatalogDriver, limits: LimitDriver,
        model: EnforcementModel,
    ) -> None:
        self._usage = usage
        self._catalog = catalog
        self._limits = limits
        self._model = model
        self._cacheable = catalog.local and limits.transactional
        self._lock = threading.Lock()
        self._kept = _Kept(-1)

    def decide(
        self, ctx: Context, *, project_id: str, deltas: Mapping[str, int], service_id: str,
        region_id: str | None,
    ) -> Decision:
        """Say whether a project may have so much more.

        :param deltas: {resource name: amount}; 0 asks whether a bound is broken
            already.
        :raises errors.UnknownResource: a name is not of a resource class.
        :raises errors.Unavailable: limits or the catalog are not known now.
        Source: oslo.limit ``Enforcer.enforce``; a name that is not registered
        has a limit of 0.
        """
        classes = {name: _class_of(name) for name in deltas}
        usages = self._usage.usages(ctx)
        kept = self._kept_at(usages.revision)
        bounds = self._bounds(ctx, kept, (project_id, service_id, region_id))
        excesses = []
        for name in sorted(deltas):
            bindings = self._bindings(bounds, name)
            used = {
                (binding.node_id, binding.scope): usages.total(
                    kept.rows(usages, bounds, binding), classes[name])
                for binding in bindings}
            excesses.extend(self._model.judge(name, bindings, used, deltas[name]))
        return Decision(project_id, excesses)

    def _kept_at(self, revision: int) -> _Kept:
        if not self._cacheable:
            return _Kept(revision)
        with self._lock:
            if self._kept.revision != revision or len(self._kept.bounds) >= _MOST_KEPT:
                self._kept = _Kept(revision)
            return self._kept

    def _bounds(self, ctx: Context, kept: _Kept, question: _Question) -> _Bounds:
        known = kept.bounds.get(question)
        if known is not None:
            return known
        project_id, service_id, region_id = question
        lineage: Sequence[Node] = (
            self._catalog.lineage(ctx, project_id) if self._model.hierarchical
            else (Node(project_id, None),))
        limits = self._limits.effective(
            ctx, [node.id for node in lineage], service_id=service_id, region_id=region_id)
        made = _Bounds(lineage, limits, {})
        bound = {binding.node_id for name in limits.defaults
                 for binding in self._bindings(made, name) if binding.scope == "subtree"}
        top = next((node.id for node in lineage if node.id in bound), None)
        if top is not None:
            # That of the highest has those of the others in it.
            below = dict(_members(self._catalog.subtree(ctx, top)))
            made = dataclasses.replace(
                made, subtrees={node_id: below.get(node_id, [node_id]) for node_id in bound})
        kept.bounds[question] = made
        return made

    def _bindings(self, bounds: _Bounds, name: str) -> list[Binding]:
        set_for = {node_id: limits[name] for node_id, limits in bounds.limits.overrides.items()
                   if name in limits}
        return self._model.bindings(
            bounds.lineage, set_for, bounds.limits.defaults.get(name, 0))


class _Kept:
    """What was made of limits and catalog, while they do not change."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.bounds: dict[_Question, _Bounds] = {}
        #: {(node, scope): (how many rows there were, rows)}.
        self._rows: dict[tuple[str, Scope], tuple[int, np.ndarray]] = {}

    def rows(self, usages: Usages, bounds: _Bounds, binding: Binding) -> np.ndarray:
        """Return the rows of the usages that count against a bound."""
        key = (binding.node_id, binding.scope)
        # Projects that use something for the first time get a row then.
        count, rows = self._rows.get(key, (-1, None))
        if rows is None or count != len(usages.rows):
            counted = ([binding.node_id] if binding.scope == "own"
                       else bounds.subtrees[binding.node_id])
            rows = usages.rows_of(counted)
            self._rows[key] = len(usages.rows), rows
        return rows


def _members(subtree: Sequence[Node]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each node of a subtree the nodes below it, itself included."""
    members: dict[str, list[str]] = {}
    for node in reversed(subtree):
        mine = members.setdefault(node.id, [])
        mine.append(node.id)
        if node is not subtree[0] and node.parent_id is not None:
            members.setdefault(node.parent_id, []).extend(mine)
    yield from members.items()


def _class_of(name: str) -> str:
    """Return the resource class that a limit's resource name is about."""
    prefix, found, resource_class = name.partition(_CLASS_PREFIX)
    if prefix or not found or not resource_class:
        raise errors.UnknownResource(name)
    return resource_class
