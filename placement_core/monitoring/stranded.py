"""How often usual requests fit, and what none of them can use: numbers that a manager sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_core import metrics
from placement_core.changes.vector import Vector
from placement_core.context import Context
from placement_core.placement.index import CapacityIndex
from placement_core.placement.room import stranded
from placement_core.placement.room.shapes import Shape
from placement_core.placement.room.stranded import Stranded


class StrandedMetrics:
    """Sets the metrics of usual requests; for one thread.

    :param shapes: the usual requests, at least one.
    :param exclude_reserved: pooled trees are left out.
    """

    def __init__(
        self, index: CapacityIndex, shapes: Sequence[Shape], *, exclude_reserved: bool
    ) -> None:
        self._index = index
        self._shapes = shapes
        self._exclude_reserved = exclude_reserved
        #: What was found last, and the moment of which it is true.
        self._last: tuple[Vector | None, Stranded] | None = None

    def export(self, ctx: Context) -> None:
        """Set the metrics; to be called periodically.

        Where nothing was written since the last time, nothing is computed anew.
        """
        room = self._find(ctx)
        metrics.set_stranded(
            {_name_shape(shape.resources): shape.fits for shape in room.shapes},
            {name: each.by_cause for name, each in room.resource_classes.items()})

    def _find(self, ctx: Context) -> Stranded:
        snapshot = self._index.snapshot(ctx)
        if self._last is None or self._last[0] != snapshot.vector:
            self._last = snapshot.vector, stranded.find(
                snapshot, self._shapes, most_hosts=None,
                exclude_reserved=self._exclude_reserved)
        return self._last[1]


def _name_shape(resources: Mapping[str, int]) -> str:
    """Return the amounts as ``[least_stranded] shape`` has them: ``VCPU:4,MEMORY_MB:8192``."""
    return ",".join(f"{name}:{amount}" for name, amount in resources.items())
