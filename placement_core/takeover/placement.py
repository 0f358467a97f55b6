"""Placement as a source: providers with all that belongs to them, consumers with what they hold.

A provider is one record, with its inventories, traits and aggregates; a consumer is one record,
with its allocations, project, user and type. Their generations are theirs, so that clients can go
on with those that they have seen. Resource classes and traits are records by name, if they are no
standard ones here. Aggregates, projects, users and types mean nothing without what refers to them.

Placement's tables of inventories and allocations have no foreign keys, so there are allocations
of consumers that were never recorded, of classes of which a provider has no inventory, or on
providers that were deleted. What Placement itself would answer decides what becomes of them.
Source: Placement's schema, revision ``SCHEMA``.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import os_resource_classes
import os_traits
import sqlalchemy as sa

from placement_core.placement import inventories
from placement_core.placement.allocations.consumer_copies import Holdings
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.provider_copies import (
    Sharing,
    gather,
    share_mapping,
    sort_downwards,
)
from placement_core.placement.records import InventoryValues
from placement_core.takeover.records import (
    CONSUMER,
    PROVIDER,
    RESOURCE_CLASS,
    TRAIT,
    Contents,
    Item,
    Outcome,
    Record,
    Surroundings,
)

#: The head of its schema, of Placement 2026.1 (16.0.0); unchanged since 9.0.0.
SCHEMA = frozenset({"a082b8bb98d0"})

KINDS = (RESOURCE_CLASS, TRAIT, PROVIDER, CONSUMER)
#: Those of which two Placements have their own.
OWN_KINDS = (PROVIDER, CONSUMER)

_NAME = re.compile(r"[A-Z0-9_]{1,255}")
_FETCHED_AT_ONCE = 5000
#: MySQL keeps ratios in single precision, and shows so many digits.
_RATIO_DIGITS = 6


#: Columns whose values are no numbers and texts everywhere.
_TYPES: Mapping[str, type[sa.types.TypeEngine[Any]]] = {"created_at": sa.DateTime}


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(column, _TYPES.get(column)) for column in columns))


#: What is read of its tables, in the order of the first column.
TABLES = (
    _table("resource_classes", "id", "name"),
    _table("traits", "id", "name"),
    _table("resource_providers", "id", "uuid", "name", "generation", "root_provider_id",
           "parent_provider_id", "created_at"),
    _table("inventories", "resource_provider_id", "resource_class_id", "total", "reserved",
           "min_unit", "max_unit", "step_size", "allocation_ratio"),
    _table("resource_provider_traits", "resource_provider_id", "trait_id"),
    _table("placement_aggregates", "id", "uuid"),
    _table("resource_provider_aggregates", "resource_provider_id", "aggregate_id"),
    _table("projects", "id", "external_id"),
    _table("users", "id", "external_id"),
    _table("consumer_types", "id", "name"),
    _table("consumers", "id", "uuid", "project_id", "user_id", "generation",
           "consumer_type_id", "created_at"),
    _table("allocations", "consumer_id", "resource_provider_id", "resource_class_id", "used"),
)

#: The columns of inventories that are whole numbers, in the order of the table.
_NUMBERS = ("total", "reserved", "min_unit", "max_unit", "step_size")

#: The values of a row, in the order of its columns in ``TABLES``.
_Row = tuple[Any, ...]


#: The (project, user) of consumers that were never recorded, if none is configured.
_INCOMPLETE = Owners().incomplete


def read(
    connection: sa.Connection, surroundings: Surroundings,
    incomplete: tuple[str, str] = _INCOMPLETE,
) -> Contents:
    """Return what Placement's database has.

    :param incomplete: as in ``settle``.
    """
    return settle({table.name: _read_rows(connection, table) for table in TABLES},
                  rounded="mysql" in (connection.dialect.name, surroundings.dialect),
                  incomplete=incomplete)


def _read_rows(connection: sa.Connection, table: sa.TableClause) -> list[_Row]:
    result = connection.execute(sa.select(table).order_by(*table.c))
    return [tuple(row) for rows in result.partitions(_FETCHED_AT_ONCE) for row in rows]


def settle(
    tables: Mapping[str, Sequence[_Row]], *, rounded: bool = False,
    incomplete: tuple[str, str] = _INCOMPLETE,
) -> Contents:
    """Return what the rows of Placement's tables mean. Pure.

    :param tables: {name: rows}, for each of ``TABLES``.
    :param rounded: whether ratios are compared as MySQL keeps them.
    :param incomplete: the (project, user) of consumers that were never recorded.
    """
    settled = _Settled(tables)
    settled.settle_names(RESOURCE_CLASS, "resource_classes", os_resource_classes.STANDARDS)
    settled.settle_names(TRAIT, "traits", os_traits.get_traits())
    settled.settle_providers(rounded)
    settled.settle_consumers(incomplete)
    return Contents(settled.records, settled.left)


class _Settled:
    """What the rows mean, as far as they were read."""

    def __init__(self, tables: Mapping[str, Sequence[_Row]]) -> None:
        self._tables = tables
        self.records: list[Record] = []
        self.left: list[Item] = []
        #: {kind: {id: name}} of the classes and traits that ours can be.
        self._names: dict[str, dict[int, str]] = {}
        #: {id: uuid} of all providers.
        self._uuids: dict[int, str] = {
            id_: uuid for id_, uuid, *_ in tables["resource_providers"]}
        #: {(provider id, class id): what is allocated}.
        self._used: collections.Counter[tuple[int, int]] = collections.Counter()
        for _, provider_id, class_id, used in tables["allocations"]:
            self._used[provider_id, class_id] += used
        self._inventories: set[tuple[int, int]] = {
            (provider_id, class_id) for provider_id, class_id, *_ in tables["inventories"]}

    def _refuse(self, kind: str, id_: str, name: str, reason: str) -> None:
        self.left.append(Item(kind, id_, name, Outcome.REFUSED, reason))

    def settle_names(self, kind: str, table: str, standard: Collection[str]) -> None:
        """Take the resource classes or traits that are no standard ones here."""
        standard = frozenset(standard)
        names = self._names[kind] = {}
        for id_, name in self._tables[table]:
            if not _NAME.fullmatch(name):
                self._refuse(kind, name, name, f"no {kind} can have this name")
                continue
            names[id_] = name
            if name not in standard:
                notes = () if name.startswith("CUSTOM_") else (
                    f"it is a standard {kind} there, and newer than those here",)
                self.records.append(Record(kind, name, name, {}, notes))

    def settle_providers(self, rounded: bool) -> None:
        """Take the providers, those above others first."""
        rows = {row[1]: row for row in self._tables["resource_providers"]}
        parents = {uuid: self._uuids.get(row[5]) for uuid, row in rows.items()}
        belongings = _Belongings(self._tables, self._names, rounded)
        roots: dict[str, str] = {}
        for uuid in sort_downwards(parents):
            parent = parents[uuid]
            roots[uuid] = uuid if parent is None else roots[parent]
            self._settle_provider(rows[uuid], parent, roots[uuid], belongings)
        for uuid in rows.keys() - roots.keys():
            self._refuse(PROVIDER, uuid, rows[uuid][2] or "",
                         "it is its own ancestor, or below one that is")

    def _settle_provider(
        self, row: _Row, parent: str | None, root: str, belongings: _Belongings
    ) -> None:
        id_, uuid, name, generation, root_id, parent_id, created_at = row
        if not name:
            self._refuse(PROVIDER, uuid, "", "it has no name")
            return
        notes = []
        if parent_id is not None and parent is None:
            notes.append(f"its parent (row {parent_id}) is not there: it is a root")
        if root_id is None:
            notes.append("it has no root there")
        elif self._uuids.get(root_id) != root:
            there = self._uuids.get(root_id, f"row {root_id}")
            notes.append(f"its root there is {there}, but {root} is above it")
        values, unknown = belongings.get_inventories(id_)
        notes += unknown
        notes += self._find_overcommitted(id_, values)
        self.records.append(Record(PROVIDER, uuid, name, {
            "name": name, "generation": generation or 0, "parent": parent,
            "inventories": values, "traits": belongings.traits.get(id_, ()),
            "aggregates": belongings.aggregates.get(id_, ()), "created_at": created_at}, notes))

    def _find_overcommitted(
        self, provider_id: int, values: Mapping[str, InventoryValues]
    ) -> list[str]:
        notes = []
        for class_id, name in self._names[RESOURCE_CLASS].items():
            if name in values:
                used = self._used[provider_id, class_id]
                capacity = inventories.capacity(values[name])
                if used > capacity:
                    notes.append(f"{used} {name} are used of {capacity}")
        return notes

    def settle_consumers(self, incomplete: tuple[str, str]) -> None:
        """Take the consumers that hold something, and those that were never recorded."""
        tables = self._tables
        holdings = Holdings()
        notes: dict[str, list[str]] = collections.defaultdict(list)
        classes = self._names[RESOURCE_CLASS]
        for consumer_uuid, provider_id, class_id, used in tables["allocations"]:
            provider, class_name = self._uuids.get(provider_id), classes.get(class_id)
            if provider is None or class_name is None:
                what = class_name or f"the resource class (row {class_id})"
                where = provider or f"the provider (row {provider_id})"
                gone = "provider" if provider is None else "resource class"
                notes[consumer_uuid].append(
                    f"{used} of {what} on {where} are left out: the {gone} is not there")
                continue
            if (provider_id, class_id) not in self._inventories:
                notes[consumer_uuid].append(
                    f"{provider} has no inventory of {class_name}, of which it holds {used}")
            holdings.add(consumer_uuid, provider, class_name, used)
        projects, users, types = (
            {id_: value for id_, value in tables[name]}  # noqa: C416 rows have two columns
            for name in ("projects", "users", "consumer_types"))
        for _, uuid, project, user, generation, consumer_type, created_at in tables["consumers"]:
            allocations = holdings.pop(uuid)
            if not allocations:
                reasons = notes.pop(uuid, [])
                self.left.append(Item(CONSUMER, uuid, uuid, Outcome.SKIPPED, "; ".join(
                    [*reasons, "it holds nothing"])))
                continue
            if project not in projects or user not in users:
                notes[uuid].append("its project or user is not recorded there")
            self._keep_consumer(uuid, allocations, notes.pop(uuid, ()), {
                "project_id": projects.get(project, incomplete[0]),
                "user_id": users.get(user, incomplete[1]),
                "consumer_type": types.get(consumer_type), "generation": generation,
                "created_at": created_at})
        for uuid in holdings.list_consumers():
            self._keep_consumer(
                uuid, holdings.pop(uuid),
                ["it has no record there", *notes.pop(uuid, ())], {
                    "project_id": incomplete[0], "user_id": incomplete[1],
                    "consumer_type": None, "generation": 0, "created_at": None})
        for uuid, reasons in notes.items():
            self.left.append(Item(CONSUMER, uuid, uuid, Outcome.SKIPPED, "; ".join(reasons)))

    def _keep_consumer(
        self, uuid: str, allocations: Mapping[str, Mapping[str, int]],
        notes: Iterable[str], owner: Mapping[str, Any],
    ) -> None:
        self.records.append(Record(
            CONSUMER, uuid, uuid, {**owner, "allocations": allocations}, tuple(notes)))


class _Belongings:
    """What belongs to providers, by the ids of their rows.

    :ivar traits: {id: names}; :ivar aggregates: {id: uuids}.
    """

    def __init__(
        self, tables: Mapping[str, Sequence[_Row]], names: Mapping[str, Mapping[int, str]],
        rounded: bool,
    ) -> None:
        self._sharing = Sharing()
        self._classes = names[RESOURCE_CLASS]
        self._digits = _RATIO_DIGITS if rounded else None
        self._inventories: dict[int, list[_Row]] = collections.defaultdict(list)
        for row in tables["inventories"]:
            self._inventories[row[0]].append(row[1:])
        self.traits = self._gather(tables["resource_provider_traits"], names[TRAIT])
        self.aggregates = self._gather(tables["resource_provider_aggregates"], {
            id_: uuid for id_, uuid in tables["placement_aggregates"] if uuid})

    def _gather(
        self, links: Iterable[_Row], names: Mapping[int, str]
    ) -> dict[int, tuple[str, ...]]:
        return gather(
            ((id_, names[other]) for id_, other in links if other in names), self._sharing)

    def get_inventories(self, id_: int) -> tuple[Mapping[str, InventoryValues], list[str]]:
        """Return the inventories of a provider, and what there is to say of them."""
        values, notes = {}, []
        for class_id, *numbers, ratio in self._inventories.pop(id_, ()):
            name = self._classes.get(class_id)
            if name is None:
                notes.append(f"its inventory of the resource class (row {class_id}) is left "
                               "out: the class is not there")
                continue
            if self._digits is not None:
                ratio = float(f"{ratio:.{self._digits}g}")
            values[name] = self._sharing.share(
                InventoryValues(**dict(zip(_NUMBERS, numbers, strict=True)),
                                allocation_ratio=ratio))
        return share_mapping(self._sharing, values), notes
