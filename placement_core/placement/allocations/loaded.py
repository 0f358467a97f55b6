"""Load the rows that a write names, with one statement (or a few).

They are read after the rows of the consumers were locked, so the allocations of the consumers
cannot change any more. Providers are not locked yet: only their ids are used, and decisions about
providers are made later, under their locks.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from placement_core.db import PreparedRead, Session, clock, lists, texts
from placement_core.placement import records, tables
from placement_core.placement.allocations import consumers, moves
from placement_core.placement.allocations.consumers import LockedConsumers

#: (provider id, resource class id)
Cell: TypeAlias = tuple[int, int]
#: (project id, user id, consumer type id or UNTYPED)
Owner: TypeAlias = tuple[int, int, int]

_PROVIDER, _CLASS, _CONSUMER, _HELD, _PROJECT, _USER, _TYPE, _PAIR, _OWNING, _NOW = range(10)
#: The separator between the two uuids of a pair.
_BETWEEN = "/"
#: How many writes one statement covers, because databases limit the number of parameters.
_BATCH = 500
_NO_NUMBER = sa.literal_column("0")


def _build_branch(
    what: int, text: sa.ColumnElement[Any], *numbers: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Build one part of the statement: a label, a text and five numbers."""
    padded = [*numbers, *[_NO_NUMBER] * (5 - len(numbers))]
    return sa.select(
        sa.literal_column(str(what)).label("what"), text.label("text"),
        *(column.label(f"n{place}") for place, column in enumerate(padded)))


def _select_named(
    what: int, identity: sa.Column[Any], name: sa.Column[Any], parameter: str
) -> sa.Select[Any]:
    return _build_branch(what, name, identity).where(lists.among(name, parameter))


def _select_providers() -> sa.Select[Any]:
    """Build the part that reads providers, with the roots of pooled trees."""
    providers, pooled = tables.resource_providers, tables.pooled_trees
    # A value and no join, for which a plan that was made while there were few trees reads all.
    pooled_root = sa.select(pooled.c.root_provider_id).where(
        pooled.c.root_provider_id == providers.c.root_provider_id).scalar_subquery()
    return _build_branch(
        _PROVIDER, providers.c.uuid, providers.c.id, sa.func.coalesce(pooled_root, 0),
    ).where(lists.among(providers.c.uuid, "providers"))


def _select_consumers() -> tuple[sa.Select[Any], sa.Select[Any]]:
    consumers, held, inventories = tables.consumers, tables.allocations, tables.inventories
    owners = _build_branch(
        _CONSUMER, consumers.c.uuid, consumers.c.project_id, consumers.c.user_id,
        sa.func.coalesce(consumers.c.consumer_type_id, tables.UNTYPED),
    ).where(lists.among(consumers.c.uuid, "consumers"))
    # A value and no join, as above.
    inventory = sa.select(inventories.c.id).where(
        inventories.c.resource_provider_id == held.c.resource_provider_id,
        inventories.c.resource_class_id == held.c.resource_class_id).scalar_subquery()
    allocations = _build_branch(
        _HELD, held.c.consumer_id, held.c.id, held.c.resource_provider_id,
        held.c.resource_class_id, held.c.used, sa.case((inventory.is_(None), 0), else_=1),
    ).where(lists.among(held.c.consumer_id, "consumers"))
    return owners, allocations


