"""Projects, users and types: whom consumers belong to.

Their rows are only ever added, in short transactions of their own; one that nobody uses is
harmless.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.context import Context
from placement_core.db import TransactionConflict, inserts, lists, texts
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, records, tables

#: {kind of owner: (its table, the column of its name)}.
TABLES = {
    "projects": (tables.projects, tables.projects.c.external_id),
    "users": (tables.users, tables.users.c.external_id),
    "types": (tables.consumer_types, tables.consumer_types.c.name),
}

#: Where no owner of incomplete consumers is configured.
_NOBODY = "00000000-0000-0000-0000-000000000000"
_MOST_KNOWN = 100_000


class OwnerMissing(TransactionConflict):
    """A project, user or type that was there is gone; the next attempt makes it."""


def _build_insert(table: sa.Table, name: sa.Column[str]) -> sa.Insert:
    exists = sa.exists().where(name == sa.bindparam("name"))
    return sa.insert(table).from_select(
        [name.name], sa.select(sa.bindparam("name", type_=name.type)).where(~exists))


_INSERT = {kind: _build_insert(*TABLES[kind]) for kind in TABLES}
_PROJECT_IDS: sa.Select[Any] = sa.select(
    tables.projects.c.external_id, tables.projects.c.id,
).where(lists.among(tables.projects.c.external_id, "names"))


class Owners:
    """Makes the rows of owners in one database, and remembers which are there.

    Any thread may ask. Rows are never removed while we run; should one be missing all the
    same (the database was restored), the consumer's INSERT finds nothing and we forget.

    :ivar incomplete: the (project, user) of consumers that were written by clients too old
        to name theirs.
    """

    def __init__(self, incomplete: tuple[str, str] = (_NOBODY, _NOBODY)) -> None:
        self.incomplete = incomplete
        # Plain, and emptied when full, as every claim looks at one or both of them: locks and
        # the order of use would cost more than making some rows anew. Replaced, not emptied,
        # so that a thread that looks at the old one sees it whole.
        #: Names that were seen: {(kind, name), …}.
        self._known: set[tuple[str, str]] = set()
        #: {project: id of its row}.
        self._project_ids: dict[str, int] = {}

    def ensure(self, ctx: Context, writes: Iterable[records.AllocationWrite]) -> None:
        """Make the rows of projects, users and types that ``writes`` name, where missing.

        Before the transaction of the write, so that two writers that both need a new
        row do not wait for each other's capacity checks.
        """
        names: set[tuple[str, str]] = set()
        for write in writes:
            if write.allocations:
                names |= _get_owners(write)
        for kind, name in sorted(names - self._known):
            if not texts.is_storable(name):
                raise errors.InvalidOwner(name)
            try:
                if ctx.session is not None:
                    ctx.session.execute(_INSERT[kind], {"name": name})
                    continue  # not known before that transaction is committed
                with ctx.database.connection(ctx.database.autocommit) as connection:
                    connection.execute(_INSERT[kind], {"name": name})
            except db_exception.DBDuplicateEntry:
                if ctx.session is not None:
                    raise TransactionConflict from None
            if len(self._known) >= _MOST_KNOWN:
                self._known = set()
            self._known.add((kind, name))

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget which owners are known to exist when one turns out to be missing."""
        try:
            yield
        except OwnerMissing:
            self._known = set()
            raise

    def project_ids(self, ctx: Context, names: Collection[str]) -> dict[str, int]:
        """Return the ids of the rows of projects; those that are missing are made.

        Before the transaction that needs them, as ``ensure``.

        :returns: none of a name that no row can hold, or that a row has in another spelling.
        """
        known = self._project_ids
        missing = sorted(name for name in names if name not in known and texts.is_storable(name))
        if missing:
            if len(known) >= _MOST_KNOWN:
                known = self._project_ids = {}
                missing = sorted(filter(texts.is_storable, names))
            with ctx.database.connection(ctx.database.autocommit) as connection:
                now = utcnow()
                inserts.insert_missing(connection, tables.projects, [
                    {"external_id": name, "created_at": now} for name in missing])
                ids = connection.execute(_PROJECT_IDS, {"names": missing}).all()
                known.update((row.external_id, row.id) for row in ids)
        return {name: known[name] for name in names if name in known}

    def forget_projects(self) -> None:
        """Forget the rows of projects, because the database is another one now."""
        self._project_ids = {}


def _get_owners(write: records.AllocationWrite) -> set[tuple[str, str]]:
    owners = {("projects", write.project_id), ("users", write.user_id)}
    if write.consumer_type is not None:
        owners.add(("types", write.consumer_type))
    return owners
