"""One version of everything the capacity index knows; immutable.

A full load and a refresh are the same operation: ``World.changed``, from an
empty world or from the one before. Versions share what did not change, so a
refresh after a claim copies one array for each class that was claimed.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeVar

import numpy as np
import os_traits

from placement_core.changes.vector import Vector
from placement_core.placement import records
from placement_core.placement.index.columns import NO_INVENTORY, NO_ROWS, Column, RowSet
from placement_core.placement.index.layout import Layout, Place
from placement_core.placement.index.rows import Inventory, Names, ProviderRow

_Key = TypeVar("_Key", int, str)


class Entry:
    """What is known about the provider of one row.

    :ivar traits: trait ids.
    :ivar aggregates: aggregate uuids.
    :ivar pooled: it is the root of a pooled tree (``reserved_trees``).
    :ivar summary: of a root, what an answer says of its tree, once somebody
        needed it. It is what ``answers`` makes of the entries of the tree, so a
        root's entry goes when any of them does.
    :ivar listed: (form, document): its part of a list of providers in the form that
        was asked for last; it too goes with the entry.
    """

    __slots__ = (
        "aggregates", "inventories", "listed", "pooled", "provider", "revision", "summary",
        "traits",
    )

    def __init__(
        self,
        provider: records.Provider,
        inventories: tuple[Inventory, ...],
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
        self.listed: tuple[object, bytes] | None = None

    def renewed(self, provider: records.Provider | None = None) -> Entry:
        """Return the same without what was made of it, for ``provider`` if given."""
        return Entry(provider or self.provider, self.inventories, self.traits,
                     self.aggregates, self.revision, pooled=self.pooled)

    def inventory(self, class_id: int) -> Inventory:
        """Return the inventory of a class that is there."""
        return next(each for each in self.inventories if each.class_id == class_id)


class World:
    """The capacity index at one moment.

    :ivar vector: the moment, in the change log.
    :ivar entries: what each row holds; None for vacant rows.
    :ivar columns: inventories by resource class id.
    :ivar traits: who has a trait, by trait id.
    :ivar aggregates: who is a member, by aggregate uuid.
    :ivar pooled: the roots of pooled trees.
    """

    __slots__ = (
        "_sharing", "aggregates", "columns", "entries", "layout", "names", "pooled", "traits",
        "vector",
    )

    def __init__(
        self,
        vector: Vector | None,
        names: Names,
        layout: Layout,
        entries: list[Entry | None],
        columns: dict[int, Column],
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
        cls, rows: Iterable[ProviderRow], names: Names, vector: Vector | None = None
    ) -> World:
        """Make a world of all providers."""
        empty = cls(None, names, Layout(), [], {}, {}, {})
        return empty.changed({row.id: row for row in rows}, names, vector)

    @property
    def size(self) -> int:
        """Return how many rows there are, vacant ones included."""
        return self.layout.size

    def entry(self, row: int) -> Entry:
        """Return what a row that is not vacant holds."""
        entry = self.entries[row]
        if entry is None:
            raise LookupError(f"row {row} is vacant")
        return entry

    def column(self, class_id: int) -> Column:
        """Return the inventories of a class, maybe none."""
        return self.columns.get(class_id, NO_INVENTORY)

    def having(self, trait_id: int) -> RowSet:
        """Return the rows that have a trait, maybe none."""
        return self.traits.get(trait_id, NO_ROWS)

    def members(self, aggregate: str) -> RowSet:
        """Return the rows in an aggregate, maybe none."""
        return self.aggregates.get(aggregate, NO_ROWS)

    def sharing(self) -> dict[int, RowSet]:
        """Return the sharing providers and where they are anchored.

        :returns: {row: rows of the roots of its own tree and of every tree
            with a member in one of its aggregates}.
        """
        if self._sharing is None:
            root = self.layout.root
            trait = self.names.trait_ids.get(os_traits.MISC_SHARES_VIA_AGGREGATE)
            sharing = {}
            for row in [] if trait is None else self.having(trait).rows.tolist():
                reached = [root[self.members(uuid).rows]
                           for uuid in self.entry(row).aggregates]
                sharing[row] = RowSet(np.unique(np.concatenate((root[[row]], *reached))))
            self._sharing = sharing
        return self._sharing

    def changed(
        self, changes: Mapping[int, ProviderRow | None], names: Names, vector: Vector | None
    ) -> World:
        """Return the world after some providers changed.

        :param changes: by provider id; None for providers that are gone.
        """
        layout, fresh = self._placed(changes)
        entries = list(self.entries)
        entries.extend([None] * (layout.size - len(entries)))
        for row, entry in fresh.items():
            entries[row] = entry
        shown_anew = _renamed(self, names)
        for row in shown_anew.difference(fresh):
            entries[row] = self.entry(row).renewed()
        _forget_trees(entries, [self.layout, layout], shown_anew.union(fresh))
        columns, traits, aggregates = _edits(self.entries, fresh)
        world = World(
            vector, names, layout, entries,
            self.columns | {
                class_id: self.column(class_id).edited(edits)
                for class_id, edits in columns.items()},
            _edited(self.traits, traits), _edited(self.aggregates, aggregates),
            _pooled(self, fresh),
        )
        trait = names.trait_ids.get(os_traits.MISC_SHARES_VIA_AGGREGATE)
        if layout is self.layout and not aggregates and trait not in traits:
            world._sharing = self._sharing
        return world

    def _placed(
        self, changes: Mapping[int, ProviderRow | None]
    ) -> tuple[Layout, dict[int, Entry | None]]:
        """Return the new layout and the new entries, {row: entry or None}."""
        rows = self.layout.row_of_id
        # SQLite gives the id of a removed provider to the next one: then the
        # row goes and another one comes.
        removed = {id_: known for id_, row in changes.items() if id_ in rows
                   and (known := self.entry(rows[id_]).provider.uuid) != (row and row.uuid)}
        placed = {id_: Place(row.uuid, row.parent_id)
                  for id_, row in changes.items() if row is not None
                  and (id_ in removed or not self._is_there(id_, row.parent_id))}
        fresh: dict[int, Entry | None] = {rows[id_]: None for id_ in removed}
        layout = self.layout
        suspects: set[int] = set()
        if placed or removed:
            layout, suspects = self.layout.changed(placed, removed)
        uuids = {layout.row_of_id[id_]: row.uuid for id_, row in changes.items() if row}

        def uuid(row: int) -> str:
            return uuids.get(row) or self.entry(row).provider.uuid

        for id_, row in changes.items():
            if row is not None:
                at = layout.row_of_id[id_]
                old = self.entries[at] if at < len(self.entries) else None
                above = layout.parents.get(at)
                fresh[at] = _entry(
                    row, None if above is None else uuid(above), uuid(int(layout.root[at])), old)
        for at in suspects.difference(fresh):
            old = self.entry(at)
            above = layout.parents.get(at)
            provider = dataclasses.replace(
                old.provider, root_uuid=uuid(int(layout.root[at])),
                parent_uuid=None if above is None else uuid(above))
            if provider != old.provider:
                fresh[at] = old.renewed(provider)
        return layout, fresh

    def _is_there(self, id_: int, parent_id: int | None) -> bool:
        """Say whether a provider has a row and this parent already."""
        row = self.layout.row_of_id.get(id_)
        if row is None:
            return False
        above = self.layout.parents.get(row)
        return (None if above is None else self.entry(above).provider.id) == parent_id


def _entry(
    row: ProviderRow, parent_uuid: str | None, root_uuid: str, old: Entry | None
) -> Entry:
    provider = records.Provider(
        id=row.id, uuid=row.uuid, name=row.name, generation=row.generation,
        root_uuid=root_uuid, parent_uuid=parent_uuid,
        created_at=row.created_at, updated_at=row.updated_at)
    # Equal sets stay one object: versions and like providers share them.
    return Entry(
        provider, row.inventories,
        old.traits if old and old.traits == row.traits else row.traits,
        old.aggregates if old and old.aggregates == row.aggregates else row.aggregates,
        row.revision, pooled=row.pooled)


def _forget_trees(
    entries: list[Entry | None], layouts: Iterable[Layout], changed: Set[int]
) -> None:
    """Renew the roots of trees that a changed row is or was in."""
    for layout in layouts:
        rows = [row for row in changed if row < layout.size]
        for top in set(layout.root[rows].tolist()) - changed:
            entry = entries[top] if top >= 0 else None
            if entry is not None:
                entries[top] = entry.renewed()


def _renamed(before: World, names: Names) -> set[int]:
    """Return the rows whose summary shows a name that is another now."""
    if names is before.names:
        return set()
    holders = [before.column(id_).rows for id_, name in before.names.class_names.items()
               if names.class_names.get(id_) != name]
    holders += [before.having(id_).rows for id_, name in before.names.trait_names.items()
                if names.trait_names.get(id_) != name]
    return {row for rows in holders for row in rows.tolist()}


#: What becomes of sets: {key: (rows added, rows removed)}.
_SetEdits = dict[_Key, tuple[list[int], list[int]]]


def _edits(
    entries: list[Entry | None], fresh: Mapping[int, Entry | None]
) -> tuple[dict[int, dict[int, Inventory | None]], _SetEdits[int], _SetEdits[str]]:
    """Compare entries before and after: columns by class, traits, aggregates."""
    columns: dict[int, dict[int, Inventory | None]] = defaultdict(dict)
    traits: _SetEdits[int] = defaultdict(lambda: ([], []))
    aggregates: _SetEdits[str] = defaultdict(lambda: ([], []))
    nothing: frozenset[Any] = frozenset()
    known = len(entries)
    for row, new in fresh.items():
        old = entries[row] if row < known else None
        before = old.inventories if old else ()
        after = new.inventories if new else ()
        if before != after:
            for inventory in before:
                columns[inventory.class_id][row] = None
            for inventory in after:
                columns[inventory.class_id][row] = inventory
        _note(traits, row, old.traits if old else nothing, new.traits if new else nothing)
        _note(aggregates, row,
              old.aggregates if old else nothing, new.aggregates if new else nothing)
    return columns, traits, aggregates


def _pooled(before: World, fresh: Mapping[int, Entry | None]) -> RowSet:
    known = set(before.pooled.rows.tolist())
    now = {row for row, entry in fresh.items() if entry is not None and entry.pooled}
    added, removed = now - known, (known & fresh.keys()) - now
    return before.pooled.edited(added, removed) if added or removed else before.pooled


def _note(
    edits: _SetEdits[_Key], row: int, before: frozenset[_Key], after: frozenset[_Key]
) -> None:
    if before is not after:
        for key in after - before:
            edits[key][0].append(row)
        for key in before - after:
            edits[key][1].append(row)


def _edited(sets: dict[_Key, RowSet], edits: _SetEdits[_Key]) -> dict[_Key, RowSet]:
    if not edits:
        return sets
    sets = dict(sets)
    for key, (added, removed) in edits.items():
        changed = sets.get(key, NO_ROWS).edited(added, removed)
        if len(changed.rows):
            sets[key] = changed
        else:
            sets.pop(key, None)
    return sets
