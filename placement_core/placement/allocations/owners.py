"""The projects, users and types of consumers.

Their rows are inserted in short transactions; a row that is not used is harmless, and is removed
after a day (``unused_names``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.context import Context
from placement_core.db import TransactionConflict, texts
from placement_core.placement import errors, records, tables, unused_names

#: {kind of owner: (its table, the column of its name)}.
TABLES = {
    "projects": (tables.projects, tables.projects.c.external_id),
    "users": (tables.users, tables.users.c.external_id),
    "types": (tables.consumer_types, tables.consumer_types.c.name),
}

#: The owner of incomplete consumers if none is configured.
_NOBODY = "00000000-0000-0000-0000-000000000000"
_MOST_KNOWN = 100_000


class OwnerMissing(TransactionConflict):
    """A cached project, user or type does not exist any more; the next attempt inserts it."""


def _build_insert(table: sa.Table, name: sa.Column[str]) -> sa.Insert:
    exists = sa.exists().where(name == sa.bindparam("name"))
    return sa.insert(table).from_select(
        [name.name], sa.select(sa.bindparam("name", type_=name.type)).where(~exists),
    ).execution_options(preserve_rowcount=True)


_INSERT = {kind: _build_insert(*TABLES[kind]) for kind in TABLES}
_KEEP = {kind: unused_names.build_keep(*TABLES[kind]) for kind in TABLES}


class Owners:
    """Inserts the rows of owners in one database, and caches which exist. Thread-safe.

    A row that was looked at is not removed for hours, so the cache is emptied after one. If a row
    is missing nevertheless (the database was restored), the INSERT of the consumer inserts
    nothing, and the cache is cleared.

    :ivar incomplete: the (project, user) of consumers whose clients are too old to name them.
    """

    def __init__(self, incomplete: tuple[str, str] = (_NOBODY, _NOBODY)) -> None:
        self.incomplete = incomplete
        # Plain containers, emptied when full: every claim reads them, and an LRU cache with a
        # lock would cost more than reading some rows again. They are replaced, not cleared, so
        # that other threads keep a complete one.
        #: Names whose rows exist: {(kind, name), …}; and the monotonic time of the first look.
        self._known: set[tuple[str, str]] = set()
        self._known_since = time.monotonic()
        #: {project: id of its row}.
        self._project_ids: dict[str, int] = {}

    def ensure(self, ctx: Context, writes: Iterable[records.AllocationWrite]) -> None:
        """Insert the missing rows of the projects, users and types in ``writes``.

        This happens before the transaction of the write, so that two writers that need the same
        new row do not wait for each other's whole transaction.
        """
        names: set[tuple[str, str]] = set()
        for write in writes:
            if write.allocations:
                names |= _get_owners(write)
        if time.monotonic() - self._known_since >= unused_names.TRUSTED_SECONDS:
            self._forget_names()
        for kind, name in sorted(names - self._known):
            if not texts.is_storable(name):
                raise errors.InvalidOwner(name)
            try:
                if ctx.session is not None:
                    _insert_or_keep(ctx.session.connection, kind, name)
                    continue  # not known before that transaction is committed
                with ctx.database.connection(ctx.database.autocommit) as connection:
                    _insert_or_keep(connection, kind, name)
            except db_exception.DBDuplicateEntry:
                if ctx.session is not None:
                    raise TransactionConflict from None
            if len(self._known) >= _MOST_KNOWN:
                self._forget_names()
            self._known.add((kind, name))

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """Clear the cache of existing owners if one turns out to be missing."""
        try:
            yield
        except OwnerMissing:
            self._forget_names()
            raise

    def _forget_names(self) -> None:
        self._known, self._known_since = set(), time.monotonic()

    def project_ids(self, ctx: Context, names: Collection[str]) -> dict[str, int]:
        """Return the ids of the rows of projects, inserting missing rows.

        Call it before the transaction that needs them, like ``ensure``.

        :returns: {project: id}, without names that no row can store, or that a row has in
            another case.
        """
        known = self._project_ids
        missing = sorted(name for name in names if name not in known and texts.is_storable(name))
        if missing:
            if len(known) >= _MOST_KNOWN:
                known = self._project_ids = {}
                missing = sorted(filter(texts.is_storable, names))
            with ctx.database.connection(ctx.database.autocommit) as connection:
                # One that is left out would count as if it used nothing.
                known.update(unused_names.find_or_insert(
                    connection, tables.projects.c.external_id, missing))
        return {name: known[name] for name in names if name in known}

    def forget_projects(self) -> None:
        """Clear the cache of project ids: a row was removed, or the database replaced."""
        self._project_ids = {}


def normalize_owners(
    ctx: Context, writes: Sequence[records.AllocationWrite]
) -> Sequence[records.AllocationWrite]:
    """Return writes in which owners have one name that the database takes for equal.

    Limits and gates compare names as they are spelled, and then mean the row that is found.
    """
    if ctx.database.dialect != "mysql":
        return writes
    return [dataclasses.replace(
        write, project_id=texts.strip_padding("mysql", write.project_id),
        user_id=texts.strip_padding("mysql", write.user_id)) for write in writes]


def _insert_or_keep(connection: sa.Connection, kind: str, name: str) -> None:
    if connection.execute(_INSERT[kind], {"name": name}).rowcount == 0:
        connection.execute(_KEEP[kind], {"name": name})


def _get_owners(write: records.AllocationWrite) -> set[tuple[str, str]]:
    owners = {("projects", write.project_id), ("users", write.user_id)}
    if write.consumer_type is not None:
        owners.add(("types", write.consumer_type))
    return owners
