"""Reads which providers are in which domains of a level, for those who have no snapshot.

It says of roots what ``levels.Domains`` says of a snapshot's rows, in two statements.
"""

from __future__ import annotations

import os_traits
import sqlalchemy as sa

from placement_core.db import Session, lists
from placement_core.placement import tables
from placement_core.placement.gangs import levels
from placement_core.placement.gangs.levels import Level

_providers, _inventories = tables.resource_providers, tables.inventories
_traits, _of_providers = tables.traits, tables.resource_provider_traits
_aggregates, _members = tables.placement_aggregates, tables.resource_provider_aggregates


def _has_trait(name: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        _of_providers.c.resource_provider_id == _providers.c.id,
        _of_providers.c.trait_id == _traits.c.id, _traits.c.name == name)


#: The providers that mark aggregates: those that share, and those without inventory.
_MARKS = (
    sa.select(_aggregates.c.id, _aggregates.c.uuid, _providers.c.name)
    .join(_members, _members.c.aggregate_id == _aggregates.c.id)
    .join(_providers, _providers.c.id == _members.c.resource_provider_id)
    .where(sa.or_(
        _has_trait(sa.literal(os_traits.MISC_SHARES_VIA_AGGREGATE)),
        ~sa.exists().where(_inventories.c.resource_provider_id == _providers.c.id))))
_MARKS_WITH_TRAIT = _MARKS.where(_has_trait(sa.bindparam("value", type_=sa.String)))
_MARKS_WITH_NAME = _MARKS.where(
    sa.func.substr(_providers.c.name, 1, sa.bindparam("length", type_=sa.Integer))
    == sa.bindparam("value", type_=sa.String))
_MEMBERS = (
    sa.select(_members.c.resource_provider_id, _members.c.aggregate_id)
    .join(_providers, _providers.c.id == _members.c.resource_provider_id)
    .where(_providers.c.root_provider_id == _providers.c.id,
           lists.among_many(_members.c.aggregate_id, "aggregate_ids")))


def read_domain_names(session: Session, level: Level) -> dict[int, str]:
    """Return the name of the domain of each root that is in one, by its id.

    :param level: of aggregates.
    """
    if level.kind == "trait":
        marks = session.execute(_MARKS_WITH_TRAIT, {"value": level.value}).all()
    else:
        marks = session.execute(
            _MARKS_WITH_NAME, {"value": level.value, "length": len(level.value)}).all()
        # A collation may take other names for ones that begin so.
        marks = [mark for mark in marks if mark.name.startswith(level.value)]
    if not marks:
        return {}
    names = levels.name_aggregates((mark.uuid, mark.name) for mark in marks)
    # A host in several of them is in the first.
    place = {uuid: place for place, uuid in enumerate(names)}
    uuids = {mark.id: mark.uuid for mark in marks}
    rows = session.execute(_MEMBERS, {"aggregate_ids": sorted(uuids)}).all()
    return {row.resource_provider_id: names[uuids[row.aggregate_id]] for row in sorted(
        rows, key=lambda row: place[uuids[row.aggregate_id]], reverse=True)}
