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


def find_service(ctx: Context, text: str) -> Service:
    """Return the service of that id, name or type; an id wins over a name, that over a type.

    :raises errors.UnknownReference: there is none.
    :raises errors.Ambiguous: there are several.
    """
    return _first(
        "service", text,
        lambda: [services.get(ctx, text)],
        lambda: services.list_(ctx, name=text),
        lambda: services.list_(ctx, service_type=text))


def find_domain(ctx: Context, text: str) -> Domain:
    """Return the domain of that id or name; an id wins.

    :raises errors.UnknownReference: there is none.
    """
    return _first(
        "domain", text,
        lambda: [domains.get(ctx, text)],
        lambda: domains.list_(ctx, name=text))


def find_project(ctx: Context, text: str, *, domain_id: str | None = None) -> Project:
    """Return the project of that id or name; an id wins.

    :param domain_id: where a name is looked for; None: everywhere.
    :raises errors.UnknownReference: there is none.
    :raises errors.Ambiguous: several domains have one of that name.
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
