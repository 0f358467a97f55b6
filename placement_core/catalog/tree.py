"""The trees of domains and projects: one statement reads all ancestors or descendants.

The transaction that changes a tree also updates ``catalog_ancestors``, which has a row for each
pair of ancestor and descendant. Reads do not follow parents from row to row, so a damaged table
may give a wrong answer, but never causes an endless loop.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from placement_core.catalog import rows, tables
from placement_core.db import Session
from placement_core.plugin_api.catalog import Node

_projects = tables.catalog_projects
_ancestors = tables.catalog_ancestors

_LINEAGE = (
    sa.select(_ancestors.c.ancestor_id.label("id"), _projects.c.parent_id)
    .outerjoin_from(_ancestors, _projects, _projects.c.id == _ancestors.c.ancestor_id)
    .where(_ancestors.c.descendant_id == sa.bindparam("id"))
    .order_by(_ancestors.c.distance.desc(), _ancestors.c.ancestor_id)
)
_SUBTREE = (
    sa.select(_ancestors.c.descendant_id.label("id"), _projects.c.parent_id)
    .outerjoin_from(_ancestors, _projects, _projects.c.id == _ancestors.c.descendant_id)
    .where(_ancestors.c.ancestor_id == sa.bindparam("id"))
    .order_by(_ancestors.c.distance, _ancestors.c.descendant_id)
)
_DEPTH = sa.select(sa.func.coalesce(sa.func.max(_ancestors.c.distance) + 1, 0))
_LEVEL = _DEPTH.where(_ancestors.c.descendant_id == sa.bindparam("id"))
_HEIGHT = _DEPTH.where(_ancestors.c.ancestor_id == sa.bindparam("id"))
_IS_BELOW = sa.select(sa.literal(1)).where(
    _ancestors.c.descendant_id == sa.bindparam("id"),
    _ancestors.c.ancestor_id == sa.bindparam("top_id"))

_ADD = sa.insert(_ancestors).inline()
_COLUMNS = ["descendant_id", "ancestor_id", "distance"]
_above, _below = _ancestors.alias("above"), _ancestors.alias("below")
#: Pair ``id`` and its descendants with ``parent_id`` and its ancestors.
_PUT_BELOW = sa.insert(_ancestors).inline().from_select(
    _COLUMNS,
    sa.select(_below.c.descendant_id, _above.c.ancestor_id,
              _below.c.distance + _above.c.distance + 1)
    .join_from(_below, _above, sa.true())
    .where(_below.c.ancestor_id == sa.bindparam("id"),
           _above.c.descendant_id == sa.bindparam("parent_id")))


def _select_apart(column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select values of the table that the enclosing statement deletes from.

    MySQL allows that only if it stores them in a temporary table, which DISTINCT forces.
    """
    return sa.select(sa.select(column).where(*where).distinct().subquery().c[0])


_CUT = sa.delete(_ancestors).where(
    _ancestors.c.descendant_id.in_(
        _select_apart(_below.c.descendant_id, _below.c.ancestor_id == sa.bindparam("id"))),
    _ancestors.c.ancestor_id.in_(
        _select_apart(_above.c.ancestor_id, _above.c.descendant_id == sa.bindparam("id"),
               _above.c.distance > 0)))
_REMOVE = sa.delete(_ancestors).where(_ancestors.c.descendant_id == sa.bindparam("id"))
_REMOVE_OF_DOMAIN = sa.delete(_ancestors).where(
    _ancestors.c.descendant_id.in_(
        sa.select(_projects.c.id).where(_projects.c.domain_id == sa.bindparam("id"))))


def lineage(session: Session, node_id: str) -> tuple[Node, ...]:
    """Return a node and its ancestors, the root first; an unknown node has none."""
    return _read_nodes(session, _LINEAGE, node_id)


def subtree(session: Session, node_id: str) -> tuple[Node, ...]:
    """Return a node and its descendants, parents before children; an unknown node has none."""
    return _read_nodes(session, _SUBTREE, node_id)


def depth(session: Session) -> int:
    """Return the number of levels of the deepest tree; 0 if there are no domains."""
    return int(session.execute(_DEPTH).scalar_one())


def level(session: Session, node_id: str) -> int:
    """Return the level of a node; a domain has level 1."""
    return int(session.execute(_LEVEL, {"id": node_id}).scalar_one())


def height(session: Session, node_id: str) -> int:
    """Return the number of levels from a node downwards; 1 if it has no descendants."""
    return int(session.execute(_HEIGHT, {"id": node_id}).scalar_one())


def is_below(session: Session, node_id: str, top_id: str) -> bool:
    """Return whether a node is the node ``top_id``, or below it."""
    ancestors = session.execute(_IS_BELOW, {"id": node_id, "top_id": top_id})
    return ancestors.first() is not None


def add(session: Session, node_id: str, *, parent_id: str | None) -> None:
    """Add a new node below a parent; None makes it a root."""
    session.execute(_ADD, {"descendant_id": node_id, "ancestor_id": node_id, "distance": 0})
    if parent_id is not None:
        session.execute(_PUT_BELOW, {"id": node_id, "parent_id": parent_id})


def move(session: Session, node_id: str, parent_id: str) -> None:
    """Move a node and its descendants below another parent."""
    session.execute(_CUT, {"id": node_id})
    session.execute(_PUT_BELOW, {"id": node_id, "parent_id": parent_id})


def remove_leaf(session: Session, node_id: str) -> None:
    """Remove a node that has no descendants."""
    session.execute(_REMOVE, {"id": node_id})


def remove_domain(session: Session, domain_id: str) -> None:
    """Remove a domain and its projects; their rows must still exist."""
    session.execute(_REMOVE_OF_DOMAIN, {"id": domain_id})
    session.execute(_REMOVE, {"id": domain_id})


def _read_nodes(session: Session, statement: sa.Select[Any], node_id: str) -> tuple[Node, ...]:
    if rows.is_id(node_id):
        nodes = tuple(
            Node(row.id, row.parent_id, is_domain=row.parent_id is None)
            for row in session.execute(statement, {"id": node_id}))
        if nodes:
            return nodes
    return (Node(node_id, None),)
