"""Create and update catalog records from a document, in one idempotent transaction.

Records that the document does not mention stay as they are. Entries are processed in order,
kind by kind; an entry must come after those that it refers to.
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

#: A record in a document: its fields, and ids or names of the records it refers to.
Entry = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading an entry.

    :ivar name: how messages name the record.
    :ivar outcome: whether the record was created, updated, or up to date already.
    :ivar changed: the fields that were updated.
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
    """Create the records that are missing, and update those that differ.

    An entry with an id describes the record that has this id. An entry without one describes
    the service of its type and name, the endpoint of its service, interface and region, the
    domain of its name, or the project of its name in its domain. A field that an entry lacks
    is not changed.

    :param document: {``regions``, ``services``, ``endpoints``, ``domains`` or
        ``projects``: entries}, each with the fields of its record. Instead of ids, an endpoint
        has ``service``, a project ``domain`` and ``parent``, each an id or a name.
    :param max_depth: the number of levels that a tree may have; None: any number.
    :param update_project: called like ``projects.update``, inside the transaction, for projects
        that exist already; it may check their limits, too.
    :returns: the result of each entry, in order.
    :raises errors.UnknownReference: a record that an entry refers to is missing, or comes later.
    :raises errors.Ambiguous: an entry or a reference matches several records.
    :raises errors.Duplicate: the id of an entry is new, but its name is taken.
    """
    update = update_project or functools.partial(projects.update, max_depth=max_depth)
    with db.write(ctx) as session:
        # No other writer can change the records that entries are compared with.
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
        # A parent that is the domain puts the project at the top of the tree.
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
    """Return the record that an entry describes, or None.

    :param alike: the records that it may describe if it has no id.
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
    """Update the fields that differ."""
    changes = {field: value for field, value in values.items()
               if getattr(present, field) != value}
    if changes:
        update(ctx, present.id, **changes)
    return Loaded(
        kind, present.id, name, "updated" if changes else "unchanged", tuple(changes))


def _drop_fields(entry: Entry, *fields: str) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in fields}
