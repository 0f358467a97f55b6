"""Domains: the roots of the trees of projects."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import errors, rows, tables, tree
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain

_KIND = "domain"
_NEVER_EMPTY = ("name",)

_domains = tables.catalog_domains
_projects = tables.catalog_projects


def check(domain: Domain) -> None:
    """Refuse values that no domain can have; nothing is read.

    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    rows.check_id(_KIND, domain.id)
    rows.check(_KIND, _domains, dataclasses.asdict(domain), never_empty=_NEVER_EMPTY)


class DomainChanges(TypedDict, total=False):
    """The fields of a domain that can be changed."""

    name: str
    description: str
    enabled: bool


@db.retry_writes
def create(
    ctx: Context, *, name: str, description: str = "", enabled: bool = True,
    id: str | None = None,  # noqa: A002  (the field's name)
) -> Domain:
    """Create a domain.

    :param id: a random id if None; no project may have it.
    :raises errors.Duplicate: the id or the name is taken.
    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    domain = Domain(id if id is not None else rows.new_id(), name, description, enabled)
    check(domain)
    values = dataclasses.asdict(domain)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        if rows.exists(session, _projects, "id", domain.id):
            raise errors.Duplicate(_KIND, f"a project of id {domain.id}")
        rows.insert(session, _domains, _KIND, values, clash=f"id {domain.id} or name {name}")
        tree.add(session, domain.id, parent_id=None)
    return domain


@db.retry_writes
def get(ctx: Context, id_: str) -> Domain:
    """Return a domain.

    :raises errors.NotInCatalog: no domain has this id.
    """
    with db.read_once(ctx) as session:
        return _make_record(rows.get(session, _domains, _KIND, id_))


@db.retry_writes
def list_(ctx: Context, *, name: str | None = None) -> list[Domain]:
    """Return all domains, or the domain with a name, ordered by name."""
    with db.read_once(ctx) as session:
        domain_rows = rows.list_matching(session, _domains, ["name"], {"name": name})
    return [_make_record(row) for row in domain_rows]


@db.retry_writes
def update(ctx: Context, id_: str, **changes: Unpack[DomainChanges]) -> Domain:
    """Update a domain.

    :raises errors.NotInCatalog: no domain has this id.
    :raises errors.Duplicate: the name is taken.
    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored.
    """
    rows.check(_KIND, _domains, changes, never_empty=_NEVER_EMPTY)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _domains, _KIND, id_)
        rows.update(
            session, _domains, _KIND, id_, changes, clash=f"name {changes.get('name')}")
        return _make_record(rows.get(session, _domains, _KIND, id_))


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a domain with all its projects.

    :raises errors.NotInCatalog: no domain has this id.
    :raises errors.StillEnabled: it is not disabled.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        if rows.get(session, _domains, _KIND, id_).enabled:
            raise errors.StillEnabled(id_)
        tree.remove_domain(session, id_)
        rows.delete(session, _projects, "domain_id", id_)
        rows.delete(session, _domains, "id", id_)


def _make_record(row: sa.Row[Any]) -> Domain:
    return Domain(**row._mapping)
