"""The audit: who changed what, written in the transaction of the change.

Its rows travel with those of the change log, so they cost no round trip. Each has one object that
one request wrote. Requests that share a transaction have rows of their own.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from placement_core import db, errors, metrics
from placement_core.changes import kinds, tables
from placement_core.context import Context
from placement_core.db import Session, arrays, clock, lists, texts
from placement_core.db.session import RecordedChange

_log = tables.audit_log

_SECONDS_A_DAY = 86_400
#: What readers of the change log follow, but no object that a client wrote.
_UNNAMED = {kinds.REVISION, kinds.POOL, kinds.PROJECT}
#: The longest text of a column; texts of callers may be longer.
_LONGEST = 255
#: Before the parameters of rows in a statement that has others.
_PREFIX = "audited_"
#: How many rows one statement inserts.
_BATCH = 50
#: How many statements are kept, by the number of rows and what these have in common.
_MOST_STATEMENTS = 512
_KEY = (_log.c.at, _log.c.txn, _log.c.position)
_MOST = sa.bindparam("most", type_=sa.Integer)

# The rooms above own these tables. Their rows are read while the log is appended, because a
# deleted object would have no name later.
#: {kind: (the table, its column of refs, of uuids, of names)}
_NAMED: Mapping[str, tuple[str, str, str | None, str]] = {
    kinds.PROVIDER: ("resource_providers", "id", "uuid", "name"),
    kinds.RESOURCE_CLASS: ("resource_classes", "id", None, "name"),
    kinds.TRAIT: ("traits", "id", None, "name"),
    kinds.LEASE: ("leases", "number", "id", "name")}

class _Row(NamedTuple):
    """What a row is made of, by the columns of the log; ``ref`` is looked up."""

    user_id: str | None
    project_id: str | None
    request_id: str | None
    operation: str | None
    kind: str | None
    uuid: str | None
    name: str | None
    ref: int


#: Those of which all rows of most transactions have the same.
_COMMON = ("user_id", "project_id", "operation", "kind")
_GIVEN = {**{name: _log.c[name].type for name in _Row._fields if name != "ref"},
          "ref": sa.BigInteger()}

_CUTOFF = clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger))
_LAST_OLD = (
    sa.select(_log.c.at).where(_log.c.at < _CUTOFF).order_by(_log.c.at).limit(1).offset(_MOST))
_REMOVE = sa.delete(_log).where(_log.c.at < _CUTOFF)
_REMOVE_SOME = _REMOVE.where(_log.c.at <= sa.bindparam("until", type_=_log.c.at.type))
_OF_TRANSACTIONS = (
    sa.select(_log).where(lists.among_many(_log.c.txn, "txns")).order_by(_log.c.txn,
                                                                         _log.c.position))


class InvalidMarker(errors.Invalid):
    """The marker of a page is none that a page before could have named."""

    code = "capacity.audit.invalid_marker"

    def __init__(self, marker: str) -> None:
        super().__init__(f"The marker {marker} does not name anything to go on from.")
        self.marker = marker


@dataclasses.dataclass(frozen=True, slots=True)
class AuditEntry:
    """An object that a request wrote.

    :ivar txn: the name of the transaction, as in the change log.
    :ivar at: the database's time shortly before the commit; aware.
    :ivar user_id, project_id, request_id: None: no client asked for it.
    :ivar operation: method and path of the operation, "placement-core" and a command, or
        "manager:" and a task.
    :ivar kind: None: the operation changed nothing that has a kind.
    :ivar uuid, name: of the object; None: objects of the kind have none.
    :ivar marker: names the entry in a list.
    """

    txn: int
    at: datetime.datetime
    user_id: str | None
    project_id: str | None
    request_id: str | None
    operation: str | None
    kind: str | None
    uuid: str | None
    name: str | None
    marker: str


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries, by what they must have; None: any.

    :ivar start_at, end_at: from the one moment (aware) on, and before the other.
    """

    user_id: str | None = None
    project_id: str | None = None
    request_id: str | None = None
    operation: str | None = None
    kind: str | None = None
    uuid: str | None = None
    start_at: datetime.datetime | None = None
    end_at: datetime.datetime | None = None

    @property
    def names(self) -> dict[str, str]:
        """Return the filters of equal texts, by column."""
        names = {name: getattr(self, name) for name in (
            "user_id", "project_id", "request_id", "operation", "kind", "uuid")}
        return {name: text for name, text in names.items() if text is not None}


