"""What a write has to know about the rows it names, read in one statement (or few).

Read after the consumers' rows were taken: what they hold stands still then.
Providers are not taken yet; their ids and those of classes are facts, and what
is decided about providers is decided later, under their locks.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from placement_core.db import Session, arrays
from placement_core.placement import moves, records, tables

#: (provider id, resource class id)
Cell: TypeAlias = tuple[int, int]
#: (project id, user id, consumer type id or UNTYPED)
Owner: TypeAlias = tuple[int, int, int]

_PROVIDER, _CLASS, _CONSUMER, _HELD, _PROJECT, _USER, _TYPE, _PAIR = range(8)
#: Between the two uuids of a pair.
_BETWEEN = "/"
#: How many writes one statement is about: databases bound its parameters.
_BATCH = 500
_NO_NUMBER = sa.literal_column("0")


def _branch(what: int, text: sa.ColumnElement, *numbers: sa.ColumnElement) -> sa.Select:
    """Build one part of the statement: its label, a text and five numbers."""
    padded = [*numbers, *[_NO_NUMBER] * (5 - len(numbers))]
    return sa.select(
        sa.literal_column(str(what)).label("what"), text.label("text"),
        *(column.label(f"n{place}") for place, column in enumerate(padded)))


def _named(
    what: int, identity: sa.Column, name: sa.Column, parameter: str, dialect: str
) -> sa.Select:
    return _branch(what, name, identity).where(arrays.among(name, parameter, dialect=dialect))


def _of_providers(dialect: str) -> sa.Select:
    """Build the part about providers, with the roots of their trees where these are pooled."""
    providers, pooled = tables.resource_providers, tables.pooled_trees
    joined = providers.outerjoin(
        pooled, pooled.c.root_provider_id == providers.c.root_provider_id)
    return _branch(
        _PROVIDER, providers.c.uuid, providers.c.id,
        sa.func.coalesce(pooled.c.root_provider_id, 0),
    ).select_from(joined).where(arrays.among(providers.c.uuid, "providers", dialect=dialect))


def _of_consumers(dialect: str) -> tuple[sa.Select, sa.Select]:
    consumers, held, inventories = tables.consumers, tables.allocations, tables.inventories
    owners = _branch(
        _CONSUMER, consumers.c.uuid, consumers.c.project_id, consumers.c.user_id,
        sa.func.coalesce(consumers.c.consumer_type_id, tables.UNTYPED),
    ).where(arrays.among(consumers.c.uuid, "consumers", dialect=dialect))
    joined = held.outerjoin(inventories, sa.and_(
        inventories.c.resource_provider_id == held.c.resource_provider_id,
        inventories.c.resource_class_id == held.c.resource_class_id))
    allocations = _branch(
        _HELD, held.c.consumer_id, held.c.id, held.c.resource_provider_id,
        held.c.resource_class_id, held.c.used,
        sa.case((inventories.c.id.is_(None), 0), else_=1),
    ).select_from(joined).where(
        arrays.among(held.c.consumer_id, "consumers", dialect=dialect))
    return owners, allocations


def _of_pairs(dialect: str) -> tuple[sa.Select, sa.Select]:
    """Build the parts about pairs that one of the consumers belongs to (``moves``)."""
    columns = tables.moves.c
    both = columns.consumer_uuid.concat(_BETWEEN).concat(columns.moved_from)
    pairs = _branch(_PAIR, both).where(columns.resource_class_id == tables.CONSUMERS)
    return (
        pairs.where(arrays.among(columns.consumer_uuid, "consumers", dialect=dialect)),
        pairs.where(arrays.among(columns.moved_from, "consumers", dialect=dialect)))


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


@functools.cache
def _read(dialect: str, existed: bool) -> sa.Executable:
    names = (*_NAMES, *_OWNERS) if existed else _NAMES
    return sa.union_all(
        _of_providers(dialect), *(_named(*name, dialect) for name in names),
        *_of_consumers(dialect), *_of_pairs(dialect))


@dataclasses.dataclass(slots=True)
class Facts:
    """What the rows say.

    :ivar providers: {uuid: id}, those that exist.
    :ivar pooled: {provider id: the id of its root}, of those in pooled trees (``fencing``).
        Not locked.
    :ivar classes: {name: id}, those that exist.
    :ivar owners: {consumer uuid: its owner, as its row says}.
    :ivar held: {consumer uuid: {cell: amount}}, before the write.
    :ivar held_rows: the ids of the allocations that ``held`` sums up.
    :ivar uncounted: cells with allocations but no inventory (adopted data).
    :ivar paired: {consumer uuid: moved from}, of pairs that one of the consumers
        belongs to. Not locked.
    :ivar pairs: the same once they are locked (``moves.hold``).
    :ivar others: what the partners hold that are not written.
    :ivar projects: {external id: id}, and so on; for consumers that existed.
    """

    providers: dict[str, int] = dataclasses.field(default_factory=dict)
    pooled: dict[int, int] = dataclasses.field(default_factory=dict)
    classes: dict[str, int] = dataclasses.field(default_factory=dict)
    owners: dict[str, Owner] = dataclasses.field(default_factory=dict)
    held: dict[str, dict[Cell, int]] = dataclasses.field(default_factory=dict)
    held_rows: list[int] = dataclasses.field(default_factory=list)
    uncounted: set[Cell] = dataclasses.field(default_factory=set)
    paired: dict[str, str] = dataclasses.field(default_factory=dict)
    pairs: Mapping[str, moves.Pair] = dataclasses.field(default_factory=dict)
    others: Mapping[str, moves.Held] = dataclasses.field(default_factory=dict)
    projects: dict[str, int] = dataclasses.field(default_factory=dict)
    users: dict[str, int] = dataclasses.field(default_factory=dict)
    types: dict[str, int] = dataclasses.field(default_factory=dict)

    def unknown_classes(self, write: records.AllocationWrite) -> list[str]:
        """Return the classes that ``write`` names and that do not exist."""
        return [name for resources in write.allocations.values() for name in resources
                if name not in self.classes]


def read(
    session: Session, writes: Sequence[records.AllocationWrite], *,
    existed: bool, more_providers: Iterable[str] = (), more_classes: Iterable[str] = (),
) -> Facts:
    """Read what ``writes`` need to know.

    :param existed: whether some of the consumers existed before the write.
    """
    facts = Facts()
    for start in range(0, max(len(writes), 1), _BATCH):
        _read_batch(session, facts, writes[start:start + _BATCH], existed,
                    set(more_providers), set(more_classes))
    return facts


def hold_pairs(
    session: Session, facts: Facts, writes: Sequence[records.AllocationWrite]
) -> None:
    """Take the pairs that the consumers belong to, and read what their partners hold.

    :raises TransactionConflict: one of them ended meanwhile.
    """
    if facts.paired:
        facts.pairs = moves.hold(session, sorted(facts.paired))
        # A consumer that holds nothing, and shall hold nothing, may have no row that was taken:
        # what it holds is known only now, with the pair taken.
        written = {write.consumer_uuid for write in writes
                   if write.allocations or write.consumer_uuid in facts.held}
        facts.others = moves.held(
            session, sorted({*facts.paired, *facts.paired.values()} - written))


def _read_batch(
    session: Session, facts: Facts, writes: Sequence[records.AllocationWrite], existed: bool,
    providers: set[str], classes: set[str],
) -> None:
    for write in writes:
        providers.update(write.allocations)
        for resources in write.allocations.values():
            classes.update(resources)
    uuids = {write.consumer_uuid for write in writes}
    parameters = {"providers": sorted(providers), "classes": sorted(classes),
                  "consumers": sorted(uuids)}
    if existed:
        parameters["projects"] = sorted({write.project_id for write in writes})
        parameters["users"] = sorted({write.user_id for write in writes})
        parameters["types"] = sorted({write.consumer_type for write in writes
                                      if write.consumer_type is not None})
    # An adopted MySQL table compares without regard to case.
    spelled = {uuid.casefold(): uuid for uuid in uuids}
    names = {_PROVIDER: facts.providers, _CLASS: facts.classes, _PROJECT: facts.projects,
             _USER: facts.users, _TYPE: facts.types}
    found: Iterable[Any] = session.execute(
        _read(session.dialect, existed), parameters)
    for what, text, *numbers in found:
        if what in names:
            names[what][text] = numbers[0]
            if what == _PROVIDER and numbers[1]:
                facts.pooled[numbers[0]] = numbers[1]
            continue
        if what == _PAIR:
            second, _, first = text.partition(_BETWEEN)
            facts.paired[second] = first
            continue
        consumer = text if text in uuids else spelled[text.casefold()]
        if what == _CONSUMER:
            facts.owners[consumer] = (numbers[0], numbers[1], numbers[2])
        else:
            row, provider, resource_class, used, counted = numbers
            held = facts.held.setdefault(consumer, collections.defaultdict(int))
            held[provider, resource_class] += used
            facts.held_rows.append(row)
            if not counted:
                facts.uncounted.add((provider, resource_class))
