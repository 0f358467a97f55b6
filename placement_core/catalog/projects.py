"""Projects, each below its domain or another project.

Source: Keystone v3; differs: a project can be moved within its domain.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import errors, rows, tables, tree
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.plugin_api.catalog import Project

_KIND = "project"
_NEVER_EMPTY = ("name",)

_domains = tables.catalog_domains
_projects = tables.catalog_projects


def check(project: Project) -> None:
    """Refuse values that no project can have; nothing is read.

    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    rows.check_id(_KIND, project.id)
    rows.check(_KIND, _projects, dataclasses.asdict(project), never_empty=_NEVER_EMPTY)


class ProjectChanges(TypedDict, total=False):
    """The fields of a project that can be changed; a new parent moves its descendants, too."""

    name: str
    parent_id: str
    description: str
    enabled: bool


@db.retry_writes
def create(
    ctx: Context, *, name: str, domain_id: str, parent_id: str | None = None,
    description: str = "", enabled: bool = True,
    id: str | None = None,  # noqa: A002  (the field's name)
    max_depth: int | None = None,
) -> Project:
    """Create a project.

    :param parent_id: its parent project, or its domain; its domain if None.
    :param id: a random id if None; no domain may have it.
    :param max_depth: the number of levels that a tree may have, where a domain is level 1;
        None: any number.
    :raises errors.Duplicate: the id is taken, or the name in the domain.
    :raises errors.UnknownReference: the domain or the parent does not exist.
    :raises errors.Misplaced: the parent is in another domain.
    :raises errors.TooDeep: its level would exceed ``max_depth``.
    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    project = Project(
        id if id is not None else rows.new_id(), name, domain_id,
        domain_id if parent_id is None else parent_id, description, enabled)
    check(project)
    values = dataclasses.asdict(project)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.require(session, _domains, "domain", domain_id)
        _check_parent(session, project)
        if max_depth is not None:
            _check_depth(session, project.parent_id, 1, max_depth)
        if rows.exists(session, _domains, "id", project.id):
            raise errors.Duplicate(_KIND, f"a domain of id {project.id}")
        rows.insert(
            session, _projects, _KIND, values,
            clash=f"id {project.id}, or name {name} in domain {domain_id},")
        tree.add(session, project.id, parent_id=project.parent_id)
    return project


@db.retry_writes
def get(ctx: Context, id_: str) -> Project:
    """Return a project.

    :raises errors.NotInCatalog: no project has this id.
    """
    with db.read_once(ctx) as session:
        return _make_record(rows.get(session, _projects, _KIND, id_))


@db.retry_writes
def list_(
    ctx: Context, *, name: str | None = None, domain_id: str | None = None,
    parent_id: str | None = None,
) -> list[Project]:
    """Return the projects that match all filters, ordered by name; None matches any.

    :param parent_id: the project or domain that they are directly below.
    """
    with db.read_once(ctx) as session:
        project_rows = rows.list_matching(
            session, _projects, ["name", "id"],
            {"name": name, "domain_id": domain_id, "parent_id": parent_id})
    return [_make_record(row) for row in project_rows]


@db.retry_writes
def update(
    ctx: Context, id_: str, *, max_depth: int | None = None, **changes: Unpack[ProjectChanges],
) -> Project:
    """Update a project; if it gets another parent, move it with its descendants.

    :param max_depth: the number of levels that a tree may have, where a domain is level 1;
        None: any number.
    :raises errors.NotInCatalog: no project has this id.
    :raises errors.Duplicate: the name is taken in its domain.
    :raises errors.UnknownReference: the parent does not exist.
    :raises errors.Misplaced: the parent is in another domain, or is the project or below it.
    :raises errors.TooDeep: the level of a moved project would exceed ``max_depth``.
    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored.
    """
    rows.check(_KIND, _projects, changes, never_empty=_NEVER_EMPTY)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        present = _make_record(rows.get(session, _projects, _KIND, id_))
        changed = dataclasses.replace(present, **changes)
        if changed.parent_id != present.parent_id:
            _check_parent(session, changed)
            if tree.is_below(session, changed.parent_id, id_):
                raise errors.Misplaced(
                    _KIND, id_, changed.parent_id, "it would be below itself")
            if max_depth is not None:
                levels = tree.height(session, id_)
                _check_depth(session, changed.parent_id, levels, max_depth)
            tree.move(session, id_, changed.parent_id)
        rows.update(
            session, _projects, _KIND, id_, changes,
            clash=f"name {changed.name} in domain {changed.domain_id}")
    return changed


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a project that has no child projects.

    :raises errors.NotInCatalog: no project has this id.
    :raises errors.InUse: it has child projects.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _projects, _KIND, id_)
        if rows.exists(session, _projects, "parent_id", id_):
            raise errors.InUse(_KIND, id_, "child projects")
        tree.remove_leaf(session, id_)
        rows.delete(session, _projects, "id", id_)


def _check_parent(session: Session, project: Project) -> None:
    """Refuse a parent that is not in the project's domain."""
    if project.parent_id == project.domain_id:
        return
    parent = rows.require(session, _projects, _KIND, project.parent_id)
    if parent.domain_id != project.domain_id:
        raise errors.Misplaced(
            _KIND, project.id, project.parent_id, "that is in another domain")


def _check_depth(session: Session, parent_id: str, levels: int, max_depth: int) -> None:
    """Refuse to add ``levels`` levels below a parent if the tree would get too deep."""
    depth = tree.level(session, parent_id) + levels
    if depth > max_depth:
        raise errors.TooDeep(parent_id, depth, max_depth)


def _make_record(row: sa.Row[Any]) -> Project:
    return Project(**row._mapping)