# Writing ----------------------------------------------------------------------


class InsertForm(NamedTuple):
    """What the INSERT of a transaction's rows looks like as a part of another statement.

    An array costs as much as some rows, so there are as few as possible.

    :ivar values: the columns of which all rows have the same value.
    :ivar arrays: those that come as arrays; none: there is one row.
    :ivar sought: the kinds whose uuids and names are looked up.
    """

    values: tuple[str, ...]
    arrays: tuple[str, ...]
    sought: frozenset[str]


def make_insert(session: Session) -> tuple[InsertForm, dict[str, Any]]:
    """Return what inserts the rows of a transaction, for PostgreSQL: form and parameters.

    ``by_txn`` is not among these; the statement that the part belongs to has it.
    """
    rows = _make_rows(session)
    columns = dict(zip(_Row._fields, zip(*rows, strict=True), strict=True))
    is_single = len(rows) == 1
    form = _make_form(
        is_single,
        is_single or all(columns[name].count(columns[name][0]) == len(rows) for name in _COMMON),
        any(columns["uuid"]), any(columns["name"]), _list_sought(rows))
    return form, {**{f"{_PREFIX}{name}": columns[name][0] for name in form.values},
                  **{f"{_PREFIX}{name}": columns[name] for name in form.arrays}}


@functools.cache
def _make_form(
    is_single: bool, is_uniform: bool, has_uuids: bool, has_names: bool, sought: frozenset[str]
) -> InsertForm:
    missing = set() if sought else {"ref"} | {
        name for name, has in (("uuid", has_uuids), ("name", has_names)) if not has}
    names = [name for name in _Row._fields if name not in missing]
    values = [name for name in names if is_single or (is_uniform and name in _COMMON)]
    return InsertForm(
        tuple(values), tuple(name for name in names if name not in values), sought)


def build_cte(form: InsertForm) -> sa.CTE:
    """Build the part that inserts rows: a statement more costs more than the rows do."""
    columns: list[sa.ColumnElement[Any]] = [
        sa.bindparam(f"{_PREFIX}{name}", type_=_GIVEN[name]).label(name) for name in form.values]
    if form.arrays:
        columns += arrays.rows(
            "listed", {name: _GIVEN[name] for name in form.arrays}, _PREFIX, numbered="position").c
    else:
        columns.append(sa.literal_column("1", sa.Integer).label("position"))
    return _select_rows(sa.select(*columns).subquery("given"), form.sought).cte("audited")


def insert_later(session: Session) -> None:
    """Insert the rows of a transaction together with its next statement."""
    rows = _make_rows(session)
    sought = _list_sought(rows)
    kinds_of_rows = {row.kind for row in rows}
    kind = next(iter(kinds_of_rows)) if len(kinds_of_rows) == 1 else None
    has_names = any(row.name for row in rows)
    for start in range(0, len(rows), _BATCH):
        batch = rows[start:start + _BATCH]
        insert = (_build_insert(len(batch), start, sought) if sought
                  else _build_plain_insert(len(batch), start, kind, has_names))
        parameters: dict[str, Any] = {"by_txn": session.txn}
        for names, row in zip(insert.parameters, batch, strict=True):
            parameters.update(zip(names, insert.get(row), strict=True))
        session.write_later(insert.statement, parameters)


def _list_sought(rows: Sequence[_Row]) -> frozenset[str]:
    """Return the kinds whose uuids and names have to be looked up."""
    # Each makes the statement dearer, and most transactions need one at most.
    return frozenset([
        row.kind for row in rows
        if row.kind is not None and row.uuid is None and row.kind in _NAMED])


