"""Is there room? What there is of each resource class, and how often usual requests fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from markupsafe import Markup

from placement_core.http.dashboard.pictures import bars
from placement_core.http.dashboard.pictures.bars import BarPart
from placement_core.http.operations import Call
from placement_core.placement.room import fits
from placement_core.placement.room.groups import RoomFilter
from placement_core.placement.room.sums import Room


@dataclasses.dataclass(frozen=True, slots=True)
class RoomRow:
    """A resource class.

    :ivar free: what is neither used nor promised.
    """

    name: str
    room: Room
    free: int
    bar: Markup


@dataclasses.dataclass(frozen=True, slots=True)
class ShapeRow:
    """A usual request of the site.

    :ivar resources: as allocation candidates are asked for: ``VCPU:4,MEMORY_MB:8192``.
    """

    amounts: Mapping[str, int]
    resources: str
    fits: int
    exact: bool


def read_room(call: Call, conditions: RoomFilter | None = None) -> list[RoomRow]:
    """Return the room of each resource class, of all providers or of some."""
    rooms = call.services.room.measure(call.ctx, conditions or RoomFilter())
    return [RoomRow(name, room, room.free - room.promised, _draw(name, room))
            for name, room in rooms.items()]


def read_shapes(call: Call) -> list[ShapeRow]:
    """Return how often each usual request fits."""
    counts = fits.count_shapes(
        call.services.index.snapshot(call.ctx), call.services.shapes,
        exclude_reserved=call.services.host_access is not None)
    return [ShapeRow(count.shape.amounts, ",".join(
        f"{name}:{amount}" for name, amount in count.shape.amounts.items()),
        count.fits, count.exact) for count in counts]


def _draw(name: str, room: Room) -> Markup:
    return bars.draw_bar(f"room-{name}", name, [
        BarPart("used", room.used - room.held), BarPart("held", room.held),
        BarPart("promised", room.promised), BarPart("free", room.free - room.promised),
        BarPart("reserved", room.reserved)])
