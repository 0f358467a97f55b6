"""What changed behind a token, and pages of everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable

from placement_core import db
from placement_core.changes import positions, vector
from placement_core.changes.errors import InvalidPosition
from placement_core.changes.positions import ChangeRow, Position
from placement_core.changes.vector import Vector
from placement_core.context import Context
from placement_core.feed.kinds import KINDS, Reading
from placement_core.feed.records import Answer, Change, Filters
from placement_core.feed.tokens import Token


@db.retry_writes
def read_now(ctx: Context) -> Answer:
    """Return no changes, and the token of the present."""
    with db.read(ctx) as session:
        now = vector.read_current(session)
    return Answer((), Token(Position.of(now)), now.digest[0], more=False)


@db.retry_writes
def read(ctx: Context, token: Token | None, filters: Filters, *, most: int) -> Answer:
    """Return what follows a token.

    While everything is being listed, that is the next page; then it is what changed since the
    first page was read, and so on. Everything in an answer is of one snapshot.

    :param token: None: begin to list everything.
    :param most: how many objects. There may be more of them, because a transaction is not split.
    :raises errors.PositionLost: changes since the token are not known any more.
    :raises errors.InvalidPosition: the token is none.
    """
    with db.read(ctx) as session:
        now = vector.read_current(session)
        reading = Reading(ctx, session)
        if token is None:
            token = Token(Position.of(now), (0, ""))
        if token.seen is not None:
            positions.check(session, token.seen, now)
        if token.listing is not None:
            return _list(reading, token, token.listing, filters, most, now)
        wanted = {log_kind for name in filters.kinds for log_kind in KINDS[name].log_kinds}
        page = positions.read_page(
            session, token.position, now, get_key=_build_key(wanted, filters.project_id),
            most_keys=most)
        return Answer(
            _find(reading, page.rows, filters),
            Token(page.position, seen=None if page.is_last else Position.of(now)),
            now.digest[0], more=not page.is_last, txns={row.txn for row in page.rows})


def _list(
    reading: Reading, token: Token, listing: tuple[int, str], filters: Filters, most: int,
    now: Vector,
) -> Answer:
    """Return a page of everything, kind by kind.

    Objects that change between two pages change behind the token's position, so they come after
    the last page, those that were deleted, too.
    """
    place, marker = listing
    kinds = list(KINDS.values())
    if place >= len(kinds):
        raise InvalidPosition
    changes: list[Change] = []
    following: tuple[int, str] | None = (place, marker)
    while following is not None and len(changes) < most:
        place, marker = following
        next_marker = None
        if kinds[place].name in filters.kinds:
            page = kinds[place].list(
                reading, filters.project_id, marker, most - len(changes))
            changes += page.changes
            next_marker = page.marker
        if next_marker is not None:
            following = place, next_marker
        else:
            following = (place + 1, "") if place + 1 < len(kinds) else None
    return Answer(
        changes, Token(token.position, following, Position.of(now)), now.digest[0], more=True)


def _build_key(
    wanted: set[str], project_id: str | None
) -> Callable[[ChangeRow], Hashable | None]:
    """Build what names the object of a change row; None: the reader does not want it."""
    def get_key(row: ChangeRow) -> Hashable | None:
        if row.kind not in wanted:
            return None
        if project_id is not None and row.project not in (None, project_id):
            return None
        return row.kind, row.ref, row.uuid, row.name

    return get_key


def _find(reading: Reading, rows: Iterable[ChangeRow], filters: Filters) -> list[Change]:
    by_kind: dict[str, list[ChangeRow]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row)
    changes = [
        change for name, kind in KINDS.items() if name in filters.kinds
        if (of_kind := [row for log_kind in kind.log_kinds for row in by_kind.get(log_kind, ())])
        for change in kind.find(reading, of_kind)]
    if filters.project_id is None:
        return changes
    return _keep_owned(changes, rows, filters.project_id)


def _keep_owned(
    changes: Iterable[Change], rows: Iterable[ChangeRow], project_id: str
) -> list[Change]:
    """Return what a project owns or owned before; what it does not own now is gone for it."""
    before = {row.uuid for row in rows if row.uuid and row.project == project_id}
    owned = []
    for change in changes:
        if change.project_id == project_id:
            owned.append(change)
        elif change.id in before:
            owned.append(dataclasses.replace(change, project_id=project_id, record=None))
    return owned