# Every claim comes through here, so it makes no more than it has to.
def _make_rows(session: Session) -> list[_Row]:
    rows: list[_Row] = []
    for caller, changes in session.attributions or [
            (session.caller, session.recorded_changes.difference(session.implied_changes))]:
        identity = caller.identity
        user_id, project_id, request_id, operation = [text and text[:_LONGEST] for text in (
            identity.user_id, identity.project_id, caller.request_id, caller.operation)]
        rows += [
            _Row(user_id, project_id, request_id, operation, kind or None, uuid or None,
                 name or None, ref)
            for kind, ref, uuid, name in _list_objects(changes) or (("", 0, "", ""),)]
    return rows


def _list_objects(
    changes: Collection[RecordedChange]
) -> list[tuple[str, int, str, str]]:
    """Return (kind, ref, uuid, name) of the objects among changes, each once."""
    objects = {change[:4] for change in changes if change.kind not in _UNNAMED}
    if len(objects) <= 1:
        return list(objects)
    # Those of a deleted object, or of one that is recorded in both ways, are enough.
    named = {(kind, ref) for kind, ref, uuid, name in objects if uuid or name}
    leases = {uuid for kind, _, uuid, _ in objects if kind == kinds.LEASE and uuid}
    return sorted(
        (kind, ref, uuid, name) for kind, ref, uuid, name in objects
        if uuid or name or not ((kind, ref) in named or (kind == kinds.LEASE and leases)))


def _select_rows(given: sa.FromClause, sought: Collection[str]) -> sa.Insert:
    """Build the INSERT of given rows.

    :param sought: the kinds whose uuids and names are looked up where they are not given.
    """
    source = given
    values: dict[str, sa.ColumnElement[Any]] = {
        column.name: column for column in given.c if column.name != "ref"}
    for kind in sorted(sought):
        table_name, key, uuid_column, name_column = _NAMED[kind]
        table = sa.table(
            table_name, *map(sa.column, {key, uuid_column or key, name_column}))
        source = source.outerjoin(table, sa.and_(
            given.c.kind == sa.literal_column(f"'{kind}'"), table.c[key] == given.c.ref))
        if uuid_column is not None:
            values["uuid"] = sa.func.coalesce(values["uuid"], table.c[uuid_column])
        values["name"] = sa.func.coalesce(values["name"], table.c[name_column])
    values["txn"] = sa.bindparam("by_txn", type_=_log.c.txn.type)
    # A query of its own, which is computed once: else each row would have another time.
    values["at"] = sa.select(clock.now()).scalar_subquery()
    return sa.insert(_log).inline().from_select(
        list(values), sa.select(*values.values()).select_from(source))


class _RowsInsert(NamedTuple):
    """An INSERT of some rows.

    :ivar get: returns what a row has parameters for.
    :ivar parameters: of each row, in that order.
    """

    statement: sa.Insert
    get: Callable[[_Row], tuple[Any, ...]]
    parameters: Sequence[Sequence[str]]


def _list_parameters(
    names: Sequence[str], count: int
) -> tuple[Callable[[_Row], tuple[Any, ...]], list[list[str]]]:
    return (operator.itemgetter(*map(_Row._fields.index, names)),
            [[f"{name}{place}" for name in names] for place in range(count)])


@functools.lru_cache(_MOST_STATEMENTS)
def _build_plain_insert(
    count: int, start: int, kind: str | None, has_names: bool
) -> _RowsInsert:
    """Build the INSERT of rows of which nothing is looked up.

    Each parameter costs time with every claim, so what all rows share has none.

    :param start: the position of the first one.
    :param kind: of all rows; None: each has its own.
    :param has_names: whether one has a name.
    """
    names = [name for name in _GIVEN if name != "ref"
             and (name != "kind" or kind is None) and (name != "name" or has_names)]
    shared = {} if kind is None else {"kind": sa.literal_column(f"'{kind}'", _log.c.kind.type)}
    statement = sa.insert(_log).inline().values([{
        **{name: sa.bindparam(f"{name}{place}", type_=_GIVEN[name]) for name in names},
        **shared, "position": sa.literal_column(str(start + place), sa.Integer),
        "txn": sa.bindparam("by_txn", type_=_log.c.txn.type), "at": clock.now()}
        for place in range(count)])
    return _RowsInsert(statement, *_list_parameters(names, count))