def _select_pairs() -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Build the parts that read the pairs to which the consumers belong (``moves``)."""
    columns = tables.moves.c
    both = columns.consumer_uuid.concat(_BETWEEN).concat(columns.moved_from)
    pairs = _build_branch(_PAIR, both).where(columns.resource_class_id == tables.CONSUMERS_ID)
    return (
        pairs.where(lists.among(columns.consumer_uuid, "consumers")),
        pairs.where(lists.among(columns.moved_from, "consumers")))


def _select_owning_projects() -> sa.Select[Any]:
    """Build the part that reads the names of the projects that own the consumers."""
    consumers, projects = tables.consumers, tables.projects
    # A value and no join: a plan may take all consumers of the projects.
    external_id = sa.select(projects.c.external_id).where(
        projects.c.id == consumers.c.project_id).scalar_subquery()
    return _build_branch(_OWNING, external_id, consumers.c.project_id).where(
        lists.among(consumers.c.uuid, "consumers"))


#: (what, identity, name, parameter)
_NAMES = (
    (_CLASS, tables.resource_classes.c.id, tables.resource_classes.c.name, "classes"),
)
#: New consumers were just made with their owners' ids; existing ones may move.
_OWNERS = (
    (_PROJECT, tables.projects.c.id, tables.projects.c.external_id, "projects"),
    (_USER, tables.users.c.id, tables.users.c.external_id, "users"),
    (_TYPE, tables.consumer_types.c.id, tables.consumer_types.c.name, "types"),
)


def _prepare(
    names: Iterable[tuple[int, sa.Column[Any], sa.Column[Any], str]], *more: sa.Select[Any],
) -> PreparedRead:
    return PreparedRead(sa.union_all(
        _select_providers(), *(_select_named(*name) for name in names), *_select_consumers(),
        *_select_pairs(),
        _build_branch(_NOW, sa.literal_column("''"), clock.microseconds(clock.now())), *more))


#: Of consumers that are new, and of those that may change hands.
_READ_NEW = _prepare(_NAMES)
_READ_EXISTING = _prepare((*_NAMES, *_OWNERS), _select_owning_projects())


@dataclasses.dataclass(slots=True)
class LoadedRows:
    """The rows that a write names; a cell is a pair of provider id and class id.

    :ivar now: the database's time, after the consumers were locked: that of the write. So the
        writes of a consumer are in the order of their times.
    :ivar providers: {uuid: id}, without those that do not exist.
    :ivar reserved_roots: {provider id: id of its root}, of providers in reserved trees
        (``reserved_trees``). The roots are not locked.
    :ivar classes: {name: id}, without those that do not exist.
    :ivar owners: {consumer uuid: the owner in its row}.
    :ivar held: {consumer uuid: {cell: amount}}, before the write.
    :ivar held_rows: {consumer uuid: {cell: the ids of its allocations}}, of those in ``held``.
    :ivar uncounted: cells with allocations but no inventory (adopted data).
    :ivar paired: {consumer uuid: moved from}, of the pairs to which the consumers belong. The
        pairs are not locked.
    :ivar pairs: these pairs after they are locked (``moves.lock_pairs``).
    :ivar others: the allocations of consumers in these pairs that the write does not name.
    :ivar projects: {external id: id}; likewise for users and types. For consumers that existed.
    :ivar project_names: {id: external id} of the projects that own consumers that existed; None:
        the project has no row (adopted data).
    """

    now: datetime.datetime = datetime.datetime.min
    providers: dict[str, int] = dataclasses.field(default_factory=dict)
    reserved_roots: dict[int, int] = dataclasses.field(default_factory=dict)
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    owners: dict[str, Owner] = dataclasses.field(default_factory=dict)
    held: dict[str, dict[Cell, int]] = dataclasses.field(default_factory=dict)
    held_rows: dict[str, dict[Cell, list[int]]] = dataclasses.field(default_factory=dict)
    uncounted: set[Cell] = dataclasses.field(default_factory=set)
    paired: dict[str, str] = dataclasses.field(default_factory=dict)
    pairs: Mapping[str, moves.Pair] = dataclasses.field(default_factory=dict)
    others: Mapping[str, moves.Held] = dataclasses.field(default_factory=dict)
    projects: dict[str, int] = dataclasses.field(default_factory=dict)
    project_names: dict[int, str | None] = dataclasses.field(default_factory=dict)
    users: dict[str, int] = dataclasses.field(default_factory=dict)
    types: dict[str, int] = dataclasses.field(default_factory=dict)

    def cell(self, provider_uuid: str, resource_class: str) -> Cell:
        """Return the ids of a provider and a class; -1 for one that does not exist."""
        return self.providers.get(provider_uuid, -1), self.classes.get(resource_class, -1)

    def unknown_classes(self, write: records.AllocationWrite) -> list[str]:
        """Return the classes in ``write`` that do not exist."""
        return [name for resources in write.allocations.values() for name in resources
                if name not in self.classes]


def lock_and_read(
    session: Session, writes: Sequence[records.AllocationWrite],
    lock: Callable[[], LockedConsumers], *,
    more_providers: Collection[str] = (), more_classes: Collection[str] = (),
) -> tuple[LockedConsumers, LoadedRows]:
    """Lock the consumers, and read the rows that the writes name.

    One statement locks all consumers if they are as their writers expect, and the rows are read
    right behind it, in the same round trip. If it did not lock all of them, they are read anew.

    :param lock: locks or inserts the consumers of the writes.
    """
    fetch = None
    if len(writes) <= _BATCH and consumers.can_lock_at_once(session, writes):
        expected = any(write.expected_generation is not None for write in writes)
        fetch = _choose_read(expected).fetch_behind(
            session, _name_rows(writes, expected, more_providers, more_classes))
    locked = lock()
    labelled = fetch() if fetch is not None and locked.at_once else None
    if labelled is None:
        return locked, read(
            session, writes, existed=bool(locked.existed), more_providers=more_providers,
            more_classes=more_classes)
    rows = LoadedRows()
    _sort_out(rows, labelled, writes, session.dialect)
    return locked, rows


def read(
    session: Session, writes: Sequence[records.AllocationWrite], *,
    existed: bool, more_providers: Collection[str] = (), more_classes: Collection[str] = (),
) -> LoadedRows:
    """Read the rows that ``writes`` name.

    :param existed: whether some of the consumers existed before the write.
    """
    rows = LoadedRows()
    for start in range(0, max(len(writes), 1), _BATCH):
        batch = writes[start:start + _BATCH]
        _sort_out(rows, _choose_read(existed).fetch_in(
            session, _name_rows(batch, existed, more_providers, more_classes)), batch,
            session.dialect)
    return rows


def lock_pairs(
    session: Session, rows: LoadedRows, writes: Sequence[records.AllocationWrite]
) -> None:
    """Lock the pairs to which the consumers belong, and read the partners' allocations.

    :raises TransactionConflict: one of the pairs was deleted meanwhile.
    """
    if rows.paired:
        rows.pairs = moves.lock_pairs(session, sorted(rows.paired))
        # A consumer that holds nothing, and shall hold nothing, may have no row that was taken:
        # what it holds is known only now, with the pair taken.
        written = {write.consumer_uuid for write in writes
                   if write.allocations or write.consumer_uuid in rows.held}
        rows.others = moves.read_holdings(
            session, sorted({*rows.paired, *rows.paired.values()} - written))


def _choose_read(existed: bool) -> PreparedRead:
    return _READ_EXISTING if existed else _READ_NEW


def _name_rows(
    writes: Sequence[records.AllocationWrite], existed: bool, more_providers: Collection[str],
    more_classes: Collection[str],
) -> dict[str, list[str]]:
    """Return the parameters of the statement: what the writes name, by kind."""
    providers, classes = set(more_providers), set(more_classes)
    for write in writes:
        providers.update(write.allocations)
        for resources in write.allocations.values():
            classes.update(resources)
    parameters = {"providers": sorted(providers), "classes": sorted(classes),
                  "consumers": sorted({write.consumer_uuid for write in writes})}
    if existed:
        parameters["projects"] = sorted({write.project_id for write in writes})
        parameters["users"] = sorted({write.user_id for write in writes})
        parameters["types"] = sorted({write.consumer_type for write in writes
                                      if write.consumer_type is not None})
    return parameters


def _sort_out(
    rows: LoadedRows, labelled: Iterable[Any], writes: Sequence[records.AllocationWrite],
    dialect: str,
) -> None:
    """Add the rows of the statement to the loaded rows.

    :param labelled: the rows of the statement, with their labels (``_build_branch``).
    """
    uuids = {write.consumer_uuid for write in writes}
    # An adopted MySQL table compares without regard to case.
    spelled = {uuid.casefold(): uuid for uuid in uuids}
    names = {_PROVIDER: rows.providers, _CLASS: rows.classes, _PROJECT: rows.projects,
             _USER: rows.users, _TYPE: rows.types}
    for what, text, *numbers in labelled:
        if what in names:
            # Writes name owners in this spelling (``owners.normalize_owners``).
            names[what][texts.strip_padding(dialect, text)] = numbers[0]
            if what == _PROVIDER and numbers[1]:
                rows.reserved_roots[numbers[0]] = numbers[1]
        elif what == _OWNING:
            rows.project_names[numbers[0]] = text
        elif what == _NOW:
            rows.now = clock.from_microseconds(numbers[0])
        elif what == _PAIR:
            second, _, first = text.partition(_BETWEEN)
            rows.paired[second] = first
        else:
            consumer = text if text in uuids else spelled[text.casefold()]
            if what == _CONSUMER:
                rows.owners[consumer] = (numbers[0], numbers[1], numbers[2])
            else:
                _add_holding(rows, consumer, *numbers)


def _add_holding(
    rows: LoadedRows, consumer: str, allocation: int, provider: int, resource_class: int,
    used: int, counted: int,
) -> None:
    held = rows.held.setdefault(consumer, collections.defaultdict(int))
    held[provider, resource_class] += used
    rows.held_rows.setdefault(consumer, {}).setdefault(
        (provider, resource_class), []).append(allocation)
    if not counted:
        rows.uncounted.add((provider, resource_class))
