"""``placement-core catalog …``: the services, domains and projects that limits are about.

What stands here writes the ``local`` catalog; a remote Keystone has its own commands.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from placement_core.catalog import (
    domains,
    endpoints,
    loading,
    names,
    projects,
    regions,
    services,
)
from placement_core.cli import base
from placement_core.context import Context
from placement_core.http import validation
from placement_core.limits import cleanup, project_moves
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service
from placement_core.plugin_api.enforcement import EnforcementModel

Record = Region | Service | Endpoint | Domain | Project

_TEXT = {"type": "string"}
_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}


def _make_schema(required: Mapping[str, Any], optional: Mapping[str, Any]) -> validation.Schema:
    return validation.Schema(
        {"type": "object", "properties": {**required, **optional}, "required": [*required],
         "additionalProperties": False},
        validation.is_uuid_like)


#: What a file may hold: {section: the schema of its entries}.
_SCHEMAS = {
    "regions": _make_schema(
        {"id": _TEXT}, {"parent_region_id": _OR_NULL, "description": _TEXT}),
    "services": _make_schema(
        {"type": _TEXT},
        {"id": _TEXT, "name": _TEXT, "description": _TEXT, "enabled": _FLAG}),
    "endpoints": _make_schema(
        {"service": _TEXT, "interface": _TEXT, "url": _TEXT},
        {"id": _TEXT, "region_id": _OR_NULL, "enabled": _FLAG}),
    "domains": _make_schema(
        {"name": _TEXT}, {"id": _TEXT, "description": _TEXT, "enabled": _FLAG}),
    "projects": _make_schema(
        {"name": _TEXT, "domain": _TEXT},
        {"id": _TEXT, "parent": _TEXT, "description": _TEXT, "enabled": _FLAG}),
}

#: How each kind is removed, with the limits that are about it.
_DELETE: Mapping[type[Record], Callable[[Context, str], None]] = {
    Region: cleanup.delete_region, Service: cleanup.delete_service, Endpoint: endpoints.delete,
    Domain: cleanup.delete_domain, Project: cleanup.delete_project,
}

_Shown = tuple[tuple[str, ...], tuple[object, ...]]
_Listed = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class _InCatalog(base.Configured):
    """A command that works on the catalog of the configured database.

    :ivar model: how limits are read in trees of projects, while the database is open.
    """

    model: EnforcementModel

    @contextlib.contextmanager
    def context(self, parsed_args: argparse.Namespace) -> Iterator[Context]:
        """Open the database."""
        with self.parts(parsed_args) as (parts, ctx):
            self.model = parts.model
            yield ctx


class _Shower(_InCatalog, base.Shower):
    """A command that shows one thing."""

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return what is to be shown."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> _Shown:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            record = self.find(ctx, parsed_args)
        return _list_fields(type(record)), dataclasses.astuple(record)


class _Lister(_InCatalog, base.Lister):
    """A command that lists things of a kind."""

    kind: type[Record]

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> _Listed:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            found = self.read(ctx, parsed_args)
        return _list_fields(self.kind), [dataclasses.astuple(record) for record in found]


class _Remover(_InCatalog, base.Command):
    """A command that removes one thing."""

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return what is to be removed."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            record = self.find(ctx, parsed_args)
            _DELETE[type(record)](ctx, record.id)
        return 0


def _list_fields(kind: type[Record]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


# Regions --------------------------------------------------------------------


class RegionAdd(_Shower):
    """Add a region."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", metavar="ID", help="such as RegionOne")
        parser.add_argument("--parent", metavar="ID", help="the region that it is a part of")
        parser.add_argument("--description", metavar="TEXT", default="")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return regions.create(
            ctx, id=parsed_args.id, parent_region_id=parsed_args.parent,
            description=parsed_args.description)


class RegionList(_Lister):
    """List regions."""

    kind = Region

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--parent", metavar="ID", help="only those right below this one")
        return parser

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        return regions.list_(ctx, parent_region_id=parsed_args.parent)


class _OneRegion(_InCatalog):
    """A command about a region."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("region", metavar="ID")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the region."""
        return regions.get(ctx, parsed_args.region)


class RegionShow(_OneRegion, _Shower):
    """Show a region."""


class RegionRemove(_OneRegion, _Remover):
    """Remove a region that has neither endpoints nor regions below it, with its limits."""


# Services -------------------------------------------------------------------


