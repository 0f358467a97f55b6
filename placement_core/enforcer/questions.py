"""What is asked about limits, and what the answers mean.

placement_core answers with one document whatever binds a project (``EFFECTIVE``); a
Keystone is asked for a project's limits, and, where those say nothing, for the
registered ones. Both understand ``/v3``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.enforcer.connection import EFFECTIVE, Connection
from placement_core.plugin_api.catalog import Node

#: Stands for what belongs to no project: the registered defaults bind it.
NOBODY = Node("", None)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What binds a project, in one service and region.

    :ivar model: the name of the enforcement model to read them by.
    :ivar lineage: the project and those above it, the root first.
    :ivar defaults: {resource name: registered default}.
    :ivar set: {node id: {resource name: the limit set for it}}; of the lineage.
    :ivar subtrees: {node id: ids of the projects whose usage counts against its limits}.
    """

    model: str
    lineage: Sequence[Node]
    defaults: Mapping[str, Amount]
    set: Mapping[str, Mapping[str, Amount]]
    subtrees: Mapping[str, Sequence[str]]


def binding(
    connection: Connection, project_id: str | None, names: Collection[str] | None, *, keep: bool
) -> Limits:
    """Return what binds a project.

    :param project_id: None: what belongs to no project.
    :param names: of resources that matter; None: only what was set for the project does.
    :param keep: use, and keep, what was answered before.
    """
    if project_id is None:
        return Limits("flat", (NOBODY,), defaults(connection, keep=keep), {}, {})
    if connection.one_question:
        return connection.read(
            EFFECTIVE, {**_place(connection), "project_id": project_id}, _effective, keep=keep)
    of_project = connection.read(
        "/v3/limits", {**_place(connection), "project_id": project_id}, _project_limits,
        keep=keep).get(connection.place.region_id, {})
    needed = names is not None and not of_project.keys() >= set(names)
    registered = defaults(connection, keep=keep) if needed else {}
    return Limits(
        "flat", (Node(project_id, None),), registered, {project_id: of_project}, {})


def defaults(connection: Connection, *, keep: bool) -> Mapping[str, Amount]:
    """Return the registered limits of the service and region, by resource name."""
    by_region = connection.read(
        "/v3/registered_limits", _place(connection), _registered_limits, keep=keep)
    return by_region.get(connection.place.region_id, {})


def _place(connection: Connection) -> dict[str, str]:
    place = connection.place
    # Keystone cannot be asked for "no region": left out, it answers for all of them.
    region = {} if place.region_id is None else {"region_id": place.region_id}
    return {"service_id": place.service_id, **region}


def _effective(document: Mapping[str, Any]) -> Limits:
    return Limits(
        document["model"],
        tuple(Node(one["id"], one["parent_id"], one["is_domain"])
              for one in document["lineage"]),
        _amounts(document["defaults"]),
        {node: _amounts(limits) for node, limits in document["limits"].items()},
        document["subtrees"])


def _project_limits(document: Mapping[str, Any]) -> dict[str | None, dict[str, Amount]]:
    return _by_region(document["limits"], "resource_limit")


def _registered_limits(document: Mapping[str, Any]) -> dict[str | None, dict[str, Amount]]:
    return _by_region(document["registered_limits"], "default_limit")


def _by_region(
    listed: Sequence[Mapping[str, Any]], value: str
) -> dict[str | None, dict[str, Amount]]:
    found: dict[str | None, dict[str, Amount]] = {}
    for one in listed:
        found.setdefault(one["region_id"], {})[one["resource_name"]] = amounts.from_wire(
            one[value])
    return found


def _amounts(wire: Mapping[str, int]) -> dict[str, Amount]:
    return {name: amounts.from_wire(value) for name, value in wire.items()}
