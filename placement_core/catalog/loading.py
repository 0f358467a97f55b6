"""Bringing the catalog to what a document says: all of it or nothing, safe to repeat.

What the document does not mention stays. Entries are taken in order, kind by
kind; what another one refers to stands before it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from placement_core import db
from placement_core.catalog import (
    domains,
    endpoints,
    errors,
    names,
    projects,
    regions,
    services,
)
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service

R = TypeVar("R", Region, Service, Endpoint, Domain, Project)

#: One thing of a document: its fields, and names of what it refers to.
Entry = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """What became of an entry.

    :ivar name: for people.
    :ivar outcome: it was made, brought up to date, or there already as it is.
    :ivar changed: the fields that were brought up to date.
    """

    kind: str
    id: str
    name: str
    outcome: Literal["created", "updated", "unchanged"]
    changed: tuple[str, ...] = ()


@db.retry_writes
def load(
    ctx: Context, document: Mapping[str, Sequence[Entry]], *, max_depth: int | None = None,
    update_project: Callable[..., Project] | None = None,
) -> list[Loaded]:
    """Make what is missing, and bring what is there up to date.

    An entry with an id is about what has that id; without one, it is about the
    service of its type and name, the endpoint of its service, interface and region,
    the domain of its name, the project of its name in its domain. A field that an
    entry lacks stays what it is.

    :param document: {``regions``, ``services``, ``endpoints``, ``domains`` or
        ``projects``: entries}, each with the fields of its record; an endpoint has
        ``service``, a project ``domain`` and ``parent``, an id or a name.
    :param max_depth: how many levels a tree may have; None for any.
    :param update_project: called as ``projects.update`` is, inside the transaction, for
        projects that are there already: a function that minds their limits too.
    :returns: for each entry, in order.
    :raises errors.UnknownReference: something referred to is missing, or comes later.
    :raises errors.Ambiguous: an entry could be about several.
    :raises errors.Duplicate: an id is new, but its name is taken.
    """
    update = update_project or functools.partial(projects.update, max_depth=max_depth)
    with db.write(ctx) as session:
        # Nobody changes what we compare with.
        revisions.increment(session, revisions.LIMITS)
        return [
            *(_load_region(ctx, entry) for entry in document.get("regions", ())),
            *(_load_service(ctx, entry) for entry in document.get("services", ())),
            *(_load_endpoint(ctx, entry) for entry in document.get("endpoints", ())),
            *(_load_domain(ctx, entry) for entry in document.get("domains", ())),
            *(_load_project(ctx, entry, max_depth, update)
              for entry in document.get("projects", ())),
        ]


def _load_region(ctx: Context, entry: Entry) -> Loaded:
    present = _find_by_id(regions.get, ctx, entry["id"])
    if present is None:
        return _make_created(regions.create(ctx, **entry), "region", entry["id"])
    return _update(ctx, present, entry, regions.update, "region", entry["id"])


def _load_service(ctx: Context, entry: Entry) -> Loaded:
    named = entry.get("name", "")
    name = named or entry["type"]
    present = _find_present(
        "service", name, services.get, ctx, entry,
        [each for each in services.list_(ctx, service_type=entry["type"]) if each.name == named])
    if present is None:
        values = {"service_type" if field == "type" else field: value
                  for field, value in entry.items()}
        return _make_created(services.create(ctx, **values), "service", name)
    return _update(ctx, present, entry, services.update, "service", name)


def _load_endpoint(ctx: Context, entry: Entry) -> Loaded:
    service = names.find_service(ctx, entry["service"])
    values = {**_drop_fields(entry, "service"), "service_id": service.id}
    region_id = entry.get("region_id")
    name = " ".join(filter(None, (service.name or service.type, entry["interface"], region_id)))
    alike = endpoints.list_(ctx, service_id=service.id, interface=entry["interface"])
    present = _find_present(
        "endpoint", name, endpoints.get, ctx, entry,
        [each for each in alike if each.region_id == region_id])
    if present is None:
        return _make_created(endpoints.create(ctx, **values), "endpoint", name)
    return _update(ctx, present, values, endpoints.update, "endpoint", name)


def _load_domain(ctx: Context, entry: Entry) -> Loaded:
    name = entry["name"]
    present = _find_present(
        "domain", name, domains.get, ctx, entry, domains.list_(ctx, name=name))
    if present is None:
        return _make_created(domains.create(ctx, **entry), "domain", name)
    return _update(ctx, present, entry, domains.update, "domain", name)


def _load_project(
    ctx: Context, entry: Entry, max_depth: int | None, update: Callable[..., Project],
) -> Loaded:
    name = entry["name"]
    domain_id = names.find_domain(ctx, entry["domain"]).id
    values = _drop_fields(entry, "domain", "parent")
    if "parent" in entry:
        parent = entry["parent"]
        # The domain's id says that the project belongs at the top.
        values["parent_id"] = (
            domain_id if parent == domain_id
            else names.find_project(ctx, parent, domain_id=domain_id).id)
    present = _find_present(
        "project", name, projects.get, ctx, entry,
        projects.list_(ctx, name=name, domain_id=domain_id))
    if present is None:
        project = projects.create(ctx, domain_id=domain_id, max_depth=max_depth, **values)
        return _make_created(project, "project", name)
    if present.domain_id != domain_id:
        raise errors.Misplaced("project", present.id, domain_id, "it is in another domain")
    return _update(ctx, present, values, update, "project", name)


def _find_present(
    kind: str, name: str, get: Callable[[Context, str], R], ctx: Context, entry: Entry,
    alike: Sequence[R],
) -> R | None:
    """Return what an entry is about, if it is there.

    :param alike: what it may be about if it has no id.
    """
    if "id" in entry:
        return _find_by_id(get, ctx, entry["id"])
    if len(alike) > 1:
        raise errors.Ambiguous(kind, name, [record.id for record in alike])
    return alike[0] if alike else None


def _find_by_id(get: Callable[[Context, str], R], ctx: Context, id_: str) -> R | None:
    try:
        return get(ctx, id_)
    except errors.NotInCatalog:
        return None


def _make_created(record: R, kind: str, name: str) -> Loaded:
    return Loaded(kind, record.id, name, "created")


def _update(
    ctx: Context, present: R, values: Entry, update: Callable[..., R], kind: str, name: str,
) -> Loaded:
    """Change what differs."""
    changes = {field: value for field, value in values.items()
               if getattr(present, field) != value}
    if changes:
        update(ctx, present.id, **changes)
    return Loaded(
        kind, present.id, name, "updated" if changes else "unchanged", tuple(changes))


def _drop_fields(entry: Entry, *fields: str) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in fields}
