"""Read limits from the service that has them, and parse the answers.

placement_core returns all limits that bind a project in one document (``EFFECTIVE``). Keystone is
asked for the limits of the project, and for the registered limits of other resources. Both serve
``/v3``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.enforcer.connection import EFFECTIVE, Connection
from placement_core.plugin_api.catalog import Node

#: The node that stands for usage without a project, which the registered defaults bind.
NO_PROJECT = Node("", None)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The limits that bind a project, of one service in one region.

    :ivar model: the name of the enforcement model.
    :ivar lineage: the project and its ancestors, the root first.
    :ivar defaults: {resource name: registered default}.
    :ivar set: {id of a node in the lineage: {resource name: limit}}.
    :ivar subtrees: {node id: ids of the projects whose usage counts against its limits}.
    """

    model: str
    lineage: Sequence[Node]
    defaults: Mapping[str, Amount]
    set: Mapping[str, Mapping[str, Amount]]
    subtrees: Mapping[str, Sequence[str]]


def read_limits(
    connection: Connection, project_id: str | None, names: Collection[str] | None, *, keep: bool
) -> Limits:
    """Return the limits that bind a project.

    :param project_id: None: the limits of usage that belongs to no project.
    :param names: the resources; None: those for which the project itself has a limit.
    :param keep: whether to use the cache.
    """
    if project_id is None:
        return Limits("flat", (NO_PROJECT,), read_defaults(connection, keep=keep), {}, {})
    if connection.one_question:
        return connection.read(
            EFFECTIVE, {**_make_query(connection), "project_id": project_id}, _parse_effective,
            keep=keep)
    of_project = connection.read(
        "/v3/limits", {**_make_query(connection), "project_id": project_id}, _parse_limits,
        keep=keep).get(connection.place.region_id, {})
    needed = names is not None and not of_project.keys() >= set(names)
    registered = read_defaults(connection, keep=keep) if needed else {}
    return Limits(
        "flat", (Node(project_id, None),), registered, {project_id: of_project}, {})


def read_defaults(connection: Connection, *, keep: bool) -> Mapping[str, Amount]:
    """Return the registered limits of the service and region, by resource name."""
    by_region = connection.read(
        "/v3/registered_limits", _make_query(connection), _parse_registered, keep=keep)
    return by_region.get(connection.place.region_id, {})


def _make_query(connection: Connection) -> dict[str, str]:
    place = connection.place
    # Keystone has no filter for limits without a region: it then returns all regions.
    region = {} if place.region_id is None else {"region_id": place.region_id}
    return {"service_id": place.service_id, **region}


def _parse_effective(document: Mapping[str, Any]) -> Limits:
    return Limits(
        document["model"],
        tuple(Node(node["id"], node["parent_id"], node["is_domain"])
              for node in document["lineage"]),
        _parse_amounts(document["defaults"]),
        {node_id: _parse_amounts(limits) for node_id, limits in document["limits"].items()},
        document["subtrees"])


def _parse_limits(document: Mapping[str, Any]) -> dict[str | None, dict[str, Amount]]:
    return _group_by_region(document["limits"], "resource_limit")


def _parse_registered(document: Mapping[str, Any]) -> dict[str | None, dict[str, Amount]]:
    return _group_by_region(document["registered_limits"], "default_limit")


def _group_by_region(
    rows: Sequence[Mapping[str, Any]], value: str
) -> dict[str | None, dict[str, Amount]]:
    by_region: dict[str | None, dict[str, Amount]] = {}
    for row in rows:
        by_region.setdefault(row["region_id"], {})[row["resource_name"]] = amounts.from_wire(
            row[value])
    return by_region


def _parse_amounts(wire: Mapping[str, int]) -> dict[str, Amount]:
    return {name: amounts.from_wire(value) for name, value in wire.items()}
