"""Plain records between the database and the arrays."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class InventoryRow(NamedTuple):
    """One class on one provider; ``capacity`` is exact, however large it is."""

    class_id: int
    capacity: int
    used: int
    min_unit: int
    max_unit: int
    step_size: int
    total: int
    reserved: int


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider with everything that belongs to it.

    :ivar traits: trait ids.
    :ivar aggregates: aggregate uuids, as they were given.
    :ivar pooled: it is the root of a pooled tree, or protected in one (``reserved_trees``).
    """

    id: int
    uuid: str
    name: str
    generation: int
    parent_id: int | None
    inventories: tuple[InventoryRow, ...] = ()
    traits: frozenset[int] = frozenset()
    aggregates: frozenset[str] = frozenset()
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    revision: int = 0
    pooled: bool = False


class NameIndex:
    """Resource classes and traits, by id and by name."""

    __slots__ = ("class_ids", "class_names", "trait_ids", "trait_names")

    def __init__(self, classes: Mapping[int, str], traits: Mapping[int, str]) -> None:
        self.class_names = dict(classes)
        self.trait_names = dict(traits)
        self.class_ids = {name: id_ for id_, name in classes.items()}
        self.trait_ids = {name: id_ for id_, name in traits.items()}

    def covers(self, rows: Iterable[ProviderRow | None]) -> bool:
        """Say whether every class and trait of these providers has its name here."""
        return all(
            row.traits <= self.trait_names.keys()
            and all(inventory.class_id in self.class_names for inventory in row.inventories)
            for row in rows if row is not None)
