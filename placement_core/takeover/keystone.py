"""Keystone as a source: regions, services, endpoints, domains, projects, and unified limits.

Its tables of limits have no unique keys and let go of what they refer to, so there are limits
without a resource, two for one project, and limits of projects that were deleted. What Keystone
itself would answer from decides which of them count.
Source: Keystone's schema, revisions ``SCHEMA``; spec limits §1 to §3.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.takeover.records import (
    DOMAIN,
    ENDPOINT,
    LIMIT,
    PROJECT,
    REGION,
    REGISTERED_LIMIT,
    SERVICE,
    Contents,
    Fields,
    Item,
    Outcome,
    Record,
    Surroundings,
)

#: The heads of the schema's two branches, of Keystone 2026.1 (30.0.0).
SCHEMA = frozenset({"742c857f1dfb", "c88cdce8f248"})

KINDS = (REGION, SERVICE, ENDPOINT, DOMAIN, PROJECT, REGISTERED_LIMIT, LIMIT)

#: The row above all domains, which no API shows.
ROOT_ID = "<<keystone.domain.root>>"
_SMALLEST, _GREATEST = -1, 2**31 - 1


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *map(sa.column, columns))


#: What is read of its tables.
TABLES = (
    _table("region", "id", "parent_region_id", "description"),
    _table("service", "id", "type", "enabled", "extra"),
    _table("endpoint", "id", "interface", "service_id", "region_id", "url", "enabled"),
    _table("project", "id", "name", "domain_id", "parent_id", "is_domain", "description",
           "enabled"),
    _table("registered_limit", "internal_id", "id", "service_id", "region_id", "resource_name",
           "default_limit", "description"),
    _table("limit", "internal_id", "id", "project_id", "domain_id", "resource_limit",
           "description", "registered_limit_id"),
)

_Row = Mapping[str, Any]


def read(connection: sa.Connection, _surroundings: Surroundings) -> Contents:
    """Return what Keystone's database has."""
    return settle({
        table.name: [dict(row) for row in connection.execute(
            sa.select(table).order_by(next(iter(table.c)))).mappings()]
        for table in TABLES})


def settle(tables: Mapping[str, Sequence[_Row]]) -> Contents:
    """Return what the rows of Keystone's tables mean. Pure.

    :param tables: {name: rows, in the order of their creation where it is known}.
    """
    settled = _Settled()
    settled.settle_regions(tables["region"])
    settled.settle_services(tables["service"])
    settled.settle_endpoints(tables["endpoint"])
    settled.settle_projects(tables["project"])
    settled.settle_registered_limits(tables["registered_limit"])
    settled.settle_limits(tables["limit"], {row["id"]: row for row in tables["registered_limit"]})
    return Contents(settled.records, settled.left)


