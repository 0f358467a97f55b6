"""The trees of projects with what they use of one resource: what a picture of quota shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from placement_core import db
from placement_core.context import Context
from placement_core.quota import held_claims
from placement_core.quota.overview import NO_LIMIT, Overview


@dataclasses.dataclass(frozen=True, slots=True)
class TreeNode:
    """A domain or project, and what it has of a resource.

    :ivar name: None: the catalog does not know it.
    :ivar level: 1: nothing above it is visible.
    :ivar used: its own usage, of which claims that may expire hold ``held``; ``used_below``: that
        of all below it. None: not counted.
    :ivar limit: the limit that was set for it (``is_limit_set``), or the default; None: none.
    :ivar free: how much more it may have under all limits; None: no limit binds it, or its usage
        is not counted, or it is a domain.
    :ivar held_by: whose limit leaves no more: the name of what is visible, else an id.
    """

    id: str
    name: str | None
    is_domain: bool
    level: int
    has_children: bool
    used: int | None
    held: int
    used_below: int | None
    limit: int | None
    is_limit_set: bool
    free: int | None
    held_by: str | None


@db.retry_writes
def read_held(ctx: Context) -> dict[str, dict[str, int]]:
    """Return what claims that may expire hold, {project: {unit: amount}}."""
    with db.read(ctx) as session:
        return held_claims.sum_by_project(session)


def build(
    overview: Overview, resource_name: str, held: Mapping[str, int],
    visible: Collection[str] | None = None,
) -> list[TreeNode]:
    """Return the nodes of all trees, each before those below it, which are in order of names.

    :param held: by project.
    :param visible: the ids of what may be shown, as the overview was made with; None: all.
    """
    return list(_TreeBuilder(overview, resource_name, held, visible).list_nodes())


class _TreeBuilder:
    def __init__(
        self, overview: Overview, resource_name: str, held: Mapping[str, int],
        visible: Collection[str] | None,
    ) -> None:
        self._overview = overview
        self._name = resource_name
        self._column = overview.resources[resource_name]
        self._held = held
        self._rows = {project_id: row for row, project_id in enumerate(overview.project_ids)}
        self._visible = {id_ for id_ in overview.domains if visible is None or id_ in visible}
        self._visible.update(self._rows)
        self._children: dict[str | None, list[str]] = {}
        for id_ in self._visible:
            node = overview.nodes.get(id_)
            parent_id = None if node is None else node.parent_id
            self._children.setdefault(
                parent_id if parent_id in self._visible else None, []).append(id_)
        for ids in self._children.values():
            ids.sort(key=lambda id_: (self._find_name(id_) or id_, id_))

    def list_nodes(self) -> Iterator[TreeNode]:
        """Yield the nodes; what is in a loop, which only a damaged catalog has, is left out."""
        waiting = [(id_, 1) for id_ in reversed(self._children.get(None, []))]
        while waiting:
            id_, level = waiting.pop()
            children = self._children.get(id_, [])
            yield self._make_project(id_, level) if id_ in self._rows else self._make_domain(
                id_, level, children)
            waiting += [(child, level + 1) for child in reversed(children)]

    def _make_project(self, id_: str, level: int) -> TreeNode:
        column, row = self._column, self._rows[id_]
        holder = column.held_by[row]
        return TreeNode(
            id_, self._find_name(id_), False, level, id_ in self._children,
            None if column.used is None else column.used[row], self._held.get(id_, 0),
            None if column.used_below is None else column.used_below[row],
            _find_limit(column.limits[row]), column.sources[row] == "set",
            None if column.free is None else _find_limit(column.free[row]),
            self._find_name(holder) if holder in self._visible else holder)

    def _make_domain(self, id_: str, level: int, children: list[str]) -> TreeNode:
        column = self._column
        below = None
        if column.used is not None and column.used_below is not None:
            below = sum(column.used[self._rows[child]] + column.used_below[self._rows[child]]
                        for child in children)
        domain = self._overview.domains[id_]
        return TreeNode(
            id_, domain.name, True, level, bool(children), None if below is None else 0, 0, below,
            _find_limit(domain.limits.get(self._name, NO_LIMIT)), self._name in domain.limits,
            None, None)

    def _find_name(self, id_: str) -> str | None:
        domain = self._overview.domains.get(id_)
        return self._overview.names.get(id_) if domain is None else domain.name


def _find_limit(amount: int) -> int | None:
    return None if amount == NO_LIMIT else amount
