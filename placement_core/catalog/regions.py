"""Regions.

Source: Keystone v3. Differs: a region with child regions cannot be deleted,
where Keystone deletes the children, too; an id of blanks is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import errors, rows, tables
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.plugin_api.catalog import Region

_KIND = "region"
_NEVER_EMPTY = ("id", "parent_region_id")

_regions = tables.catalog_regions
_endpoints = tables.catalog_endpoints

_PARENT = sa.select(_regions.c.parent_region_id).where(_regions.c.id == sa.bindparam("id"))


def check(region: Region) -> None:
    """Refuse values that no region can have; nothing is read.

    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored; or the id
        is blank.
    """
    rows.check(_KIND, _regions, dataclasses.asdict(region), never_empty=_NEVER_EMPTY)
    if not region.id.strip():
        # To MariaDB blanks are no text, and limits that have no text have no region.
        raise errors.InvalidValue(_KIND, "id", "text that is not blank")


class RegionChanges(TypedDict, total=False):
    """The fields of a region that can be changed."""

    parent_region_id: str | None
    description: str


@db.retry_writes
def create(
    ctx: Context, *, id: str | None = None,  # noqa: A002  (the field's name)
    parent_region_id: str | None = None, description: str = "",
) -> Region:
    """Create a region.

    :param id: a random id if None.
    :raises errors.Duplicate: the id is taken.
    :raises errors.UnknownReference: the parent does not exist.
    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored.
    """
    region = Region(id if id is not None else rows.new_id(), parent_region_id, description)
    check(region)
    values = dataclasses.asdict(region)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        if parent_region_id is not None:
            rows.require(session, _regions, _KIND, parent_region_id)
        rows.insert(session, _regions, _KIND, values, clash=f"id {region.id}")
    return region


@db.retry_writes
def get(ctx: Context, id_: str) -> Region:
    """Return a region.

    :raises errors.NotInCatalog: no region has this id.
    """
    with db.read_once(ctx) as session:
        return _make_record(rows.get(session, _regions, _KIND, id_))


@db.retry_writes
def list_(ctx: Context, *, parent_region_id: str | None = None) -> list[Region]:
    """Return all regions, or the direct children of one region, ordered by id."""
    with db.read_once(ctx) as session:
        region_rows = rows.list_matching(
            session, _regions, ["id"], {"parent_region_id": parent_region_id})
    return [_make_record(row) for row in region_rows]


@db.retry_writes
def update(ctx: Context, id_: str, **changes: Unpack[RegionChanges]) -> Region:
    """Update a region.

    :raises errors.NotInCatalog: no region has this id.
    :raises errors.UnknownReference: the parent does not exist.
    :raises errors.Misplaced: the parent is the region itself, or below it.
    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored.
    """
    rows.check(_KIND, _regions, changes, never_empty=_NEVER_EMPTY)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _regions, _KIND, id_)
        parent_id = changes.get("parent_region_id")
        if parent_id is not None:
            rows.require(session, _regions, _KIND, parent_id)
            if _is_below(session, parent_id, id_):
                raise errors.Misplaced(_KIND, id_, parent_id, "it would be below itself")
        rows.update(session, _regions, _KIND, id_, changes)
        return _make_record(rows.get(session, _regions, _KIND, id_))


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a region.

    :raises errors.NotInCatalog: no region has this id.
    :raises errors.InUse: it has endpoints or child regions.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _regions, _KIND, id_)
        if rows.exists(session, _endpoints, "region_id", id_):
            raise errors.InUse(_KIND, id_, "endpoints")
        if rows.exists(session, _regions, "parent_region_id", id_):
            raise errors.InUse(_KIND, id_, "child regions")
        rows.delete(session, _regions, "id", id_)


def _is_below(session: Session, id_: str | None, top_id: str) -> bool:
    """Return whether a region is the region ``top_id``, or below it."""
    seen: set[str] = set()
    while id_ is not None and id_ not in seen:
        if id_ == top_id:
            return True
        seen.add(id_)
        id_ = session.execute(_PARENT, {"id": id_}).scalar()
    return False


def _make_record(row: sa.Row[Any]) -> Region:
    return Region(**row._mapping)
