"""Our catalog and our limits, as rows of Keystone's database.

Domains are rows of its table of projects, below a row that no API shows. A limit has its service,
region and resource by its registered limit. Names of services are in a document in a column.
Source: Keystone's schema, as ``takeover.keystone`` reads it; spec limits §1 to §4.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence

from placement_core.context import Context
from placement_core.limits import limits, registered, users
from placement_core.limits.records import Limit, RegisteredLimit, UserLimit
from placement_core.plugin_api.catalog import (
    CatalogDriver,
    Domain,
    Endpoint,
    Project,
    Region,
    Service,
)
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.takeover import records
from placement_core.takeover.exports import Exporter, LeftOut, Row, Values
from placement_core.takeover.keystone import ROOT_ID, SCHEMA

_CATALOG_TABLES = ("region", "service", "endpoint", "project")
_LIMIT_TABLES = ("registered_limit", "limit")

#: The models of enforcement that Keystone has.
_MODELS = frozenset({"flat", "strict_two_level"})
#: How many characters its columns hold, where ours hold more.
_REGION_DESCRIPTION, _REGION_OF_LIMIT = 255, 64

#: What ``keystone-manage bootstrap`` makes.
_BOOTSTRAP_DOMAIN, _BOOTSTRAP_PROJECT, _BOOTSTRAP_SERVICE = "default", "admin", "identity"


@dataclasses.dataclass(frozen=True, slots=True)
class Present:
    """What we have.

    :ivar model: the name of the enforcement model.
    """

    regions: Sequence[Region]
    services: Sequence[Service]
    endpoints: Sequence[Endpoint]
    domains: Sequence[Domain]
    projects: Sequence[Project]
    registered: Sequence[RegisteredLimit]
    limits: Sequence[Limit]
    user_limits: Sequence[UserLimit]
    model: str


def make_exporter(catalog: CatalogDriver, model: EnforcementModel) -> Exporter:
    """Return what exports to Keystone; a catalog that is Keystone's stays there."""
    tables = (*_CATALOG_TABLES, *_LIMIT_TABLES) if catalog.local else _LIMIT_TABLES

    def list_rows(ctx: Context) -> Iterator[Row]:
        rows, _ = convert(_read(ctx, catalog, model))
        return (row for row in rows if row[0] in tables)

    def list_left_out(ctx: Context) -> Iterable[LeftOut]:
        return convert(_read(ctx, catalog, model))[1]

    return Exporter(
        "keystone", SCHEMA, tables, list_rows, list_left_out, is_bootstrapped)


def is_bootstrapped(table: str, row: Values) -> bool:
    """Return whether a row is the one above all domains, or of ``keystone-manage bootstrap``."""
    if table == "project":
        return row["id"] in (ROOT_ID, _BOOTSTRAP_DOMAIN) or (
            (row["domain_id"], row["name"]) == (_BOOTSTRAP_DOMAIN, _BOOTSTRAP_PROJECT))
    if table == "service":
        return bool(row["type"] == _BOOTSTRAP_SERVICE)
    if table == "region":
        return row["parent_region_id"] is None and not row["description"]
    # Those of another service are there with the service, which is in the way.
    return table == "endpoint"


def _read(ctx: Context, catalog: CatalogDriver, model: EnforcementModel) -> Present:
    return Present(
        catalog.regions(ctx), catalog.services(ctx), catalog.endpoints(ctx), catalog.domains(ctx),
        catalog.projects(ctx), registered.list_(ctx), limits.list_(ctx), users.list_(ctx),
        model.name)


def convert(present: Present) -> tuple[list[Row], list[LeftOut]]:
    """Return the rows that Keystone is to have, and what it cannot have. Pure."""
    conversion = _Conversion(present)
    conversion.convert_catalog()
    conversion.convert_projects()
    conversion.convert_registered_limits()
    conversion.convert_limits()
    conversion.leave_rest()
    return conversion.rows, conversion.left_out


