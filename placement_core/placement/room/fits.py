"""How many more copies of a request fit, on which hosts, and what stops the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from placement_core.placement.candidates import explain, reasons, search
from placement_core.placement.candidates.filters import FilterStep, Trace
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.candidates.search import Choices
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import copies, obstacles
from placement_core.placement.room.copies import Copies
from placement_core.placement.room.obstacles import Obstacle
from placement_core.placement.room.shapes import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class HostFits:
    """How often a request fits on a host if no other host gets any.

    A host is a tree of providers, known by its root.
    """

    uuid: str
    name: str
    fits: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoppedBy:
    """What stops the next copy: a sentence for people, and how many hosts for which reason."""

    reason: str
    obstacles: list[Obstacle]


@dataclasses.dataclass(frozen=True, slots=True)
class Fits:
    """How often a request fits.

    :ivar fits: how many copies can be placed one after the other, at most.
    :ivar exact: False: at least so many can; whether there is room for more was too hard to say.
    :ivar host_count: on how many hosts at least one fits; ``hosts`` are the first of them.
    :ivar hosts: those with room for the most copies come first.
    """

    fits: int
    exact: bool
    host_count: int
    hosts: list[HostFits]
    stopped_by: StoppedBy


@dataclasses.dataclass(frozen=True, slots=True)
class ShapeCount:
    """How often a usual request fits.

    :ivar exact: False: at least so often.
    """

    shape: Shape
    fits: int
    exact: bool


def count_shapes(
    snapshot: CapacitySnapshot, shapes: Sequence[Shape], *, exclude_reserved: bool = False
) -> list[ShapeCount]:
    """Return how often each usual request fits if none of the others comes.

    :param exclude_reserved: pooled trees are left out.
    """
    counts = []
    for shape in shapes:
        request = CandidatesRequest((RequestGroup("", shape.amounts),))
        if not shape.amounts.keys() <= snapshot.names.class_ids.keys():
            # Nothing has a class that does not exist.
            counts.append(ShapeCount(shape, 0, True))
            continue
        choices = search.choose(snapshot, request, exclude_reserved=exclude_reserved)
        total = copies.count(snapshot, request, choices)
        counts.append(ShapeCount(shape, total.total, total.exact))
    return counts


def find(
    snapshot: CapacitySnapshot, request: CandidatesRequest, *, most_hosts: int,
    exclude_reserved: bool = False,
) -> Fits:
    """Return how often a request fits.

    :param most_hosts: how many hosts to list at most.
    :param exclude_reserved: pooled trees are left out unless the request names them.
    :raises errors.UnknownRequestedClass: a class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    """
    trace = Trace()
    choices = search.choose(snapshot, request, trace, exclude_reserved=exclude_reserved)
    found = copies.count(snapshot, request, choices)
    stops = obstacles.find(snapshot, request, trace.steps, choices, found)
    reason = _format_obstacles(found, stops) if found.total else _explain_nothing(
        snapshot, request, choices, trace.steps)
    return Fits(
        found.total, found.exact, int(np.count_nonzero(found.on_each)),
        _list_hosts(snapshot, choices, found, most_hosts), StoppedBy(reason, stops))


def _list_hosts(
    snapshot: CapacitySnapshot, choices: Choices, found: Copies, most: int
) -> list[HostFits]:
    """Return the hosts with room for the most copies."""
    order = np.argsort(-found.on_each, kind="stable")[:most]
    hosts = []
    for at in order[found.on_each[order] > 0].tolist():
        provider = snapshot.entry(int(choices.anchors[at])).provider
        hosts.append(HostFits(provider.uuid, provider.name, int(found.on_each[at])))
    return hosts


def _explain_nothing(
    snapshot: CapacitySnapshot, request: CandidatesRequest, choices: Choices,
    steps: list[FilterStep],
) -> str:
    """Say why not even one copy fits."""
    reason = reasons.explain_filters(snapshot, request, steps)
    if reason is None:
        combinations = explain.examine(choices)
        reason = reasons.explain_combinations(
            choices.plan, combinations.dropped, complete=combinations.complete)
    return reason


def _format_obstacles(found: Copies, stops: list[Obstacle]) -> str:
    """Say what stops the next copy, a clause for each reason."""
    clauses = "; ".join(_format_obstacle(obstacle) for obstacle in stops)
    more = "" if found.exact else "perhaps there is room for more: "
    return f"{more}{clauses}"


def _format_obstacle(obstacle: Obstacle) -> str:
    one = obstacle.hosts == 1
    hosts = "1 host" if one else f"{obstacle.hosts} hosts"
    if obstacle.filter == obstacles.RESOURCES:
        return f"{hosts} {'has' if one else 'have'} no room for {obstacle.value}"
    if obstacle.filter == obstacles.COMBINATIONS:
        return f"{hosts} {'has' if one else 'have'} room for each part, but not for all at once"
    return f"{hosts} {'is' if one else 'are'} left out by {obstacle.filter}={obstacle.value}"