class _Settled:
    """What the rows mean, as far as they were read."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.left: list[Item] = []
        #: {kind: {id: fields}} of the records.
        self._known: dict[str, dict[str, Fields]] = collections.defaultdict(dict)
        #: {(service, region, resource): id} of registered limits, and the same of limits with
        #: the registered limit and the project or domain.
        self._ids_by_key: dict[tuple[Any, ...], str] = {}

    def _keep(self, kind: str, id_: str, name: str, fields: Fields) -> None:
        self.records.append(Record(kind, id_, name, fields))
        self._known[kind][id_] = fields

    def _leave(self, kind: str, id_: str, name: str, outcome: Outcome, reason: str) -> None:
        self.left.append(Item(kind, id_, name, outcome, reason))

    def _refuse(self, kind: str, id_: str, name: str, reason: str) -> None:
        self._leave(kind, id_, name, Outcome.REFUSED, reason)

    def settle_regions(self, rows: Sequence[_Row]) -> None:
        """Take the regions, those above others first."""
        for row, reason in _sort_downwards(rows, lambda row: row["parent_region_id"]):
            if reason:
                self._refuse(REGION, row["id"], row["id"], reason)
                continue
            self._keep(REGION, row["id"], row["id"], {
                "parent_region_id": row["parent_region_id"],
                "description": row["description"] or ""})

    def settle_services(self, rows: Sequence[_Row]) -> None:
        """Take the services; their names are in a document in a column."""
        for row in rows:
            extra = json.loads(row["extra"] or "{}")
            name = extra.get("name") or ""
            if not row["type"]:
                self._refuse(SERVICE, row["id"], name, "it has no type")
                continue
            self._keep(SERVICE, row["id"], name or row["type"], {
                "type": row["type"], "name": name,
                "description": extra.get("description") or "", "enabled": bool(row["enabled"])})

    def settle_endpoints(self, rows: Sequence[_Row]) -> None:
        """Take the endpoints."""
        for row in rows:
            name = " ".join(filter(None, (
                self._name_service(row["service_id"]), row["interface"], row["region_id"])))
            missing = self._find_missing(row["service_id"], row["region_id"])
            if missing:
                self._refuse(ENDPOINT, row["id"], name, missing)
                continue
            self._keep(ENDPOINT, row["id"], name, {
                "service_id": row["service_id"], "interface": row["interface"],
                "url": row["url"], "region_id": row["region_id"],
                "enabled": bool(row["enabled"])})

    def settle_projects(self, rows: Sequence[_Row]) -> None:
        """Take domains, which are projects in Keystone, then projects, parents first."""
        rows = [row for row in rows if row["id"] != ROOT_ID]
        for row in rows:
            if row["is_domain"]:
                self._keep(DOMAIN, row["id"], row["name"], {
                    "name": row["name"], "description": row["description"] or "",
                    "enabled": bool(row["enabled"])})
        domains = self._known[DOMAIN]
        projects = [row for row in rows if not row["is_domain"]]
        for row, reason in _sort_downwards(
                projects, lambda row: None if row["parent_id"] in domains else row["parent_id"]):
            if row["domain_id"] not in domains:
                reason = f"its domain {row['domain_id']} is not there"
            if reason:
                self._refuse(PROJECT, row["id"], row["name"], reason)
                continue
            self._keep(PROJECT, row["id"], row["name"], {
                "name": row["name"], "domain_id": row["domain_id"],
                "parent_id": row["parent_id"] or row["domain_id"],
                "description": row["description"] or "", "enabled": bool(row["enabled"])})

    def settle_registered_limits(self, rows: Sequence[_Row]) -> None:
        """Take the registered limits; the oldest of those for one resource."""
        for row in rows:
            key = (row["service_id"], row["region_id"], row["resource_name"])
            name = self._name_resource(row)
            reason = (
                self._find_missing(row["service_id"], row["region_id"])
                or ("" if row["resource_name"] else "it has no resource name")
                or _find_unfit(row["default_limit"])
                or (key in self._ids_by_key
                    and f"{self._ids_by_key[key]} is for the same resource, and older: Keystone "
                    "answers from that"))
            if reason:
                self._refuse(REGISTERED_LIMIT, row["id"], name, reason)
                continue
            self._ids_by_key[key] = row["id"]
            self._keep(REGISTERED_LIMIT, row["id"], name, {
                "service_id": row["service_id"], "region_id": row["region_id"],
                "resource_name": row["resource_name"], "default_limit": row["default_limit"],
                "description": row["description"]})

    def settle_limits(self, rows: Sequence[_Row], registered: Mapping[str, _Row]) -> None:
        """Take the limits; the oldest of those of one project for one resource."""
        for row in rows:
            of = registered.get(row["registered_limit_id"])
            if of is None:
                self._refuse(LIMIT, row["id"], "", (
                    f"its registered limit {row['registered_limit_id']} is not there"))
                continue
            node_id = row["project_id"] or row["domain_id"]
            name = f"{self._name_resource(of)} of {self._name_node(node_id)}"
            if node_id and not self._is_node(row):
                what = PROJECT if row["project_id"] else DOMAIN
                self._leave(LIMIT, row["id"], name, Outcome.SKIPPED,
                            f"its {what} {node_id} was deleted")
                continue
            key = (of["service_id"], of["region_id"], of["resource_name"])
            place = (*key, node_id)
            reason = (
                ("" if key in self._ids_by_key else
                 f"its registered limit {of['id']} is refused")
                or ("" if bool(row["project_id"]) != bool(row["domain_id"])
                    else "it has not exactly one of a project and a domain")
                or _find_unfit(row["resource_limit"])
                or (place in self._ids_by_key
                    and f"{self._ids_by_key[place]} is for the same resource, and older: Keystone "
                    "answers from that"))
            if reason:
                self._refuse(LIMIT, row["id"], name, reason)
                continue
            self._ids_by_key[place] = row["id"]
            is_project = node_id in self._known[PROJECT]
            self._keep(LIMIT, row["id"], name, {
                "project_id": node_id if is_project else None,
                "domain_id": None if is_project else node_id,
                "service_id": of["service_id"], "region_id": of["region_id"],
                "resource_name": of["resource_name"], "resource_limit": row["resource_limit"],
                "description": row["description"]})

    def _is_node(self, row: _Row) -> bool:
        """Return whether the project or domain of a limit is there.

        Domains are projects, so a limit of a project may be that of a domain.
        """
        if row["project_id"]:
            return any(row["project_id"] in self._known[kind] for kind in (PROJECT, DOMAIN))
        return row["domain_id"] in self._known[DOMAIN]

    def _find_missing(self, service_id: str | None, region_id: str | None) -> str:
        """Say which of a service and a region is not there; "": both are."""
        if not service_id:
            return "it has no service"
        if service_id not in self._known[SERVICE]:
            return f"its service {service_id} is not there"
        if region_id is not None and region_id not in self._known[REGION]:
            return f"its region {region_id} is not there"
        return ""

    def _name_service(self, service_id: str | None) -> str:
        fields = self._known[SERVICE].get(service_id or "")
        return (fields["name"] or fields["type"]) if fields else (service_id or "")

    def _name_resource(self, row: _Row) -> str:
        return " ".join(filter(None, (
            self._name_service(row["service_id"]), row["resource_name"], row["region_id"])))

    def _name_node(self, node_id: str | None) -> str:
        for kind in (PROJECT, DOMAIN):
            if node_id in self._known[kind]:
                return str(self._known[kind][node_id]["name"])
        return node_id or "nobody"


def _find_unfit(value: int) -> str:
    """Say why a value cannot be a limit; "": it can."""
    if _SMALLEST <= value <= _GREATEST:
        return ""
    return f"{value} is no limit: expected {_SMALLEST} to {_GREATEST}"


def _sort_downwards(
    rows: Sequence[_Row], get_parent: Callable[[_Row], str | None]
) -> Iterable[tuple[_Row, str]]:
    """Yield rows, each behind its parent, with why it cannot be kept, or "".

    :param get_parent: returns the id of the row above; None: there is none.
    """
    below: dict[str | None, list[_Row]] = collections.defaultdict(list)
    for row in rows:
        below[get_parent(row)].append(row)
    waiting = collections.deque(below.pop(None, ()))
    while waiting:
        row = waiting.popleft()
        yield row, ""
        waiting.extend(below.pop(row["id"], ()))
    for parent_id, orphans in below.items():
        for row in orphans:
            yield row, f"nothing above it is there: its parent is {parent_id}"
