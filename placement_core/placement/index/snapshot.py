"""One immutable version of everything that the capacity index holds.

A full load and a refresh are the same operation: ``CapacitySnapshot.apply_changes``, from an
empty snapshot or from the one before. Versions share what did not change, so a
refresh after a claim copies one array for each class that was claimed.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, TypeVar

import numpy as np
import os_traits

from placement_core.changes.vector import Vector
from placement_core.placement import records
from placement_core.placement.index.columns import NO_INVENTORY, NO_ROWS, InventoryColumn, RowSet
from placement_core.placement.index.entries import EntryTable
from placement_core.placement.index.layout import Layout, ProviderPosition
from placement_core.placement.index.records import InventoryRow, NameIndex, ProviderRow

_Key = TypeVar("_Key", int, str)


class ProviderEntry:
    """The provider of one row, with all that belongs to it.

    :ivar traits: trait ids.
    :ivar aggregates: aggregate uuids.
    :ivar pooled: it is the root of a pooled tree, or protected in one (``reserved_trees``).
    :ivar summary: of a root, the rendered summaries of its tree, filled on first use.
        ``answers`` renders them from the entries of the tree, so a root's entry is
        replaced when any of them is.
    :ivar list_item: (template, document): the rendered item of a list of providers, in
        the template used last; it too is dropped with the entry.
    """

    __slots__ = (
        "aggregates", "inventories", "list_item", "pooled", "provider", "revision", "summary",
        "traits",
    )

    def __init__(
        self,
        provider: records.Provider,
        inventories: tuple[InventoryRow, ...],
        traits: frozenset[int],
        aggregates: frozenset[str],
        revision: int = 0,
        *,
        pooled: bool = False,
    ) -> None:
        self.provider = provider
        self.inventories = inventories
        self.traits = traits
        self.aggregates = aggregates
        self.revision = revision
        self.pooled = pooled
        self.summary: bytes | None = None
        self.list_item: tuple[object, bytes] | None = None

    def renew(self, provider: records.Provider | None = None) -> ProviderEntry:
        """Return a copy without the rendered texts, with ``provider`` if one is given."""
        return ProviderEntry(provider or self.provider, self.inventories, self.traits,
                             self.aggregates, self.revision, pooled=self.pooled)

    def inventory(self, class_id: int) -> InventoryRow:
        """Return the inventory of a class that is there."""
        return next(inventory for inventory in self.inventories if inventory.class_id == class_id)


class CapacitySnapshot:
    """The capacity index at one moment.

    :ivar vector: the moment, in the change log.
    :ivar entries: what each row holds; None for vacant rows.
    :ivar columns: inventories by resource class id.
    :ivar traits: the rows that have a trait, by trait id.
    :ivar aggregates: the rows of the members, by aggregate uuid.
    :ivar pooled: the roots of pooled trees, and what is protected in them.
    """

    __slots__ = (
        "_sharing", "aggregates", "columns", "entries", "layout", "names", "pooled", "traits",
        "vector",
    )

    def __init__(
        self,
        vector: Vector | None,
        names: NameIndex,
        layout: Layout,
        entries: EntryTable[ProviderEntry],
        columns: dict[int, InventoryColumn],
        traits: dict[int, RowSet],
        aggregates: dict[str, RowSet],
        pooled: RowSet = NO_ROWS,
    ) -> None:
        self.vector = vector
        self.names = names
        self.layout = layout
        self.entries = entries
        self.columns = columns
        self.traits = traits
        self.aggregates = aggregates
        self.pooled = pooled
        self._sharing: dict[int, RowSet] | None = None

    @classmethod
    def build(
        cls, rows: Iterable[ProviderRow], names: NameIndex, vector: Vector | None = None
    ) -> CapacitySnapshot:
        """Make a snapshot of all providers."""
        empty = cls(None, names, Layout(), EntryTable(), {}, {}, {})
        return empty.apply_changes({row.id: row for row in rows}, names, vector)

    @property
    def size(self) -> int:
        """Return how many rows there are, vacant ones included."""
        return self.layout.size

    def entry(self, row: int) -> ProviderEntry:
        """Return what a row that is not vacant holds."""
        entry = self.entries[row]
        if entry is None:
            raise LookupError(f"row {row} is vacant")
        return entry

    def column(self, class_id: int) -> InventoryColumn:
        """Return the inventories of a class, maybe none."""
        return self.columns.get(class_id, NO_INVENTORY)

    def rows_with_trait(self, trait_id: int) -> RowSet:
        """Return the rows that have a trait, maybe none."""
        return self.traits.get(trait_id, NO_ROWS)

    def rows_in_aggregate(self, aggregate: str) -> RowSet:
        """Return the rows in an aggregate, maybe none."""
        return self.aggregates.get(aggregate, NO_ROWS)

    def sharing_providers(self) -> dict[int, RowSet]:
        """Return the sharing providers and where they are anchored.

        :returns: {row: rows of the roots of its own tree and of every tree
            with a member in one of its aggregates}.
        """
        if self._sharing is None:
            root = self.layout.root
            trait = self.names.trait_ids.get(os_traits.MISC_SHARES_VIA_AGGREGATE)
            sharing = {}
            for row in [] if trait is None else self.rows_with_trait(trait).rows.tolist():
                anchors = [root[self.rows_in_aggregate(uuid).rows]
                           for uuid in self.entry(row).aggregates]
                sharing[row] = RowSet(np.unique(np.concatenate((root[[row]], *anchors))))
            self._sharing = sharing
        return self._sharing

    def apply_changes(
        self, changes: Mapping[int, ProviderRow | None], names: NameIndex, vector: Vector | None
    ) -> CapacitySnapshot:
        """Return the snapshot after some providers changed.

        :param changes: by provider id; None for providers that are gone.
        """
        layout, new_entries = self._place(changes)
        renamed = _find_renamed(self, names)
        changed = renamed.union(new_entries)
        edits = new_entries | {
            row: self.entry(row).renew() for row in renamed.difference(new_entries)
        } | _renew_roots(self.entries, [self.layout, layout], changed)
        columns, traits, aggregates = _compare_entries(self.entries, new_entries)
        snapshot = CapacitySnapshot(
            vector, names, layout, self.entries.apply_edits(edits, layout.size),
            self.columns | {
                class_id: self.column(class_id).apply_edits(edits)
                for class_id, edits in columns.items()},
            _apply_set_edits(self.traits, traits), _apply_set_edits(self.aggregates, aggregates),
            _update_pooled(self, new_entries),
        )
        trait = names.trait_ids.get(os_traits.MISC_SHARES_VIA_AGGREGATE)
        if layout is self.layout and not aggregates and trait not in traits:
            snapshot._sharing = self._sharing
        return snapshot

    def _place(
        self, changes: Mapping[int, ProviderRow | None]
    ) -> tuple[Layout, dict[int, ProviderEntry | None]]:
        """Return the new layout and the new entries, {row: entry or None}."""
        removed = self._find_removed(changes)
        placed = self._find_placed(changes, removed)
        layout = self.layout
        suspects: set[int] = set()
        if placed or removed:
            layout, suspects = self.layout.apply_changes(placed, removed)
        find_uuid = self._make_uuid_lookup(layout, changes)
        new_entries: dict[int, ProviderEntry | None] = {
            self.layout.row_of_id[id_]: None for id_ in removed}
        new_entries |= self._make_entries(layout, changes, find_uuid)
        new_entries |= self._move_entries(layout, suspects.difference(new_entries), find_uuid)
        return layout, new_entries

    def _find_removed(self, changes: Mapping[int, ProviderRow | None]) -> dict[int, str]:
        """Return {id: uuid} of the providers whose row is vacated.

        SQLite gives the id of a removed provider to the next one: then the
        row goes and another one comes.
        """
        rows = self.layout.row_of_id
        return {
            id_: uuid for id_, row in changes.items() if id_ in rows
            and (uuid := self.entry(rows[id_]).provider.uuid) != (row and row.uuid)}

    def _find_placed(
        self, changes: Mapping[int, ProviderRow | None], removed: Collection[int]
    ) -> dict[int, ProviderPosition]:
        """Return the positions of providers that are new or have another parent."""
        return {
            id_: ProviderPosition(row.uuid, row.parent_id)
            for id_, row in changes.items() if row is not None
            and (id_ in removed or not self._is_there(id_, row.parent_id))}

    def _make_uuid_lookup(
        self, layout: Layout, changes: Mapping[int, ProviderRow | None]
    ) -> Callable[[int], str]:
        """Return a function from a row of the new layout to its provider's uuid."""
        uuids = {layout.row_of_id[id_]: row.uuid for id_, row in changes.items() if row}
        return lambda row: uuids.get(row) or self.entry(row).provider.uuid

    def _make_entries(
        self, layout: Layout, changes: Mapping[int, ProviderRow | None],
        find_uuid: Callable[[int], str],
    ) -> dict[int, ProviderEntry]:
        """Return the entries of the providers that changed, by row."""
        entries = {}
        for id_, provider_row in changes.items():
            if provider_row is not None:
                row = layout.row_of_id[id_]
                old = self.entries[row] if row < len(self.entries) else None
                parent = layout.parents.get(row)
                entries[row] = _make_entry(
                    provider_row, None if parent is None else find_uuid(parent),
                    find_uuid(int(layout.root[row])), old)
        return entries

    def _move_entries(
        self, layout: Layout, rows: Iterable[int], find_uuid: Callable[[int], str]
    ) -> dict[int, ProviderEntry]:
        """Return new entries, by row, for those of ``rows`` whose parent or root is another."""
        entries = {}
        for row in rows:
            old = self.entry(row)
            parent = layout.parents.get(row)
            provider = dataclasses.replace(
                old.provider, root_uuid=find_uuid(int(layout.root[row])),
                parent_uuid=None if parent is None else find_uuid(parent))
            if provider != old.provider:
                entries[row] = old.renew(provider)
        return entries

    def _is_there(self, id_: int, parent_id: int | None) -> bool:
        """Say whether a provider has a row and this parent already."""
        row = self.layout.row_of_id.get(id_)
        if row is None:
            return False
        above = self.layout.parents.get(row)
        return (None if above is None else self.entry(above).provider.id) == parent_id


