"""Growth of usage by a write, and what limits bind of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from placement_core.amounts import Amount
from placement_core.placement.allocations import usage_delta
from placement_core.placement.allocations.gates import Check, PlannedWrite
from placement_core.placement.allocations.usage_delta import Amounts, UsageDelta
from placement_core.quota import fullness
from placement_core.quota.decisions import BoundDelta, Decisions, ProjectLimits
from placement_core.quota.fullness import Charge, Charges, NodeLimits
from placement_core.quota.locked_usage import ProjectRows
from placement_core.quota.resources import Resources

#: How many growths of usage are remembered for the owners of a write.
_MOST_BOUND = 32

#: (project id, user id)
User: TypeAlias = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedLimits(Check):
    """The limits that bind the owners of a write, as they were before its transaction.

    :ivar project_limits: {project: the limits that bind it}.
    :ivar users_limits: {user: {resource name: limit}}, for users that have limits.
    :ivar node_ids: {limit node: the id of its row}.
    :ivar rows: of the projects that count against the limits; None: they are too many for one
        statement.
    :ivar node_limits: {project: {limit node above it, or itself: its limits}}; empty: this guard
        does not keep the fullness of nodes.
    :ivar bound: what the limits bind of growths that were seen: flavors come again.
    """

    project_limits: Mapping[str, ProjectLimits]
    users_limits: Mapping[User, Mapping[str, Amount]]
    node_ids: Mapping[str, int]
    rows: ProjectRows | None
    node_limits: Mapping[str, Mapping[str, NodeLimits]]
    bound: dict[Hashable, BoundGrowth] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class BoundGrowth:
    """What limits bind of the growth of usage by a write.

    :ivar deltas: of resources that grow, by project.
    :ivar user_deltas: {user: {resource name: amount}}, of users that have limits on what grows.
    :ivar node_ids: {node to lock: the id of its row}.
    :ivar charges: the parts that it takes of the limits of nodes; None: not known.
    """

    deltas: Sequence[BoundDelta]
    user_deltas: Mapping[User, Mapping[str, int]]
    node_ids: Mapping[str, int]
    charges: Charges | None


class Growth(NamedTuple):
    """A write that lets usage grow, the limits of its owners, and what they bind of it."""

    write: PlannedWrite
    limits: PreparedLimits
    bound: BoundGrowth


def find_growth(
    decisions: Decisions, limits: PreparedLimits, write: PlannedWrite, classes: Hashable
) -> Growth | None:
    """Return what of a write limits bind; None: its usage does not grow.

    :param classes: as ``usage_delta.find_key``.
    """
    key = usage_delta.find_key(write, classes)
    bound = limits.bound.get(key)
    if bound is None:
        growth = usage_delta.measure(write)
        if not (growth.projects or growth.users):
            return None
        bound = _bind(decisions, limits, growth)
        if key is not None:
            if len(limits.bound) >= _MOST_BOUND:
                limits.bound.clear()
            limits.bound[key] = bound
    return Growth(write, limits, bound)


def _bind(decisions: Decisions, limits: PreparedLimits, growth: UsageDelta) -> BoundGrowth:
    resources = decisions.resources
    deltas = {
        project_id: _compute_deltas(
            resources, decisions.limit_names(limits.project_limits[project_id], amounts_),
            amounts_)
        for project_id, amounts_ in growth.projects.items()}
    user_deltas = {
        user: names for user, amounts_ in growth.users.items() if user in limits.users_limits
        if (names := _compute_deltas(resources, limits.users_limits[user], amounts_))}
    nodes = {
        node_id for project_id, names in deltas.items()
        for node_id in decisions.nodes_to_lock(
            limits.project_limits[project_id], names)}
    nodes |= {project_id for project_id, _ in user_deltas}
    changes = {
        project_id: {name: sum(amounts_.get(unit, 0) for unit in resources.units(name))
                     for names in deltas.values() for name in names}
        for project_id, amounts_ in growth.changes.items()}
    bound = {
        project_id: decisions.bind(
            limits.project_limits[project_id], of_project,
            {other: of_other for other, of_other in changes.items() if other != project_id})
        for project_id, of_project in deltas.items()}
    return BoundGrowth(
        list(itertools.chain.from_iterable(bound.values())), user_deltas,
        {node_id: limits.node_ids[node_id] for node_id in nodes},
        fullness.add_charges(
            _find_charges(limits, project_id, of_project)
            for project_id, of_project in bound.items()))


def _compute_deltas(
    resources: Resources, names: Collection[str], growth: Amounts
) -> dict[str, int]:
    """Return how much each resource grows, by name; only resources that grow."""
    deltas = {}
    for name in filter(resources.is_guarded, names):
        delta = sum(growth.get(unit, 0) for unit in resources.units(name))
        if delta > 0:
            deltas[name] = delta
    return deltas


def _find_charges(
    limits: PreparedLimits, project_id: str, deltas: Iterable[BoundDelta]
) -> Charges | None:
    """Return the parts that the growth of a project takes of the limits of nodes.

    :returns: None: the fullness of nodes does not say how much there is of a resource.
    """
    node_limits = limits.node_limits.get(project_id)
    if node_limits is None:
        return None
    charges: dict[int, Charge] = {}
    for delta in deltas:
        for binding in delta.bindings:
            of_node = node_limits.get(binding.node_id)
            if of_node is None or (delta.resource_name, binding) not in of_node.bindings:
                return None
            row_id = limits.node_ids[binding.node_id]
            charge = Charge(of_node, fullness.find_part(delta.amount, binding.limit))
            earlier = charges.setdefault(row_id, charge)
            if earlier.limits is not of_node:
                return None  # two nodes share a row (``LimitNodes``)
            if earlier.part < charge.part:
                charges[row_id] = charge
    return charges


def claim_nothing(growth: Growth) -> Charges | None:
    """Return the same nodes as the charges of a growth has, without any part of their limits."""
    charges = growth.bound.charges
    return None if charges is None else {
        row_id: Charge(charge.limits, 0) for row_id, charge in charges.items()}
