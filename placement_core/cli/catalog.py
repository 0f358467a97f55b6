"""``placement-core catalog …``: the services, domains and projects that limits are about.

What stands here writes the ``local`` catalog; a remote Keystone has its own commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from placement_core.catalog import (
    domains,
    endpoints,
    names,
    projects,
    regions,
    services,
)
from placement_core.cli.catalog_base import (
    CatalogCommand,
    Record,
    RecordLister,
    RecordRemover,
    RecordShower,
    add_id_and_disable,
)
from placement_core.context import Context
from placement_core.limits import project_moves
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service

# Regions --------------------------------------------------------------------


class AddRegion(RecordShower):
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


class ListRegions(RecordLister):
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


class _OneRegion(CatalogCommand):
    """A command about a region."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("region", metavar="ID")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the region."""
        return regions.get(ctx, parsed_args.region)


class ShowRegion(_OneRegion, RecordShower):
    """Show a region."""


class RemoveRegion(_OneRegion, RecordRemover):
    """Remove a region that has neither endpoints nor regions below it, with its limits."""


# Services -------------------------------------------------------------------


class AddService(RecordShower):
    """Add a service."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("type", metavar="TYPE", help="such as compute")
        parser.add_argument("--name", metavar="NAME", default="", help="such as nova")
        parser.add_argument("--description", metavar="TEXT", default="")
        add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return services.create(
            ctx, service_type=parsed_args.type, name=parsed_args.name,
            description=parsed_args.description, enabled=not parsed_args.disable,
            id=parsed_args.id)


class ListServices(RecordLister):
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


class _OneService(CatalogCommand):
    """A command about a service."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service", metavar="SERVICE", help="its id, its name or its type")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the service."""
        return names.find_service(ctx, parsed_args.service)


class ShowService(_OneService, RecordShower):
    """Show a service."""


class RemoveService(_OneService, RecordRemover):
    """Remove a service with its endpoints and limits."""


# Endpoints ------------------------------------------------------------------


class AddEndpoint(RecordShower):
    """Add an endpoint."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service", metavar="SERVICE", help="id, name or type of its service")
        parser.add_argument("interface", choices=endpoints.INTERFACES)
        parser.add_argument("url", metavar="URL")
        parser.add_argument("--region", metavar="ID")
        add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return endpoints.create(
            ctx, service_id=names.find_service(ctx, parsed_args.service).id,
            interface=parsed_args.interface, url=parsed_args.url, region_id=parsed_args.region,
            enabled=not parsed_args.disable, id=parsed_args.id)


class ListEndpoints(RecordLister):
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
            ctx, service_id=None if service is None else names.find_service(ctx, service).id,
            region_id=parsed_args.region, interface=parsed_args.interface)


class _OneEndpoint(CatalogCommand):
    """A command about an endpoint."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("endpoint", metavar="ID")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the endpoint."""
        return endpoints.get(ctx, parsed_args.endpoint)


class ShowEndpoint(_OneEndpoint, RecordShower):
    """Show an endpoint."""


class RemoveEndpoint(_OneEndpoint, RecordRemover):
    """Remove an endpoint."""


# Domains --------------------------------------------------------------------


class AddDomain(RecordShower):
    """Add a domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--description", metavar="TEXT", default="")
        add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        return domains.create(
            ctx, name=parsed_args.name, description=parsed_args.description,
            enabled=not parsed_args.disable, id=parsed_args.id)


class ListDomains(RecordLister):
    """List domains."""

    kind = Domain

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        return domains.list_(ctx)


class _OneDomain(CatalogCommand):
    """A command about a domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("domain", metavar="DOMAIN", help="its id or its name")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the domain."""
        return names.find_domain(ctx, parsed_args.domain)


class ShowDomain(_OneDomain, RecordShower):
    """Show a domain."""


class RemoveDomain(_OneDomain, RecordRemover):
    """Remove a domain that is disabled, with all its projects and their limits."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--disable", action="store_true", help="disable it first")
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return the domain, disabled if that is asked for."""
        domain = names.find_domain(ctx, parsed_args.domain)
        if parsed_args.disable:
            domains.update(ctx, domain.id, enabled=False)
        return domain


# Projects -------------------------------------------------------------------


class AddProject(RecordShower):
    """Add a project, below its domain or another project of the domain."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--domain", metavar="DOMAIN", required=True, help="its id or its name")
        parser.add_argument("--parent", metavar="PROJECT",
                            help="id or name of the project above it")
        parser.add_argument("--description", metavar="TEXT", default="")
        add_id_and_disable(parser)
        return parser

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Make it."""
        domain_id = names.find_domain(ctx, parsed_args.domain).id
        parent = parsed_args.parent
        return projects.create(
            ctx, name=parsed_args.name, domain_id=domain_id,
            parent_id=(
                None if parent is None
                else names.find_project(ctx, parent, domain_id=domain_id).id),
            description=parsed_args.description, enabled=not parsed_args.disable,
            id=parsed_args.id, max_depth=self.model.max_depth)


class ListProjects(RecordLister):
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
        domain_id = None if domain is None else names.find_domain(ctx, domain).id
        return projects.list_(
            ctx, domain_id=domain_id,
            parent_id=(
                None if parent is None
                else names.find_project(ctx, parent, domain_id=domain_id).id))


class _OneProject(CatalogCommand):
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
        return names.find_project(
            ctx, parsed_args.project,
            domain_id=None if domain is None else names.find_domain(ctx, domain).id)


class ShowProject(_OneProject, RecordShower):
    """Show a project."""


class RemoveProject(_OneProject, RecordRemover):
    """Remove a project that has none below it, with its limits."""


class MoveProject(_OneProject, RecordShower):
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
        parent_id = project.domain_id if parsed_args.top else names.find_project(
            ctx, parsed_args.parent, domain_id=project.domain_id).id
        return project_moves.update_project(ctx, self.model, project.id, parent_id=parent_id)