def _make_entry(
    row: ProviderRow, parent_uuid: str | None, root_uuid: str, old: ProviderEntry | None
) -> ProviderEntry:
    provider = records.Provider(
        id=row.id, uuid=row.uuid, name=row.name, generation=row.generation,
        root_uuid=root_uuid, parent_uuid=parent_uuid,
        created_at=row.created_at, updated_at=row.updated_at)
    # Equal sets stay one object: versions and like providers share them.
    return ProviderEntry(
        provider, row.inventories,
        old.traits if old and old.traits == row.traits else row.traits,
        old.aggregates if old and old.aggregates == row.aggregates else row.aggregates,
        row.revision, pooled=row.pooled)


def _renew_roots(
    entries: EntryTable[ProviderEntry], layouts: Iterable[Layout], changed: Set[int]
) -> dict[int, ProviderEntry]:
    """Return new entries, by row, for the roots of trees that a changed row is or was in."""
    tops: set[int] = set()
    for layout in layouts:
        rows = [row for row in changed if row < layout.size]
        tops.update(layout.root[rows].tolist())
    return {top: entry.renew() for top in tops - changed
            if top >= 0 and (entry := entries[top]) is not None}


def _find_renamed(before: CapacitySnapshot, names: NameIndex) -> set[int]:
    """Return the rows whose summary has a name that changed."""
    if names is before.names:
        return set()
    holders = [before.column(id_).rows for id_, name in before.names.class_names.items()
               if names.class_names.get(id_) != name]
    holders += [before.rows_with_trait(id_).rows for id_, name in before.names.trait_names.items()
                if names.trait_names.get(id_) != name]
    return {row for rows in holders for row in rows.tolist()}


