"""Locking provider rows: every write that touches a provider does it.

A lock is an UPDATE (Galera certifies writes only): ``revision`` rises, and
with it ``generation`` where the API says so. A transaction that locked a
provider's row may decide about its inventories, allocations, traits, aggregates, children
and parent by what it reads *afterwards*; what it read before may have changed.

Order, for a deadlock-free whole: consumers, then provider rows by id (all of a
transaction in one call), then resource class rows by id
(``resource_classes.lock_classes``), then limits, usage counters, the change head.
Trait rows are protected by the database's foreign key and take no lock of ours.

An id may come back for another provider after a delete (SQLite): a uuid that
was resolved in an earlier transaction must be compared again under the lock.
Source: design §4.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.db import Session, arrays, failures, lists, row_locks
from placement_core.placement import tables

_providers = tables.resource_providers

#: What an INTEGER column holds; a generation beyond it matches no row.
LARGEST_INTEGER = 2**31 - 1

_LOCK = (
    sa.update(_providers)
    .where(_providers.c.id == sa.bindparam("of_id"))
    .values(revision=_providers.c.revision + 1,
            generation=_providers.c.generation + sa.bindparam("step"))
)


#: The same for any number of rows with one step.
_LOCK_MANY = (
    sa.update(_providers)
    .where(row_locks.locked_in_order(_providers.c.id, lists.among(_providers.c.id, "ids")))
    .values(revision=_providers.c.revision + 1,
            generation=_providers.c.generation + sa.bindparam("step"))
)


def _lock_arrays() -> sa.Update:
    """Build the same for any number of rows, each with its own step, for PostgreSQL."""
    steps = arrays.rows("wanted", {"of_id": sa.Integer, "step": sa.Integer})
    return (
        sa.update(_providers)
        .where(_providers.c.id == steps.c.of_id,
               row_locks.locked_in_order(_providers.c.id, lists.among(_providers.c.id, "of_id")))
        .values(revision=_providers.c.revision + 1,
                generation=_providers.c.generation + steps.c.step))


_LOCK_ARRAYS = _lock_arrays()
_RAISE_MANY = (
    sa.update(_providers).where(lists.among(_providers.c.id, "ids"))
    .values(generation=_providers.c.generation + sa.bindparam("step")))
_RAISE_GENERATION = (
    sa.update(_providers)
    .where(_providers.c.id == sa.bindparam("of_id"))
    .values(generation=_providers.c.generation + 1)
)
_LOCK_AT_GENERATION = _LOCK.where(_providers.c.generation == sa.bindparam("seen"))


def lock_providers(session: Session, steps: Mapping[int, int]) -> None:
    """Lock the rows of providers, in the order of their ids, until the commit.

    :param steps: {provider id: how far its generation rises}.
    :raises failures.TransactionConflict: one of them was removed meanwhile;
        ``retry_writes`` begins again and finds out which.
    """
    lock_providers_later(session, steps)
    session.flush()


def lock_providers_later(session: Session, steps: Mapping[int, int]) -> None:
    """Do the same together with the session's next statement, which raises the errors."""
    if not steps:
        return
    rows = [{"of_id": key, "step": steps[key]} for key in sorted(steps)]

    def check(met: int) -> None:
        if met != len(rows):
            raise failures.TransactionConflict

    if len(rows) == 1:
        session.write_later(_LOCK, rows[0], check)
    elif session.dialect == "postgresql":
        session.write_later(_LOCK_ARRAYS, arrays.columns(rows), check)
    else:
        _lock_by_step(session, steps, check)
    for key in steps:
        session.record_change(kinds.PROVIDER, key)


def _lock_by_step(
    session: Session, steps: Mapping[int, int], check: Callable[[int], None]
) -> None:
    """Lock many rows with a statement for each step."""
    by_step: dict[int, list[int]] = collections.defaultdict(list)
    for key in sorted(steps):
        by_step[steps[key]].append(key)
    common = max(by_step, key=lambda step: len(by_step[step]))
    # All at once, because they are to be locked in order; the others are locked by then.
    session.write_later(_LOCK_MANY, {"ids": sorted(steps), "step": common}, check)
    for step, ids in by_step.items():
        if step != common:
            session.write_later(_RAISE_MANY, {"ids": ids, "step": step - common})


def lock_at_generation(session: Session, provider_id: int, *, seen: int, step: int) -> bool:
    """Lock a provider's row if its generation still is ``seen``.

    :returns: whether it was; if not, nothing was changed or locked.
    """
    if not 0 <= seen <= LARGEST_INTEGER:
        return False
    if session.execute_write(
            _LOCK_AT_GENERATION, {"of_id": provider_id, "step": step, "seen": seen}) != 1:
        return False
    session.record_change(kinds.PROVIDER, provider_id)
    return True


def raise_generation(session: Session, provider_id: int) -> None:
    """Increment the generation of a provider whose row the session locked already.

    For writes that learn only under the lock whether they change anything.
    """
    session.execute_write(_RAISE_GENERATION, {"of_id": provider_id})
