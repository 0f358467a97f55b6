"""Usage intervals: who held what, from when to when.

An interval that goes on is a row of ``allocations`` with its ``started_at``. One that ends becomes
a row of ``usage_intervals``, in the transaction that deletes the allocation. So a claim of a new
consumer writes nothing more, and what deletes or replaces allocations one row for each. An
allocation that a write leaves as it is keeps its row, so its interval is not cut.

All times are the database's (``LoadedRows.now``), read under the consumer's lock: what a
consumer holds after a write begins at the moment at which ends what it held before.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from placement_core.db import Session, lists
from placement_core.placement import tables

_intervals, _allocations, _consumers = (
    tables.usage_intervals, tables.allocations, tables.consumers)
_providers, _classes = tables.resource_providers, tables.resource_classes
_projects, _users, _types = tables.projects, tables.users, tables.consumer_types

#: Since when an allocation is held. Rows of older versions, and upstream's, have the time of the
#: process that inserted them.
STARTED_AT = sa.func.coalesce(_allocations.c.started_at, _allocations.c.created_at)

#: The allocations with the names of what their rows refer to, under the names of the columns of
#: ``usage_intervals``. Consumers of adopted databases may have no row.
OPEN = (
    sa.select(
        _allocations.c.consumer_id.label("consumer_uuid"), STARTED_AT.label("started_at"),
        _allocations.c.id.label("allocation_id"), _types.c.name.label("consumer_type"),
        _projects.c.external_id.label("project_id"), _users.c.external_id.label("user_id"),
        _providers.c.uuid.label("provider_uuid"), _classes.c.name.label("resource_class"),
        _allocations.c.used.label("amount"))
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .outerjoin(_projects, _projects.c.id == _consumers.c.project_id)
    .outerjoin(_users, _users.c.id == _consumers.c.user_id)
    .outerjoin(_types, _types.c.id == _consumers.c.consumer_type_id))

_ENDED_AT = sa.bindparam("now", type_=_intervals.c.ended_at.type)


def _select_owner(
    name: sa.Column[str], its_id: sa.Column[int], owner: sa.Column[int]
) -> sa.ScalarSelect[str]:
    """Build the name of what owns the consumer of an allocation, or None.

    :param owner: the column of consumers that refers to ``its_id``.
    """
    owner_id = sa.select(owner).where(
        _consumers.c.uuid == _allocations.c.consumer_id).correlate(_allocations).scalar_subquery()
    return sa.select(name).where(its_id == owner_id).correlate(_allocations).scalar_subquery()


# The same as ``OPEN``, with values in place of joins: a plan for these that was made while there
# were few consumers reads all of them.
# What did not last, or seems to begin later (clocks differ), is no interval.
_ENDED = (
    sa.select(
        _allocations.c.consumer_id.label("consumer_uuid"), STARTED_AT.label("started_at"),
        _allocations.c.id.label("allocation_id"),
        _select_owner(_types.c.name, _types.c.id, _consumers.c.consumer_type_id).label(
            "consumer_type"),
        _select_owner(_projects.c.external_id, _projects.c.id, _consumers.c.project_id).label(
            "project_id"),
        _select_owner(_users.c.external_id, _users.c.id, _consumers.c.user_id).label("user_id"),
        _providers.c.uuid.label("provider_uuid"), _classes.c.name.label("resource_class"),
        _allocations.c.used.label("amount"), _ENDED_AT.label("ended_at"))
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .where(lists.among(_allocations.c.id, "ids"), STARTED_AT < _ENDED_AT))
_INSERT = sa.insert(_intervals).inline().from_select(
    [column.name for column in _ENDED.selected_columns], _ENDED)


def insert_ended(session: Session, ids: Sequence[int], now: datetime.datetime) -> None:
    """Insert the intervals of allocations that are about to be deleted.

    Call it before the rows of their consumers change.

    :param ids: of the allocations.
    :param now: naive UTC.
    """
    session.write_later(_INSERT, {"ids": ids, "now": now})
