"""``placement-core limits …``: what services register, and what is set for whom."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import yaml

from placement_core import amounts, services as service_parts
from placement_core.amounts import Amount
from placement_core.cli import base
from placement_core.cli.names import CatalogNames, require_one
from placement_core.context import Context
from placement_core.limits import bulk_register, cleanup, inputs, limits, registered, users
from placement_core.limits.records import AnyLimit, Filter
from placement_core.plugin_api.enforcement import Binding

_UNLIMITED = "unlimited"

#: The ids that tables of limits leave out: limits are named by whose and what they are about.
_IDS = ("id", "service_id")

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class _LimitLister(base.Lister):
    """A command that needs the service's parts, and prints a table."""

    #: Whether the command works on our own tables.
    on_our_tables = True

    @contextlib.contextmanager
    def parts(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[service_parts.Services, Context]]:
        """Open the service's parts, and a context on its database."""
        with super().parts(parsed_args) as (parts, ctx):
            if self.on_our_tables and not parts.limits.transactional:
                raise base.Failed(
                    f"[limits] driver = {parts.conf.limits.driver}: limits are not kept in this "
                    "database; list and change them where that driver reads them")
            yield parts, ctx


class RegisterLimits(_LimitLister):
    """Register the resources of a service, and change defaults, as a file says.

    All or nothing: if the default of one resource cannot be changed, because limits of
    projects refer to it, nothing is done, and the exit code is 1. Safe to repeat.
    Resources that are registered and not in the file stay as they are.

    The file is YAML or JSON: "service" (its id, name or type), "region" (left out where the
    service has no regions) and "resources": for each name its default, a number or
    "unlimited", or {"default": …, "description": …}.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", help="what to register, YAML or JSON")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        service, region_id, resources = _read_file(parsed_args.file)
        self.empty = f"{parsed_args.file} has no resources: nothing to register."
        with self.parts(parsed_args) as (parts, ctx):
            service_id = _find_service_id(parts, ctx, service)
            outcomes = bulk_register.register(ctx, parts.catalog, [
                {"service_id": service_id, "region_id": region_id, **resource}
                for resource in resources])
        self.exit_code = int(any(outcome.state == "refused" for outcome in outcomes))
        return ("resource_name", "state", "old_default", "new_default", "reason"), [
            (outcome.resource_name, outcome.state, _Value(outcome.old_default),
             _Value(outcome.new_default), outcome.reason)
            for outcome in outcomes]


class ListLimits(_LimitLister):
    """List the limits of projects and domains, or of users, or the registered ones."""

    beside: Collection[str] = ("service_id",)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--registered", action="store_true", help="list what is registered")
        kind.add_argument("--users", action="store_true", help="list the limits of users")
        parser.add_argument("--service", metavar="SERVICE", help="its id, its name or its type")
        parser.add_argument("--region", metavar="ID", help="the id of a region")
        parser.add_argument("--resource", metavar="NAME", help="the name of a resource")
        parser.add_argument("--project", metavar="PROJECT",
                            help="the id or name of a project or domain")
        parser.add_argument("--user", metavar="ID", help="with --users: the id of a user")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        if parsed_args.user is not None and not parsed_args.users:
            raise base.Failed("--user goes with --users")
        if parsed_args.project is not None and parsed_args.registered:
            raise base.Failed("--project does not go with --registered")
        what = ("registered" if parsed_args.registered
                else "set for users" if parsed_args.users else "set for projects and domains")
        self.empty = f"No limits are {what}" + base.describe_filters(
            service=parsed_args.service, region=parsed_args.region,
            resource=parsed_args.resource, project=parsed_args.project,
            user=parsed_args.user) + "."
        with self.parts(parsed_args) as (parts, ctx):
            filters = _make_filters(
                resource_name=parsed_args.resource, region_id=parsed_args.region,
                user_id=parsed_args.user)
            if parsed_args.service is not None:
                filters += _make_filters(
                    service_id=_find_service_id(parts, ctx, parsed_args.service))
            if parsed_args.project is not None:
                field, node_id = _find_node(parts, ctx, parsed_args.project)
                filters += [Filter("project_id" if parsed_args.users else field,
                                   "equals", node_id)]
            names = CatalogNames(parts, ctx, self.note)
            if parsed_args.registered:
                return _REGISTERED, [
                    (limit.id, limit.service_id, names.service(limit.service_id),
                     limit.region_id, limit.resource_name, _Value(limit.default_limit),
                     limit.description)
                    for limit in registered.list_(ctx, filters)]
            self.beside = _IDS
            if parsed_args.users:
                return _make_table(users.list_(ctx, filters), names)
            return _make_table(limits.list_(ctx, filters), names)


class ShowLimits(_LimitLister):
    """Show what a project may use of a service: defaults, what is set, and what binds.

    "bound_by" names each bound on a claim of the project, the project's own first:
    whose limit it is, how much, and whether it counts what that project uses itself
    (own) or everything below it too (subtree).
    """

    on_our_tables = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="PROJECT",
                            help="the id or name of a project or domain")
        _add_service(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            service_id = _find_service_id(parts, ctx, parsed_args.service)
            _, node_id = _find_node(parts, ctx, parsed_args.project)
            lineage = parts.catalog.lineage(ctx, node_id)
            effective = parts.limits.effective(
                ctx, [node.id for node in lineage], service_id=service_id,
                region_id=parsed_args.region)
            if not effective.defaults:
                self.empty = _describe_emptiness(
                    parts, ctx, service_id, parsed_args.service, parsed_args.region)
            names = CatalogNames(parts, ctx, self.note)
            titles = {node.id: names.node(node.id) for node in lineage}
        rows = []
        for name, default in sorted(effective.defaults.items()):
            overrides = {node.id: effective.overrides[node.id][name] for node in lineage
                         if name in effective.overrides.get(node.id, {})}
            own = overrides.get(node_id)
            rows.append((
                name, _Value(amounts.to_wire(default)),
                _Value(None if own is None else amounts.to_wire(own)),
                _Bindings((parts.model.bindings(lineage, overrides, default), titles))))
        return ("resource_name", "default", "set", "bound_by"), rows


def _describe_emptiness(
    parts: service_parts.Services, ctx: Context, service_id: str, service: str,
    region_id: str | None,
) -> str:
    """Say that nothing is registered, and in which other regions the service has limits."""
    region_ids = {limit.region_id for limit in parts.limits.registered(ctx) or ()
                  if limit.service_id == service_id}
    where = " and ".join(
        "without a region" if id_ is None else f"with --region {id_}"
        for id_ in sorted(region_ids, key=lambda id_: id_ or ""))
    here = "without a region" if region_id is None else f"in region {region_id}"
    return (f"No limits bind this project: none are registered for service {service} {here}"
            + (f"; there are some {where}" if where else "") + ".")


class SetLimit(_LimitLister):
    """Set the limit of a project, a domain, or of a user in a project.

    It is made if there is none. Lowering it below what is used is allowed: it stops
    new claims only.
    """

    empty = "No limit was set."
    beside = _IDS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_limit(parser)
        parser.add_argument("value", metavar="VALUE", help=f'a number, or "{_UNLIMITED}"')
        parser.add_argument("--description", metavar="TEXT", help="why, for people")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        changes: dict[str, Any] = {"resource_limit": _parse_value(parsed_args.value)}
        if parsed_args.description is not None:
            changes["description"] = parsed_args.description
        with self.parts(parsed_args) as (parts, ctx):
            subject, present = _find_limit(parts, ctx, parsed_args)
            limit: AnyLimit
            if parsed_args.user is not None:
                limit = (users.update(ctx, present.id, changes) if present is not None
                         else users.create_many(ctx, parts.catalog, [subject | changes])[0])
            elif present is not None:
                limit = limits.update(ctx, parts.catalog, parts.model, present.id, changes)
            else:
                limit = limits.create_many(
                    ctx, parts.catalog, parts.model, [subject | changes])[0]
            return _make_table([limit], CatalogNames(parts, ctx, self.note))


class UnsetLimit(_LimitLister):
    """Delete the limit of a project, a domain, or of a user in a project.

    The registered default holds from then on. Prints the limit that was deleted.
    """

    empty = "No limit was deleted."
    beside = _IDS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_limit(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            _, present = _find_limit(parts, ctx, parsed_args)
            if present is None:
                raise base.Failed("there is no such limit")
            if parsed_args.user is not None:
                users.delete(ctx, present.id)
            else:
                limits.delete(ctx, parts.catalog, parts.model, present.id)
            return _make_table([present], CatalogNames(parts, ctx, self.note))


class AuditLimits(_LimitLister):
    """List limits of services, regions, projects and domains that no longer exist.

    A catalog that is kept elsewhere deletes them without telling. Exit code 1: there
    are some (and they were not deleted). Limits that bind nobody for other reasons are
    named on stderr.
    """

    empty = ("Nothing is left over: every service, region, project and domain that limits name "
             "exists.")
    beside = ("id", "node_id")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--repair", action="store_true", help="delete them")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            orphans = (cleanup.repair if parsed_args.repair else cleanup.audit)(
                ctx, parts.catalog)
            for gap in parts.limit_gaps(ctx):
                self.note(gap)
            names = CatalogNames(parts, ctx, self.note)
            self.exit_code = int(bool(orphans) and not parsed_args.repair)
            return ("kind", "id", "resource_name", "node_id", "node_name", "user_id", "missing",
                    "missing_id", "deleted"), [
                (orphan.kind, orphan.limit_id, orphan.resource_name,
                 orphan.project_id or orphan.domain_id,
                 names.node(orphan.project_id or orphan.domain_id), orphan.user_id,
                 orphan.missing, orphan.missing_id, parsed_args.repair)
                for orphan in orphans]


# Arguments ----------------------------------------------------------------------


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--service", metavar="SERVICE", required=True,
                        help="its id, its name or its type")
    parser.add_argument("--region", metavar="ID",
                        help="the region; left out: the limit of no region")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", metavar="PROJECT",
                        help="the id or name of a project or domain")
    parser.add_argument("resource", metavar="RESOURCE", help="the name of a resource")
    _add_service(parser)
    parser.add_argument("--user", metavar="ID",
                        help="the limit of this user in the project, not the project's own")


def _parse_value(text: str) -> int:
    if text == _UNLIMITED:
        return inputs.SMALLEST
    try:
        return int(text)
    except ValueError:
        raise base.Failed(f"{text!r} is neither a number nor {_UNLIMITED!r}") from None


def _find_service_id(parts: service_parts.Services, ctx: Context, text: str) -> str:
    """Return the id of the one service of an id, name or type; an id wins, then a name."""
    if parts.catalog.service(ctx, text) is not None:
        return text
    services = (parts.catalog.services(ctx, name=text)
                or parts.catalog.services(ctx, service_type=text))
    if not services:
        raise base.Failed(f"there is no service of id, name or type {text}")
    return require_one([service.id for service in services], "services", text)


def _find_node(parts: service_parts.Services, ctx: Context, text: str) -> tuple[str, str]:
    """Return the one project or domain of an id or name: ("project_id" | "domain_id", id)."""
    if parts.catalog.project(ctx, text) is not None:
        return "project_id", text
    if parts.catalog.domain(ctx, text) is not None:
        return "domain_id", text
    projects = parts.catalog.projects(ctx, name=text)
    if projects:
        return "project_id", require_one([project.id for project in projects], "projects", text)
    domains = parts.catalog.domains(ctx, name=text)
    if domains:
        return "domain_id", require_one([domain.id for domain in domains], "domains", text)
    raise base.Failed(f"there is no project or domain of id or name {text}")


def _find_limit(
    parts: service_parts.Services, ctx: Context, parsed_args: argparse.Namespace
) -> tuple[dict[str, Any], AnyLimit | None]:
    """Return what says whose limit is meant, and the limit if there is one."""
    field, node_id = _find_node(parts, ctx, parsed_args.project)
    subject: dict[str, Any] = {
        field: node_id,
        "service_id": _find_service_id(parts, ctx, parsed_args.service),
        "region_id": parsed_args.region, "resource_name": parsed_args.resource}
    rows: list[Any]
    if parsed_args.user is not None:
        subject["user_id"] = parsed_args.user
        if field != "project_id":
            raise base.Failed("the limit of a user is for a project, not for a domain")
    exact = [Filter(name, "equals", value) for name, value in subject.items()]
    rows = users.list_(ctx, exact) if parsed_args.user is not None else limits.list_(ctx, exact)
    return subject, rows[0] if rows else None


def _make_filters(**values: str | None) -> list[Filter]:
    return [Filter(field, "equals", value) for field, value in values.items()
            if value is not None]


def _read_file(path: str) -> tuple[str, str | None, list[dict[str, Any]]]:
    """Return the service, the region and the resources that a file names."""
    try:
        document = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise base.Failed(f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise base.Failed(f"{path}: {' '.join(str(error).split())}") from None
    if (not isinstance(document, dict) or not isinstance(document.get("service"), str)
            or not isinstance(document.get("region"), str | None)
            or not isinstance(document.get("resources"), dict)
            or not document.keys() <= {"service", "region", "resources"}):
        raise base.Failed(f'{path}: expected "service", "resources" and perhaps "region"')
    return document["service"], document.get("region"), [
        _parse_resource(path, name, value) for name, value in document["resources"].items()]


def _parse_resource(path: str, name: object, value: object) -> dict[str, Any]:
    details: Mapping[Any, Any] = value if isinstance(value, dict) else {"default": value}
    default = details.get("default")
    if default is None or not details.keys() <= {"default", "description"}:
        raise base.Failed(
            f'{path}: {name}: expected a default, or "default" and perhaps "description"')
    return {"resource_name": name, "description": details.get("description"),
            "default_limit": inputs.SMALLEST if default == _UNLIMITED else default}


# What is printed ----------------------------------------------------------------

_REGISTERED = ("id", "service_id", "service_name", "region_id", "resource_name", "default",
               "description")
#: Whose limit it is, "node", is a project or a domain.
_LIMITS = ("id", "node_id", "node_name", "user_id", "service_id", "service_name", "region_id",
           "resource_name", "limit", "description")


def _make_table(rows: Iterable[Any], names: CatalogNames) -> Rows:
    return _LIMITS, [
        (limit.id, node_id, names.node(node_id), getattr(limit, "user_id", None),
         limit.service_id, names.service(limit.service_id), limit.region_id,
         limit.resource_name, _Value(limit.resource_limit), limit.description)
        for limit in rows for node_id in [limit.project_id or limit.domain_id]]


class _Value(base.FormattableColumn):
    """The value of a limit; machines read it as the APIs spell it."""

    def human_readable(self) -> str:
        """Return it in words."""
        return "" if self._value is None else _format_amount(amounts.from_wire(self._value))


class _Bindings(base.FormattableColumn):
    """The bounds on a claim, and the names of projects and domains."""

    def human_readable(self) -> str:
        """Return a line for each bound."""
        bindings, names = self._value
        return "\n".join(_format_binding(binding, names) for binding in bindings) or _UNLIMITED

    def machine_readable(self) -> list[dict[str, object]]:
        """Return a document for each bound."""
        return [
            {"node_id": binding.node_id,
             "node_name": names[binding.node_id].machine_readable(),
             "limit": amounts.to_wire(binding.limit), "scope": binding.scope,
             "source": binding.source}
            for bindings, names in [self._value] for binding in bindings]


def _format_binding(binding: Binding, names: Mapping[str, base.NameOrId]) -> str:
    limit = _format_amount(binding.limit)
    name = names[binding.node_id].human_readable()
    return f"{limit} of {name} ({binding.scope}, {binding.source})"


def _format_amount(amount: Amount) -> str:
    return _UNLIMITED if amount == amounts.UNLIMITED else str(amount)
