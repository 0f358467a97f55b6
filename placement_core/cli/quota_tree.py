"""What ``quota explain`` draws: the limits that bind a request, from the domain downwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement_core import amounts
from placement_core.cli.names import CatalogNames
from placement_core.plugin_api.catalog import Node
from placement_core.quota.queries import Measure
from placement_core.quota.records import LimitUsage

_SCOPES = {"own": "", "subtree": ", all below it included", "user": ""}
_INDENT = "   "


def draw(measure: Measure, name: str, asked: int, names: CatalogNames) -> str:
    """Draw the limits on a resource: a line for the domain, each project and the user.

    :param asked: how much more of the resource; limits that stop it are marked.
    """
    return "\n".join([f"{name}, {asked} asked", *_draw_nodes(measure, name, asked, names)])


def _draw_nodes(
    measure: Measure, name: str, asked: int, names: CatalogNames
) -> Iterator[str]:
    usages = measure.limit_usages[name]
    for depth, node in enumerate(measure.subject.project_limits.lineage):
        prefix = f"{_INDENT * (depth - 1)}+- " if depth else ""
        title = f"{_get_kind(node)} {names.node(node.id).human_readable()}"
        yield f"{prefix}{title}: {_describe_limits(usages, node.id, asked)}"
        for usage in usages:
            if usage.node_id == node.id and usage.user_id is not None:
                yield f"{_INDENT * depth}+- user {usage.user_id}: {_describe(usage, asked)}"


def _get_kind(node: Node) -> str:
    return "domain" if node.is_domain else "project"


def _describe_limits(usages: Sequence[LimitUsage], node_id: str, asked: int) -> str:
    return "; ".join(
        _describe(usage, asked) for usage in usages
        if usage.node_id == node_id and usage.user_id is None) or "no limit"


def _describe(usage: LimitUsage, asked: int) -> str:
    if usage.limit == amounts.UNLIMITED:
        return f"unlimited ({usage.source}), {usage.used} used{_SCOPES[usage.scope]}"
    mark = "  <-- stops it" if usage.is_exceeded_by(asked) else ""
    return (f"limit {usage.limit} ({usage.source}), {usage.used} used{_SCOPES[usage.scope]}, "
            f"{int(usage.free)} free{mark}")
