"""Snapshots made of plain records, for tests that need no database."""

from __future__ import annotations

import uuid

from placement_core.placement.index.records import InventoryRow, NameIndex, ProviderRow
from placement_core.placement.index.snapshot import CapacitySnapshot

SHARES = "MISC_SHARES_VIA_AGGREGATE"
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GPU")
TRAITS = (SHARES, "CUSTOM_A", "CUSTOM_B", "CUSTOM_C")

NAMES = NameIndex(dict(enumerate(CLASSES)), dict(enumerate(TRAITS, 1)))


def uuid_of(number: int) -> str:
    """Return the uuid of the provider or aggregate with a number."""
    return str(uuid.UUID(int=number))


def inventory(
    resource_class: str, capacity: int, used: int = 0, *,
    min_unit: int = 1, max_unit: int = 2**31 - 1, step_size: int = 1,
    total: int | None = None, reserved: int = 0,
) -> InventoryRow:
    """Make an inventory by the name of its class; the total is its capacity, if not given."""
    return InventoryRow(
        NAMES.class_ids[resource_class], capacity, used, min_unit, max_unit, step_size,
        capacity if total is None else total, reserved)


def provider(
    number: int, *inventories: InventoryRow, parent: int | None = None, traits=(), aggregates=(),
    generation: int = 0, name: str | None = None, pooled: bool = False,
) -> ProviderRow:
    """Make a provider; it and its aggregates are known by numbers."""
    return ProviderRow(
        id=number, uuid=uuid_of(number), name=name or f"provider-{number}",
        generation=generation, parent_id=parent,
        inventories=tuple(sorted(inventories)),
        traits=frozenset(NAMES.trait_ids[name] for name in traits),
        aggregates=frozenset(map(uuid_of, aggregates)), pooled=pooled)


def build(*rows: ProviderRow) -> CapacitySnapshot:
    """Make a snapshot of providers."""
    return CapacitySnapshot.build(rows, NAMES)


def describe(snapshot: CapacitySnapshot) -> dict:
    """Return all a snapshot says, by uuids instead of rows, to compare snapshots."""
    rows = {row: entry.provider.uuid for row, entry in enumerate(snapshot.entries) if entry}
    layout = snapshot.layout

    def members(sets):
        return {key: {rows[row] for row in held.rows.tolist()} for key, held in sets.items()}

    columns = {}
    for class_id, column in snapshot.columns.items():
        values = {}
        for at, row in enumerate(column.rows.tolist()):
            values[rows[row]] = (
                int(column.free[at]), int(column.min_unit[at]), int(column.max_unit[at]),
                int(column.step_size[at]))
        if values:
            columns[class_id] = values
    return {
        "providers": {
            entry.provider.uuid: (
                entry.provider, entry.inventories, entry.traits, entry.aggregates,
                entry.revision)
            for entry in snapshot.entries if entry},
        "pooled": {rows[row] for row in snapshot.pooled.rows.tolist()},
        "rows": {
            uuid: rows[row] for uuid, row in layout.row_of_uuid.items()},
        "uuid characters": {
            rows[row]: characters.tobytes().decode()
            for row, characters in enumerate(layout.uuid_characters) if characters.any()},
        "ids": {id_: rows[row] for id_, row in layout.row_of_id.items()},
        "roots": {rows[row]: rows[int(root)]
                  for row, root in enumerate(layout.root) if root >= 0},
        "parents": {rows[row]: rows[parent] for row, parent in layout.parents.items()},
        "trees": {rows[root]: {rows[row] for row in tree}
                  for root, tree in layout.trees.items()},
        "columns": columns,
        "traits": members(snapshot.traits),
        "aggregates": members(snapshot.aggregates),
        "sharing": {rows[row]: anchors
                    for row, anchors in members(snapshot.sharing_providers()).items()},
        "classes": snapshot.names.class_ids,
        "trait names": snapshot.names.trait_ids,
    }
