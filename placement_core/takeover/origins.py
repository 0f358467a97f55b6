"""Remember which of our records were copied from which source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, inserts, lists
from placement_core.takeover import tables

_copied = tables.copied_records

_OF_SOURCE = sa.select(_copied.c.kind, _copied.c.record_id).where(
    _copied.c.source == sa.bindparam("of_source"), lists.among(_copied.c.kind, "kinds"))
_OF_OTHERS = sa.select(_copied.c.source, _copied.c.kind, _copied.c.record_id).where(
    _copied.c.source != sa.bindparam("of_source"),
    lists.among(_copied.c.kind, "kinds"))
_OTHERS_WITH = sa.select(_copied.c.source).where(
    _copied.c.source != sa.bindparam("of_source"), _copied.c.kind == sa.bindparam("of_kind"),
    _copied.c.record_id == sa.bindparam("of_record")).limit(1)
_AMONG = sa.select(_copied.c.record_id).where(
    _copied.c.source == sa.bindparam("of_source"), _copied.c.kind == sa.bindparam("of_kind"),
    lists.among(_copied.c.record_id, "ids"))
_PAGE = (
    sa.select(_copied.c.record_id)
    .where(_copied.c.source == sa.bindparam("of_source"),
           _copied.c.kind == sa.bindparam("of_kind"), _copied.c.record_id > sa.bindparam("after"))
    .order_by(_copied.c.record_id).limit(1000))
_ELSEWHERE = (
    sa.select(_copied.c.record_id).where(_copied.c.kind == sa.bindparam("of_kind"))
    .group_by(_copied.c.record_id)
    .having(sa.func.max(sa.case((lists.among(_copied.c.source, "sources"), 1), else_=0)) == 0))
_SOURCES = sa.select(_copied.c.source).distinct()
_INSERT = inserts.build_skipping_insert(_copied)
_DELETE = sa.delete(_copied).where(
    _copied.c.source == sa.bindparam("of_source"), _copied.c.kind == sa.bindparam("of_kind"),
    _copied.c.record_id == sa.bindparam("of_record"))


@db.retry_writes
def list_sources(ctx: Context) -> list[str]:
    """Return the sources from which records were copied."""
    with db.read_once(ctx) as session:
        return list(session.execute(_SOURCES).scalars())


@db.retry_writes
def list_copied(ctx: Context, source: str, kinds: Sequence[str]) -> Mapping[str, set[str]]:
    """Return the ids of what was copied from a source: {kind: ids}, in the order of kinds."""
    copied: dict[str, set[str]] = {kind: set() for kind in kinds}
    with db.read_once(ctx) as session:
        for row in session.execute(_OF_SOURCE, {"of_source": source, "kinds": list(kinds)}):
            copied[row.kind].add(row.record_id)
    return copied


@db.retry_writes
def list_owners(
    ctx: Context, source: str, kinds: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return what was copied from other sources: {kind: {id: the source}}."""
    owners: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    if kinds:
        with db.read_once(ctx) as session:
            for row in session.execute(
                    _OF_OTHERS, {"of_source": source, "kinds": list(kinds)}):
                owners[row.kind][row.record_id] = row.source
    return owners


@db.retry_writes
def list_elsewhere(ctx: Context, sources: Sequence[str], kind: str) -> set[str]:
    """Return the ids of a kind that were copied, and from none of some sources."""
    with db.read_once(ctx) as session:
        return set(session.execute(
            _ELSEWHERE, {"of_kind": kind, "sources": list(sources)}).scalars())


def is_shared(session: Session, source: str, kind: str, id_: str) -> bool:
    """Say whether a record was copied from another source, too."""
    return session.execute(_OTHERS_WITH, {
        "of_source": source, "of_kind": kind, "of_record": id_}).first() is not None


@db.retry_writes
def filter_copied(ctx: Context, source: str, kind: str, ids: Sequence[str]) -> set[str]:
    """Return those ids of a kind that were copied from a source."""
    with db.read_once(ctx) as session:
        return set(session.execute(
            _AMONG, {"of_source": source, "of_kind": kind, "ids": list(ids)}).scalars())


def read_pages(ctx: Context, source: str, kind: str) -> Iterator[Sequence[str]]:
    """Yield the ids of a kind that were copied from a source, some at a time."""
    after = ""
    while page := _read_page(ctx, source, kind, after):
        yield page
        after = page[-1]


@db.retry_writes
def _read_page(ctx: Context, source: str, kind: str, after: str) -> Sequence[str]:
    with db.read_once(ctx) as session:
        return session.execute(
            _PAGE, {"of_source": source, "of_kind": kind, "after": after}).scalars().all()


def remember(session: Session, source: str, kind: str, ids: Iterable[str]) -> None:
    """Record that records came from a source, in the transaction that made them.

    Those of which it is recorded already stay: another copy may have been faster, or a transaction
    is repeated whose COMMIT was lost.
    """
    rows = [{"source": source, "kind": kind, "record_id": id_} for id_ in ids]
    if rows:
        session.execute(_INSERT, rows)


def forget(session: Session, source: str, kind: str, id_: str) -> None:
    """Record that a record of a source is not here any more."""
    session.execute(_DELETE, {"of_source": source, "of_kind": kind, "of_record": id_})