@functools.lru_cache(_MOST_STATEMENTS)
def _build_insert(count: int, start: int, sought: frozenset[str]) -> _RowsInsert:
    names = list(_GIVEN)
    statement = _select_rows(sa.union_all(*(
        sa.select(
            sa.literal_column(str(start + place), sa.Integer).label("position"),
            *(sa.bindparam(f"{name}{place}", type_=_GIVEN[name]).label(name) for name in names))
        for place in range(count))).subquery("given"), sought)
    return _RowsInsert(statement, *_list_parameters(names, count))


# Reading ----------------------------------------------------------------------


@db.retry_writes
def list_(
    ctx: Context, filters: AuditFilter, *, marker: str | None = None, limit: int
) -> list[AuditEntry]:
    """Return the entries that match all filters, the newest first.

    :param marker: that of the last entry of the previous page.
    :raises InvalidMarker: it is none.
    """
    if not all(map(texts.is_storable, filters.names.values())):
        return []
    statement = sa.select(_log).where(
        *(_log.c[name] == text for name, text in filters.names.items()))
    if filters.start_at is not None:
        statement = statement.where(_log.c.at >= _make_naive(filters.start_at))
    if filters.end_at is not None:
        statement = statement.where(_log.c.at < _make_naive(filters.end_at))
    if marker is not None:
        at, txn, position = _parse_marker(marker)
        statement = statement.where(_log.c.at <= at, sa.or_(
            _log.c.at < at, _log.c.txn < txn,
            sa.and_(_log.c.txn == txn, _log.c.position < position)))
    statement = statement.order_by(*(column.desc() for column in _KEY)).limit(limit)
    with db.read_once(ctx) as session:
        return [_make_entry(row) for row in session.execute(statement)]


@db.retry_writes
def read_transactions(ctx: Context, txns: Collection[int]) -> dict[int, list[AuditEntry]]:
    """Return the entries of transactions, by their names; without those that have none."""
    entries: dict[int, list[AuditEntry]] = {}
    if txns:
        with db.read_once(ctx) as session:
            for row in session.execute(_OF_TRANSACTIONS, {"txns": sorted(txns)}):
                entries.setdefault(row.txn, []).append(_make_entry(row))
    return entries


@db.retry_writes
def prune(ctx: Context, *, keep_days: int, most: int) -> int:
    """Delete entries that are older than some days; return how many.

    To delete all, repeat it until it deletes fewer than ``most``. Any number of processes may do
    so at the same time.

    :param most: about how many at a time.
    """
    parameters: dict[str, Any] = {"keep_seconds": keep_days * _SECONDS_A_DAY}
    with db.write(ctx) as session:
        until = session.execute(_LAST_OLD, {**parameters, "most": most - 1}).scalar()
        if until is None:
            removed = session.execute_write(_REMOVE, parameters)
        else:
            removed = session.execute_write(_REMOVE_SOME, {**parameters, "until": until})
    metrics.count_removed_rows(_log.name, removed)
    return removed


def _make_naive(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _make_entry(row: sa.Row[Any]) -> AuditEntry:
    marker = f"{clock.to_microseconds(row.at)}.{row.txn}.{row.position}"
    return AuditEntry(
        row.txn, row.at.replace(tzinfo=datetime.UTC), row.user_id, row.project_id,
        row.request_id, row.operation, row.kind, row.uuid, row.name, marker)


def _parse_marker(marker: str) -> tuple[datetime.datetime, int, int]:
    """Return the key of an entry.

    :raises InvalidMarker: the text is no marker.
    """
    try:
        microseconds, txn, position = map(int, marker.split("."))
        if 0 <= txn < 2**63 and 0 <= position < 2**31:
            return clock.from_microseconds(microseconds), txn, position
    except (OverflowError, ValueError):
        pass
    raise InvalidMarker(marker)