class ServiceAdd(_Shower):
    """Add a service."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("type", metavar="TYPE", help="such as compute")
        parser.add_argument("--name", metavar="NAME", default="", help="such as nova")
        parser.add_argument("--description", metavar="TEXT", default="")
        _add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return services.create(
            ctx, service_type=parsed_args.type, name=parsed_args.name,
            description=parsed_args.description, enabled=not parsed_args.disable,
            id=parsed_args.id)


class ServiceList(_Lister):
    """List services."""

    kind = Service

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--type", metavar="TYPE", help="only those of this type")
        parser.add_argument("--name", metavar="NAME", help="only those of this name")
        return parser

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        return services.list_(ctx, service_type=parsed_args.type, name=parsed_args.name)


class _OneService(_InCatalog):
    """A command about a service."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service", metavar="SERVICE", help="its id, its name or its type")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the service."""
        return names.service(ctx, parsed_args.service)


class ServiceShow(_OneService, _Shower):
    """Show a service."""


class ServiceRemove(_OneService, _Remover):
    """Remove a service with its endpoints and limits."""


# Endpoints ------------------------------------------------------------------


class EndpointAdd(_Shower):
    """Add an endpoint."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service", metavar="SERVICE", help="id, name or type of its service")
        parser.add_argument("interface", choices=endpoints.INTERFACES)
        parser.add_argument("url", metavar="URL")
        parser.add_argument("--region", metavar="ID")
        _add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return endpoints.create(
            ctx, service_id=names.service(ctx, parsed_args.service).id,
            interface=parsed_args.interface, url=parsed_args.url, region_id=parsed_args.region,
            enabled=not parsed_args.disable, id=parsed_args.id)


class EndpointList(_Lister):
    """List endpoints."""

    kind = Endpoint

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--service", metavar="SERVICE",
                            help="only those of this service: its id, its name or its type")
        parser.add_argument("--region", metavar="ID", help="only those in this region")
        parser.add_argument("--interface", choices=endpoints.INTERFACES,
                            help="only those of this kind")
        return parser

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        service = parsed_args.service
        return endpoints.list_(
            ctx, service_id=None if service is None else names.service(ctx, service).id,
            region_id=parsed_args.region, interface=parsed_args.interface)


class _OneEndpoint(_InCatalog):
    """A command about an endpoint."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("endpoint", metavar="ID")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the endpoint."""
        return endpoints.get(ctx, parsed_args.endpoint)


class EndpointShow(_OneEndpoint, _Shower):
    """Show an endpoint."""


class EndpointRemove(_OneEndpoint, _Remover):
    """Remove an endpoint."""


# Domains --------------------------------------------------------------------


class DomainAdd(_Shower):
    """Add a domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT", default="")
        _add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return domains.create(
            ctx, name=parsed_args.name, description=parsed_args.description,
            enabled=not parsed_args.disable, id=parsed_args.id)


class DomainList(_Lister):
    """List domains."""

    kind = Domain

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        return domains.list_(ctx)


class _OneDomain(_InCatalog):
    """A command about a domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("domain", metavar="DOMAIN", help="its id or its name")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the domain."""
        return names.domain(ctx, parsed_args.domain)


class DomainShow(_OneDomain, _Shower):
    """Show a domain."""


class DomainRemove(_OneDomain, _Remover):
    """Remove a domain that is disabled, with all its projects and their limits."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--disable", action="store_true", help="disable it first")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the domain, disabled if that is asked for."""
        domain = names.domain(ctx, parsed_args.domain)
        if parsed_args.disable:
            domains.update(ctx, domain.id, enabled=False)
        return domain


# Projects -------------------------------------------------------------------


class ProjectAdd(_Shower):
    """Add a project, below its domain or another project of the domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--domain", metavar="DOMAIN", required=True, help="its id or its name")
        parser.add_argument("--parent", metavar="PROJECT",
                            help="id or name of the project above it")
        parser.add_argument("--description", metavar="TEXT", default="")
        _add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        domain_id = names.domain(ctx, parsed_args.domain).id
        parent = parsed_args.parent
        return projects.create(
            ctx, name=parsed_args.name, domain_id=domain_id,
            parent_id=(
                None if parent is None else names.project(ctx, parent, domain_id=domain_id).id),
            description=parsed_args.description, enabled=not parsed_args.disable,
            id=parsed_args.id, max_depth=self.model.max_depth)