#: Edits of row sets: {key: (rows added, rows removed)}.
_SetEdits = dict[_Key, tuple[list[int], list[int]]]


def _compare_entries(
    entries: EntryTable[ProviderEntry], new_entries: Mapping[int, ProviderEntry | None]
) -> tuple[dict[int, dict[int, InventoryRow | None]], _SetEdits[int], _SetEdits[str]]:
    """Compare entries before and after: columns by class, traits, aggregates."""
    columns: dict[int, dict[int, InventoryRow | None]] = defaultdict(dict)
    traits: _SetEdits[int] = defaultdict(lambda: ([], []))
    aggregates: _SetEdits[str] = defaultdict(lambda: ([], []))
    nothing: frozenset[Any] = frozenset()
    count = len(entries)
    for row, new in new_entries.items():
        old = entries[row] if row < count else None
        before = old.inventories if old else ()
        after = new.inventories if new else ()
        if before != after:
            for inventory in before:
                columns[inventory.class_id][row] = None
            for inventory in after:
                columns[inventory.class_id][row] = inventory
        _note_differences(
            traits, row, old.traits if old else nothing, new.traits if new else nothing)
        _note_differences(aggregates, row,
                          old.aggregates if old else nothing, new.aggregates if new else nothing)
    return columns, traits, aggregates


def _update_pooled(
    before: CapacitySnapshot, new_entries: Mapping[int, ProviderEntry | None]
) -> RowSet:
    pooled_before = set(before.pooled.rows.tolist())
    pooled_now = {row for row, entry in new_entries.items() if entry is not None and entry.pooled}
    added = pooled_now - pooled_before
    removed = (pooled_before & new_entries.keys()) - pooled_now
    return before.pooled.apply_edits(added, removed) if added or removed else before.pooled


def _note_differences(
    edits: _SetEdits[_Key], row: int, before: frozenset[_Key], after: frozenset[_Key]
) -> None:
    if before is not after:
        for key in after - before:
            edits[key][0].append(row)
        for key in before - after:
            edits[key][1].append(row)


def _apply_set_edits(sets: dict[_Key, RowSet], edits: _SetEdits[_Key]) -> dict[_Key, RowSet]:
    if not edits:
        return sets
    sets = dict(sets)
    for key, (added, removed) in edits.items():
        changed = sets.get(key, NO_ROWS).apply_edits(added, removed)
        if len(changed.rows):
            sets[key] = changed
        else:
            sets.pop(key, None)
    return sets
