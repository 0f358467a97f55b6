"""May I? The tree of projects with what each has of a resource, and the tightest limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from markupsafe import Markup

from placement_core import summary
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import choices
from placement_core.http.dashboard.choices import Choice
from placement_core.http.dashboard.pictures import bars
from placement_core.http.dashboard.pictures.bars import BarPart
from placement_core.http.limits_api import visibility
from placement_core.http.limits_api.visibility import Visibility
from placement_core.http.operations import Call
from placement_core.quota import project_trees
from placement_core.quota.overview import Overview
from placement_core.quota.project_trees import TreeNode
from placement_core.summary import TightLimit

#: Which resource is shown, if none is asked for: the first of these that has a limit.
_USUAL = ("class:VCPU", "cores", "VCPU")


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectRow:
    """A domain or project, with a picture of what it has."""

    node: TreeNode
    bar: Markup


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectTree:
    """The visible trees of projects.

    :ivar resources: those that have a limit.
    :ivar resource_name: what is shown; None: no resource has a limit.
    :ivar first: the place of the first of the rows among all; ``count`` how many there are.
    :ivar names: {id: name} of all visible domains and projects that have one.
    """

    resources: Sequence[Choice]
    resource_name: str | None
    rows: Sequence[ProjectRow]
    first: int
    count: int
    tightest: Sequence[TightLimit]
    names: Mapping[str, str]


def get_visibility(call: Call) -> Visibility:
    """Return which projects the caller sees, as the capacity API tells of quota."""
    return dataclasses.replace(
        visibility.get_visibility(call, policies.QUOTA_OF_ALL), above=False)


def read_tree(
    call: Call, path: str, resource_name: str | None, *, first: int, most: int,
    most_limits: int,
) -> ProjectTree:
    """Return a part of the trees, with what each project has of one resource.

    :param path: of the page, below the dashboard.
    :param resource_name: None, or a resource without limits: the usual one.
    :param first: the place of the first row; ``most``: how many rows at most.
    :param most_limits: how many of the tightest limits.
    """
    visible = visibility.list_visible(call, get_visibility(call))
    overview = call.services.overviews.make(call.ctx, visible)
    names = list(overview.resources)
    if resource_name not in overview.resources:
        resource_name = next(
            (name for name in (*_USUAL, *names) if name in overview.resources), None)
    nodes = [] if resource_name is None else project_trees.build(
        overview, resource_name, _read_held(call, resource_name), visible)
    hierarchical = call.services.model.hierarchical
    return ProjectTree(
        choices.make_choices(
            call, path, "resource", {name: name for name in names}, resource_name),
        resource_name, [
            ProjectRow(node, _draw(
                number, node, counts_below=hierarchical and node.is_limit_set))
            for number, node in enumerate(nodes[first:first + most], first)],
        first, len(nodes), summary.find_tight_limits(overview, most_limits),
        _find_names(overview, visible))


def _draw(number: int, node: TreeNode, *, counts_below: bool) -> Markup:
    """Return the bar of a node: its own usage, what claims hold of it, the usage below.

    :param counts_below: whether the usage below counts against the limit.
    """
    used, below = node.used or 0, node.used_below or 0
    counted = used + below if counts_below else used
    parts = {
        "used": max(used - node.held, 0), "held": min(node.held, used), "below": below,
        "free": 0 if node.limit is None else max(node.limit - counted, 0)}
    order = ("used", "held", "below", "free") if counts_below else (
        "used", "held", "free", "below")
    return bars.draw_bar(
        f"project-bar-{number}", node.name or node.id,
        [BarPart(kind, parts[kind]) for kind in order], limit=node.limit)


def _read_held(call: Call, resource_name: str) -> dict[str, int]:
    """Return what claims that may expire hold of a resource, by project."""
    units = call.services.quota.units([resource_name]) if (
        call.services.quota.is_countable(resource_name)) else set()
    return {project_id: sum(amounts.get(unit, 0) for unit in units)
            for project_id, amounts in project_trees.read_held(call.ctx).items()}


def _find_names(overview: Overview, visible: Collection[str] | None) -> dict[str, str]:
    names = {id_: overview.names[id_] for id_ in overview.project_ids if id_ in overview.names}
    return names | {id_: domain.name for id_, domain in overview.domains.items()
                    if visible is None or id_ in visible}