class ProjectList(_Lister):
    """List projects."""

    kind = Project

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--domain", metavar="DOMAIN",
                            help="only those of this domain: its id or its name")
        parser.add_argument("--parent", metavar="PROJECT",
                            help="only those right below this project: its id or its name")
        return parser

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        domain, parent = parsed_args.domain, parsed_args.parent
        domain_id = None if domain is None else names.domain(ctx, domain).id
        return projects.list_(
            ctx, domain_id=domain_id,
            parent_id=(
                None if parent is None else names.project(ctx, parent, domain_id=domain_id).id))


class _OneProject(_InCatalog):
    """A command about a project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT", help="its id or its name")
        parser.add_argument("--domain", metavar="DOMAIN",
                            help="where to look for the name: id or name of a domain")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the project."""
        return self.project(ctx, parsed_args)

    def project(self, ctx: Context, parsed_args: argparse.Namespace) -> Project:
        """Return the project that the command line names."""
        domain = parsed_args.domain
        return names.project(
            ctx, parsed_args.project,
            domain_id=None if domain is None else names.domain(ctx, domain).id)


class ProjectShow(_OneProject, _Shower):
    """Show a project."""


class ProjectRemove(_OneProject, _Remover):
    """Remove a project that has none below it, with its limits."""


class ProjectMove(_OneProject, _Shower):
    """Move a project, and all below it, to another place in its domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--parent", metavar="PROJECT", help="below this project: id or name")
        place.add_argument("--top", action="store_true", help="right below its domain")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Move it."""
        project = self.project(ctx, parsed_args)
        parent_id = project.domain_id if parsed_args.top else names.project(
            ctx, parsed_args.parent, domain_id=project.domain_id).id
        return project_moves.update_project(ctx, self.model, project.id, parent_id=parent_id)


# A whole file -----------------------------------------------------------------


class Load(_InCatalog, base.Lister):
    """Bring the catalog to what a YAML or JSON file says, all of it or nothing.

    The file has lists: regions (id, parent_region_id, description), services (type, name,
    description, enabled), endpoints (service, interface, url, region_id, enabled), domains
    (name, description, enabled), projects (name, domain, parent, description, enabled); all
    but regions may have an id. What is not in the file stays. Safe to repeat: what is there
    already is reported as unchanged.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=pathlib.Path)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> _Listed:
        """Run the command."""
        document = _read_file(parsed_args.file)

        def update_project(ctx: Context, id_: str, **changes: Any) -> Project:
            return project_moves.update_project(ctx, self.model, id_, **changes)

        with self.context(parsed_args) as ctx:
            loaded = loading.load(
                ctx, document, max_depth=self.model.max_depth, update_project=update_project)
        return ("kind", "name", "id", "outcome", "changed"), [
            (each.kind, each.name, each.id, each.outcome, ", ".join(each.changed))
            for each in loaded]


def _read_file(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Read a catalog's file.

    :raises base.Failed: naming the entry that is not what it should be.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise base.Failed(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not set(document) <= set(_SCHEMAS):
        raise base.Failed(f"{path}: expected a mapping with some of {', '.join(_SCHEMAS)}")
    for section, entries in document.items():
        if not isinstance(entries, list):
            raise base.Failed(f"{path}: {section}: expected a list")
        for number, entry in enumerate(entries, 1):
            fault = _SCHEMAS[section].validate(entry)
            if fault is not None:
                raise base.Failed(f"{path}: {section}, entry {number}: {fault.splitlines()[0]}")
    return document


def _add_id_and_disable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="ID", help="its id; a random one if none is given")
    parser.add_argument("--disable", action="store_true", help="add it as disabled")


#: The commands by the words that call them.
COMMANDS: Mapping[str, type[base.Configured]] = {
    "catalog region add": RegionAdd,
    "catalog region list": RegionList,
    "catalog region show": RegionShow,
    "catalog region remove": RegionRemove,
    "catalog service add": ServiceAdd,
    "catalog service list": ServiceList,
    "catalog service show": ServiceShow,
    "catalog service remove": ServiceRemove,
    "catalog endpoint add": EndpointAdd,
    "catalog endpoint list": EndpointList,
    "catalog endpoint show": EndpointShow,
    "catalog endpoint remove": EndpointRemove,
    "catalog domain add": DomainAdd,
    "catalog domain list": DomainList,
    "catalog domain show": DomainShow,
    "catalog domain remove": DomainRemove,
    "catalog project add": ProjectAdd,
    "catalog project list": ProjectList,
    "catalog project show": ProjectShow,
    "catalog project move": ProjectMove,
    "catalog project remove": ProjectRemove,
    "catalog load": Load,
}