class _Conversion:
    """The rows so far, and what was left out."""

    def __init__(self, present: Present) -> None:
        self.rows: list[Row] = []
        self.left_out: list[LeftOut] = []
        self._present = present
        self._region_ids: set[str] = set()
        self._services = {service.id: service for service in present.services}
        self._node_names: dict[str, str] = {}
        #: {(service, region, resource): id} of registered limits.
        self._registered_ids: dict[tuple[str, str | None, str], str] = {}

    def _add(self, table: str, **values: object) -> None:
        self.rows.append((table, values))

    def _leave(self, kind: str, id_: str, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(kind, id_, name, reason))

    def convert_catalog(self) -> None:
        """Add regions, services and endpoints."""
        for region in self._present.regions:
            if len(region.description) > _REGION_DESCRIPTION:
                self._leave(records.REGION, region.id, region.id, (
                    f"its description has more than {_REGION_DESCRIPTION} characters"))
                continue
            self._region_ids.add(region.id)
            self._add("region", id=region.id, parent_region_id=region.parent_region_id,
                      description=region.description, extra="{}")
        for service in self._present.services:
            self._add("service", id=service.id, type=service.type, enabled=service.enabled,
                      extra=json.dumps(
                          {"name": service.name, "description": service.description}))
        for endpoint in self._present.endpoints:
            reason = self._find_missing(endpoint.service_id, endpoint.region_id)
            if reason:
                name = f"{endpoint.interface} {endpoint.url}"
                self._leave(records.ENDPOINT, endpoint.id, name, reason)
                continue
            self._add("endpoint", id=endpoint.id, interface=endpoint.interface,
                      service_id=endpoint.service_id, region_id=endpoint.region_id,
                      url=endpoint.url, enabled=endpoint.enabled, extra="{}")

    def convert_projects(self) -> None:
        """Add domains and projects as projects, parents first, below the root of all."""
        self._add_project(ROOT_ID, ROOT_ID, ROOT_ID, None, is_domain=True, enabled=False)
        below = collections.defaultdict(list)
        for project in self._present.projects:
            below[project.parent_id].append(project)
        waiting = collections.deque[Project]()
        for domain in self._present.domains:
            self._node_names[domain.id] = domain.name
            self._add_project(
                domain.id, domain.name, ROOT_ID, None, is_domain=True, enabled=domain.enabled,
                description=domain.description)
            waiting.extend(below.pop(domain.id, ()))
        while waiting:
            project = waiting.popleft()
            self._node_names[project.id] = project.name
            self._add_project(
                project.id, project.name, project.domain_id, project.parent_id, is_domain=False,
                enabled=project.enabled, description=project.description)
            waiting.extend(below.pop(project.id, ()))
        for parent_id, projects in below.items():
            for project in projects:
                self._leave(records.PROJECT, project.id, project.name,
                            f"nothing above it is there: its parent is {parent_id}")

    def _add_project(
        self, id_: str, name: str, domain_id: str, parent_id: str | None, *, is_domain: bool,
        enabled: bool, description: str = "",
    ) -> None:
        self._add("project", id=id_, name=name, domain_id=domain_id, parent_id=parent_id,
                  is_domain=is_domain, enabled=enabled, description=description, extra="{}")

    def convert_registered_limits(self) -> None:
        """Add registered limits."""
        for limit in self._present.registered:
            reason = self._find_missing(limit.service_id, limit.region_id) or (
                f"its region's id has more than {_REGION_OF_LIMIT} characters"
                if len(limit.region_id or "") > _REGION_OF_LIMIT else "")
            if reason:
                self._leave(
                    records.REGISTERED_LIMIT, limit.id, self._name_resource(limit), reason)
                continue
            self._registered_ids[_get_key(limit)] = limit.id
            self._add("registered_limit", id=limit.id, service_id=limit.service_id,
                      region_id=limit.region_id, resource_name=limit.resource_name,
                      default_limit=limit.default_limit, description=limit.description)

    def convert_limits(self) -> None:
        """Add limits of projects and domains."""
        for limit in self._present.limits:
            node_id = limit.project_id or limit.domain_id or ""
            registered_id = self._registered_ids.get(_get_key(limit))
            reason = ""
            if registered_id is None:
                reason = "its registered limit is left out"
            elif node_id not in self._node_names:
                what = records.PROJECT if limit.project_id else records.DOMAIN
                reason = f"its {what} {node_id} is not there"
            if reason:
                self._leave(records.LIMIT, limit.id, self._name_limit(limit, node_id), reason)
                continue
            self._add("limit", id=limit.id, project_id=limit.project_id,
                      domain_id=limit.domain_id, resource_limit=limit.resource_limit,
                      description=limit.description, registered_limit_id=registered_id)

    def leave_rest(self) -> None:
        """Name what Keystone does not have."""
        for limit in self._present.user_limits:
            node_name = self._node_names.get(limit.project_id, limit.project_id)
            self._leave(
                records.USER_LIMIT, limit.id,
                f"{self._name_resource(limit)} of {limit.user_id} of {node_name}",
                "Keystone has no limits of users")
        model = self._present.model
        if model not in _MODELS:
            self._leave("enforcement model", model, model, (
                "Keystone has flat and strict_two_level only: limits of projects and domains "
                "above others will not bind as here"))

    def _find_missing(self, service_id: str, region_id: str | None) -> str:
        """Say which of a service and a region is not there; "": both are."""
        if service_id not in self._services:
            return f"its service {service_id} is not there"
        if region_id is not None and region_id not in self._region_ids:
            return f"its region {region_id} is not there"
        return ""

    def _name_resource(self, limit: RegisteredLimit | Limit | UserLimit) -> str:
        service = self._services.get(limit.service_id)
        name = service.name or service.type if service else limit.service_id
        return " ".join(filter(None, (name, limit.resource_name, limit.region_id)))

    def _name_limit(self, limit: Limit, node_id: str) -> str:
        return f"{self._name_resource(limit)} of {self._node_names.get(node_id, node_id)}"


def _get_key(limit: RegisteredLimit | Limit) -> tuple[str, str | None, str]:
    return limit.service_id, limit.region_id, limit.resource_name
