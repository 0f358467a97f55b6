"""Look up services, domains and projects by id, or by a name that is unique.

For commands and files; the APIs take ids only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from placement_core.catalog import domains, errors, projects, services
from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain, Project, Service

R = TypeVar("R", Service, Domain, Project)


def find_service(ctx: Context, text: str) -> Service:
    """Return the service that has an id, a name or a type, tried in this order.

    :raises errors.UnknownReference: no service matches.
    :raises errors.Ambiguous: several services match.
    """
    return _first(
        "service", text,
        lambda: [services.get(ctx, text)],
        lambda: services.list_(ctx, name=text),
        lambda: services.list_(ctx, service_type=text))


def find_domain(ctx: Context, text: str) -> Domain:
    """Return the domain that has an id or, if there is none, a name.

    :raises errors.UnknownReference: no domain matches.
    """
    return _first(
        "domain", text,
        lambda: [domains.get(ctx, text)],
        lambda: domains.list_(ctx, name=text))


def find_project(ctx: Context, text: str, *, domain_id: str | None = None) -> Project:
    """Return the project that has an id or, if there is none, a name.

    :param domain_id: the domain in which a name is looked up; None: all domains.
    :raises errors.UnknownReference: no project matches.
    :raises errors.Ambiguous: several domains have a project of this name.
    """
    return _first(
        "project", text,
        lambda: [projects.get(ctx, text)],
        lambda: projects.list_(ctx, name=text, domain_id=domain_id))


def _first(kind: str, text: str, *lookups: Callable[[], Sequence[R]]) -> R:
    for look_up in lookups:
        try:
            matches = look_up()
        except errors.NotInCatalog:
            continue
        if len(matches) > 1:
            raise errors.Ambiguous(kind, text, [match.id for match in matches])
        if matches:
            return matches[0]
    raise errors.UnknownReference(kind, text)
