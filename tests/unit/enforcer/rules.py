"""What the enforcement models forbid, in words of their own: the whole tree is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placement_core.enforcer import Enforcer, ProjectOverLimit

#: {node id: the one above it; None for a domain}
Parents = Mapping[str, str | None]

#: By how much a subtree may exceed its limit in the model overcommit.
OVERCOMMIT_PERCENT = 150


def lineage(parents: Parents, node_id: str | None) -> list[str]:
    """Return a node and those above it, the root first."""
    found: list[str] = []
    while node_id is not None:
        found.insert(0, node_id)
        node_id = parents.get(node_id)
    return found


def subtree(parents: Parents, node_id: str) -> list[str]:
    """Return the projects of a subtree."""
    return [each for each, above in parents.items()
            if above is not None and node_id in lineage(parents, each)]


def of(name: str, values: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return what one resource has, by node."""
    return {node: found[name] for node, found in values.items() if name in found}


def excesses(
    model: str, parents: Parents, default: int, limits: Mapping[str, int],
    usages: Mapping[str, int], project: str, name: str, delta: int,
) -> Iterator[tuple[Any, ...]]:
    """Yield (resource, node, limit, usage, delta) of each limit that a claim exceeds."""
    own = limits.get(project)
    bounds = []
    if own is None:
        bounds.append((project, default, usages[project]))
    elif model in ("flat", "overcommit"):
        bounds.append((project, own, usages[project]))
    if model != "flat":
        percent = OVERCOMMIT_PERCENT if model == "overcommit" else 100
        for node in reversed(lineage(parents, project)):
            limit = limits.get(node)
            if limit is not None:
                bounds.append((
                    node, limit if limit == -1 else limit * percent // 100,
                    sum(usages[each] for each in subtree(parents, node))))
    for node, limit, used in bounds:
        if limit != -1 and used + delta > limit:
            yield name, node, limit, used, delta


def found(enforcer: Enforcer, project: str, deltas: dict[str, int]) -> list[tuple[Any, ...]]:
    """Return the same, as an enforcer says it."""
    try:
        enforcer.enforce(project, deltas)
    except ProjectOverLimit as error:
        return [(one.resource_name, one.node_id, one.limit, one.current_usage, one.delta)
                for one in error.over_limit_info_list]
    return []
