"""Which room none of the site's usual requests can use, and what is exhausted there.

Of a resource class, a host's usable room is what the best usual request takes that may fill the
whole host: the number of copies that fit times its amount. The rest is stranded, and its cause is
the class that stops one more copy of that request.
Source: after the fragmentation measure of Weng et al., "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023. Differs: of the best
request only, not the expectation over all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from placement_core.placement.candidates import filters
from placement_core.placement.candidates.filters import NULL_TRACE
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import errors, part_room, shapes as site_shapes, shared_room
from placement_core.placement.room.part_room import Counts, PartRoom
from placement_core.placement.room.shapes import Shape

#: What follows the name of a class whose min_unit, max_unit or step_size is the cause.
UNITS = ":units"


@dataclasses.dataclass(frozen=True, slots=True)
class StrandedClass:
    """What is stranded of a resource class on all hosts.

    :ivar by_cause: by the class that is exhausted. The class itself: what is left is less than
        a usual request takes. A class with ``UNITS``: it is there, but min_unit, max_unit or
        step_size forbid the amount.
    """

    free: int
    stranded: int
    by_cause: dict[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class StrandedAmount:
    """What is stranded of a resource class on one host, and the cause."""

    amount: int
    cause: str


@dataclasses.dataclass(frozen=True, slots=True)
class StrandedHost:
    """A host with room that no usual request can use; by resource class."""

    uuid: str
    name: str
    stranded: dict[str, StrandedAmount]


@dataclasses.dataclass(frozen=True, slots=True)
class ShapeFits:
    """How many copies of a usual request fit on all hosts.

    :ivar exact: False: at least so many.
    """

    resources: dict[str, int]
    weight: float
    fits: int
    exact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Stranded:
    """What is stranded.

    :ivar resource_classes: those that a usual request names.
    :ivar host_count: how many hosts have stranded room; ``hosts`` are the first of them, those
        that lose the most average requests first. None: they are not listed.
    """

    resource_classes: dict[str, StrandedClass]
    host_count: int
    hosts: list[StrandedHost] | None
    shapes: list[ShapeFits]


def find(
    snapshot: CapacitySnapshot, shapes: Sequence[Shape], *, most_hosts: int | None,
    exclude_reserved: bool = False,
) -> Stranded:
    """Return what none of the shapes can use.

    What sharing providers have is no host's, so none of it is stranded; requests may use it.

    :param most_hosts: how many hosts to list at most; None: they are not listed.
    :param exclude_reserved: pooled trees are left out.
    :raises errors.NoShapes: there are none.
    """
    if not shapes:
        raise errors.NoShapes
    survey = _Survey(snapshot, exclude_reserved=exclude_reserved)
    rooms = [_ShapeRoom.measure(survey, shape) for shape in shapes]
    demand = site_shapes.compute_demand(shapes)
    lost = {name: _find_lost(survey, name, [room for room in rooms if name in room.names])
            for name in demand}
    return Stranded(
        resource_classes={name: each.summarize() for name, each in lost.items()},
        host_count=int(np.count_nonzero(np.any([each.amounts for each in lost.values()], axis=0))),
        hosts=None if most_hosts is None else _list_hosts(survey, lost, demand, most_hosts),
        shapes=[room.count() for room in rooms])


class _Survey:
    """The hosts, and how often each asked amount of a class fits on them.

    :ivar roots: the rows of the hosts' roots.
    """

    def __init__(self, snapshot: CapacitySnapshot, *, exclude_reserved: bool) -> None:
        self.snapshot = snapshot
        hosts = snapshot.layout.root == np.arange(snapshot.size)
        self._reserved = filters.find_reserved(
            snapshot, CandidatesRequest(())) if exclude_reserved else None
        if self._reserved is not None:
            hosts &= ~self._reserved
        self.roots: Rows = np.flatnonzero(hosts)
        self._rooms: dict[tuple[str, int], tuple[PartRoom, Mask]] = {}
        self._free: dict[str, Counts] = {}

    def measure(self, name: str, amount: int) -> tuple[PartRoom, Mask]:
        """Return how often an amount fits, and the hosts where only its units forbid it."""
        if (name, amount) not in self._rooms:
            snapshot, class_id = self.snapshot, self.snapshot.names.class_ids[name]
            part, = filters.make_unsuffixed_parts(
                snapshot, RequestGroup("", {name: amount}), NULL_TRACE, self._reserved)
            room = part_room.measure(snapshot, part, self.roots)
            column = snapshot.column(class_id)
            unfit = np.zeros(snapshot.size, dtype=bool)
            rows = column.rows[(column.free >= amount) & ~part.home[column.rows]]
            unfit[snapshot.layout.root[rows]] = True
            self._rooms[name, amount] = room, unfit[self.roots] & (room.alone == 0)
        return self._rooms[name, amount]

    def read_free(self, name: str) -> Counts:
        """Return how much of a class is free on each host."""
        if name not in self._free:
            class_id = self.snapshot.names.class_ids.get(name)
            self._free[name] = (
                np.zeros(len(self.roots), dtype=np.int64) if class_id is None
                else self._add_up_free(class_id))
        return self._free[name]

    def _add_up_free(self, class_id: int) -> Counts:
        rows = self.snapshot.column(class_id).rows
        sharing = self.snapshot.sharing_providers()
        if sharing:
            rows = rows[~np.isin(rows, list(sharing))]
        free = np.maximum(part_room.read_free(self.snapshot, class_id, rows), 0)
        return part_room.add_up(self.snapshot, rows, free)[self.roots]


@dataclasses.dataclass(frozen=True, slots=True)
class _ShapeRoom:
    """How often a shape fits on each host.

    :ivar names: its classes; the arrays have a line for each.
    :ivar counts: how often its amount of the class alone fits.
    :ivar ratios: how often it is there, regardless of units and providers.
    :ivar unfit: where only the units of the class are in the way.
    """

    shape: Shape
    names: list[str]
    rooms: list[PartRoom]
    counts: Counts
    ratios: npt.NDArray[np.float64]
    unfit: Mask
    copies: Counts

    @classmethod
    def measure(cls, survey: _Survey, shape: Shape) -> _ShapeRoom:
        """Measure a shape; nothing fits that has a class that does not exist."""
        names = [*shape.amounts]
        nothing = np.zeros(len(survey.roots), dtype=np.int64)
        known = survey.snapshot.names.class_ids
        measured = {name: survey.measure(name, amount)
                    for name, amount in shape.amounts.items() if name in known}
        counts = np.stack([
            measured[name][0].alone if name in measured else nothing for name in names])
        return cls(
            shape, names, [room for room, _ in measured.values()], counts,
            np.stack([survey.read_free(name) / amount for name, amount in shape.amounts.items()]),
            np.stack([measured[name][1] if name in measured else nothing > 0 for name in names]),
            counts.min(axis=0))

    def count(self) -> ShapeFits:
        """Return how many copies fit in all."""
        division = shared_room.divide(self.copies, self.rooms)
        total = int(division.copies.sum())
        return ShapeFits(
            dict(self.shape.amounts), self.shape.weight, total, total == division.most)

    def find_causes(self, name: str) -> tuple[Rows, Mask]:
        """Return what stops one more copy on each host: the place in ``names``, and its units.

        That is the class ``name`` itself where it does; else the scarcest.
        """
        stopping = self.counts == self.copies
        causes = np.argmin(np.where(stopping, self.ratios, np.inf), axis=0)
        own = self.names.index(name)
        causes[stopping[own]] = own
        return causes, np.take_along_axis(self.unfit, causes[np.newaxis], axis=0)[0]


@dataclasses.dataclass(frozen=True, slots=True)
class _Lost:
    """What is stranded of a class on each host.

    :ivar causes: the place of the cause in ``cause_names``.
    """

    free: Counts
    amounts: Counts
    causes: Rows
    cause_names: list[str]

    def summarize(self) -> StrandedClass:
        """Return the sums."""
        sums = np.zeros(len(self.cause_names), dtype=np.int64)
        np.add.at(sums, self.causes, self.amounts)
        by_cause = {name: amount for name, amount in zip(
            self.cause_names, sums.tolist(), strict=True) if amount}
        return StrandedClass(
            int(self.free.sum()), int(self.amounts.sum()),
            dict(sorted(by_cause.items(), key=lambda pair: -pair[1])))


def _find_lost(survey: _Survey, name: str, rooms: Sequence[_ShapeRoom]) -> _Lost:
    """Return what none of the shapes can use of a class that all of them name."""
    free = survey.read_free(name)
    usable = np.stack([room.copies * room.shape.amounts[name] for room in rooms])
    # Of shapes that use equally much, the one that comes closest to another copy.
    nearness = np.stack([room.ratios.min(axis=0) - room.copies for room in rooms])
    best = np.argmax(np.where(usable == usable.max(axis=0), nearness, -np.inf), axis=0)
    cause_names = sorted({other for room in rooms for other in room.names})
    cause_names += [f"{other}{UNITS}" for other in cause_names]
    causes = np.zeros(len(free), dtype=np.intp)
    for at, room in enumerate(rooms):
        places, units = room.find_causes(name)
        numbers = np.array([cause_names.index(other) for other in room.names], dtype=np.intp)
        causes = np.where(best == at, numbers[places] + units * (len(cause_names) // 2), causes)
    amounts = np.maximum(free - usable.max(axis=0), 0)
    return _Lost(free, amounts, causes, cause_names)


def _list_hosts(
    survey: _Survey, lost: Mapping[str, _Lost], demand: Mapping[str, float], most: int
) -> list[StrandedHost]:
    """Return the hosts that lose the most, in average requests."""
    if not len(survey.roots):
        return []
    losses = np.sum([each.amounts / demand[name] for name, each in lost.items()], axis=0)
    order = np.argsort(-losses, kind="stable")[:most]
    hosts = []
    for at in order[losses[order] > 0].tolist():
        provider = survey.snapshot.entry(int(survey.roots[at])).provider
        hosts.append(StrandedHost(provider.uuid, provider.name, {
            name: StrandedAmount(int(each.amounts[at]), each.cause_names[each.causes[at]])
            for name, each in lost.items() if each.amounts[at]}))
    return hosts
