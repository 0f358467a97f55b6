"""What people call things: by id, or by a name if only one has it.

For commands and files; the APIs go by ids alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from placement_core.catalog import domains, errors, projects, services
from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain, Project, Service

R = TypeVar("R", Service, Domain, Project)


def service(ctx: Context, called: str) -> Service:
    """Return the service of that id, name or type; an id wins over a name, that over a type.

    :raises errors.UnknownReference: there is none.
    :raises errors.Ambiguous: there are several.
    """
    return _first(
        "service", called,
        lambda: [services.get(ctx, called)],
        lambda: services.list_(ctx, name=called),
        lambda: services.list_(ctx, service_type=called))


def domain(ctx: Context, called: str) -> Domain:
    """Return the domain of that id or name; an id wins.

    :raises errors.UnknownReference: there is none.
    """
    return _first(
        "domain", called,
        lambda: [domains.get(ctx, called)],
        lambda: domains.list_(ctx, name=called))


def project(ctx: Context, called: str, *, domain_id: str | None = None) -> Project:
    """Return the project of that id or name; an id wins.

    :param domain_id: where a name is looked for; None: everywhere.
    :raises errors.UnknownReference: there is none.
    :raises errors.Ambiguous: several domains have one of that name.
    """
    return _first(
        "project", called,
        lambda: [projects.get(ctx, called)],
        lambda: projects.list_(ctx, name=called, domain_id=domain_id))


def _first(kind: str, called: str, *lookups: Callable[[], Sequence[R]]) -> R:
    for look_up in lookups:
        try:
            matches = look_up()
        except errors.NotInCatalog:
            continue
        if len(matches) > 1:
            raise errors.Ambiguous(kind, called, [match.id for match in matches])
        if matches:
            return matches[0]
    raise errors.UnknownReference(kind, called)
