"""Where the records of a source go: what we have of a kind, and how one is made."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from placement_core import db, errors
from placement_core.catalog import domains, endpoints, projects, regions, services
from placement_core.catalog.errors import TooDeep
from placement_core.context import Context
from placement_core.limits import cleanup, limits, project_moves, registered, users
from placement_core.plugin_api.catalog import (
    CatalogDriver,
    Domain,
    Endpoint,
    Node,
    Project,
    Region,
    Service,
)
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.takeover import limit_clashes, records
from placement_core.takeover.errors import ImmutableField, StillUsed
from placement_core.takeover.records import Fields, Record


class Writer(abc.ABC):
    """Writes our records of a kind. Methods join the transaction of ``ctx`` if there is one.

    :ivar kind: theirs.
    :ivar batch: how many records one transaction writes.
    :ivar replaces: whether ``create`` also makes those that are here what they are to be.
    """

    kind: str
    batch: int = 100
    replaces: bool = False

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why a record cannot be ours, by its values; "": it can. Nothing is read.

        :param others: ours, as they will be: {id: fields}; may have the record, as it is.
        """
        return ""

    def find_change_obstacle(self, ours: Fields, changes: Fields) -> str:
        """Say why fields of one of ours cannot be changed so; "": they can. Nothing is read."""
        return ""

    @abc.abstractmethod
    def read_some(self, ctx: Context, ids: Sequence[str]) -> Mapping[str, Fields]:
        """Return those of some ids that are here: {id: fields}."""

    @abc.abstractmethod
    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some, or none; if it ``replaces``, update those that are here.

        :raises errors.Error: one cannot be created.
        """

    @abc.abstractmethod
    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Change fields of one.

        :raises errors.Error: it cannot be changed so.
        """

    @abc.abstractmethod
    def delete(self, ctx: Context, id_: str) -> None:
        """Delete one.

        :raises errors.Error: it cannot be deleted.
        """


class Target(Writer):
    """Our records of a kind."""

    @abc.abstractmethod
    def read(self, ctx: Context) -> Mapping[str, Fields]:
        """Return all of them: {id: fields}."""

    def read_some(self, ctx: Context, ids: Sequence[str]) -> Mapping[str, Fields]:
        """Return those of some ids that are here: {id: fields}."""
        ours = self.read(ctx)
        return {id_: ours[id_] for id_ in ids if id_ in ours}

    def find_clashes(
        self, ctx: Context, planned: Iterable[Record], new: Collection[str]
    ) -> Mapping[str, str]:
        """Say which new records cannot be ours beside all others: {id: reason}.

        :param planned: all that will be here, of all kinds.
        :param new: the ids of those of this kind that are to be created or changed.
        """
        return {}


class SpoolTarget(Writer):
    """Our records of a kind that has very many."""

    @abc.abstractmethod
    def read_id_pages(self, ctx: Context) -> Iterator[Sequence[str]]:
        """Yield the ids of all of them, some at a time."""


def describe_refusal(check: Callable[[], object]) -> str:
    """Return the message with which a check refuses something; "": it does not."""
    try:
        check()
    except errors.Error as error:
        return str(error)
    return ""


@dataclasses.dataclass(frozen=True)
class CatalogTarget(Target):
    """Our records of a kind that the catalog has.

    :ivar record_type: what the catalog has them as.
    :ivar check_one: refuses values that it does not take.
    """

    kind: str
    record_type: Callable[..., Any]
    check_one: Callable[[Any], None]
    list_all: Callable[[Context], Iterable[Any]]
    create_one: Callable[..., Any]
    update_one: Callable[..., Any]
    delete_one: Callable[[Context, str], None]
    #: Names of fields that ``create_one`` has others for.
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why the catalog would not take a record."""
        return describe_refusal(lambda: self.check_one(self.record_type(**_with_id(record))))

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        """Return all of them."""
        return _by_id(self.list_all(ctx))

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some, one after the other."""
        for record in new:
            self.create_one(ctx, id=record.id, **{
                self.renamed.get(name, name): value for name, value in record.fields.items()})

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Change fields of one."""
        self.update_one(ctx, id_, **changes)

    def delete(self, ctx: Context, id_: str) -> None:
        """Delete one, with the limits that are about it."""
        self.delete_one(ctx, id_)


@dataclasses.dataclass(frozen=True)
class _Projects(CatalogTarget):
    """Our projects.

    :ivar max_depth: how many levels their trees may have, where a domain is level 1.
    """

    max_depth: int | None = None

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        """Say why the catalog would not take a project."""
        return super().find_obstacle(record, others) or self._describe_depth(record, others)

    def _describe_depth(self, record: Record, others: Mapping[str, Fields]) -> str:
        if self.max_depth is None:
            return ""
        depth, above = 2, record.fields["parent_id"]
        while above in others and depth <= self.max_depth:
            depth, above = depth + 1, others[above]["parent_id"]
        if depth <= self.max_depth:
            return ""
        return str(TooDeep(record.fields["parent_id"], depth, self.max_depth))


@dataclasses.dataclass(frozen=True)
class _RegisteredLimits(Target):
    catalog: CatalogDriver
    kind = records.REGISTERED_LIMIT

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        return describe_refusal(lambda: registered.parse(_with_id(record)))

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _by_id(registered.list_(ctx))

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        registered.create_many(ctx, self.catalog, [_with_id(record) for record in new])

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        registered.update(ctx, self.catalog, id_, changes)

    def delete(self, ctx: Context, id_: str) -> None:
        registered.delete(ctx, id_)


@dataclasses.dataclass(frozen=True)
class _Limits(Target):
    catalog: CatalogDriver
    model: EnforcementModel
    kind = records.LIMIT

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        return describe_refusal(lambda: limits.parse(_with_id(record)))

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _by_id(limits.list_(ctx))

    def find_clashes(
        self, ctx: Context, planned: Iterable[Record], new: Collection[str]
    ) -> Mapping[str, str]:
        if not (self.model.hierarchical and new):
            return {}
        nodes = {each.id: Node(each.id, None, is_domain=True)
                 for each in self.catalog.domains(ctx)}
        nodes |= {each.id: Node(each.id, each.parent_id) for each in self.catalog.projects(ctx)}
        defaults = {_get_resource(fields): fields["default_limit"]
                    for fields in _by_id(registered.list_(ctx)).values()}
        ours = _by_id(limits.list_(ctx))
        for record in planned:
            if record.kind == records.DOMAIN:
                nodes[record.id] = Node(record.id, None, is_domain=True)
            elif record.kind == records.PROJECT:
                nodes[record.id] = Node(record.id, record.fields["parent_id"])
            elif record.kind == records.REGISTERED_LIMIT:
                defaults[_get_resource(record.fields)] = record.fields["default_limit"]
            elif record.kind == self.kind:
                ours[record.id] = record.fields
        all_limits = {id_: limit_clashes.NodeLimit(
            id_, _get_resource(fields), fields["project_id"] or fields["domain_id"],
            fields["resource_limit"]) for id_, fields in ours.items()}
        return limit_clashes.find_clashes(
            self.model, nodes, defaults,
            [limit for id_, limit in all_limits.items() if id_ not in new],
            [limit for id_, limit in all_limits.items() if id_ in new])

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        limits.create_many(
            ctx, self.catalog, self.model, [_with_id(record) for record in new])

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        _require_mutable(self.kind, id_, changes)
        limits.update(ctx, self.catalog, self.model, id_, changes)

    def delete(self, ctx: Context, id_: str) -> None:
        limits.delete(ctx, self.catalog, self.model, id_)


@dataclasses.dataclass(frozen=True)
class _UserLimits(Target):
    catalog: CatalogDriver
    kind = records.USER_LIMIT

    def find_obstacle(self, record: Record, others: Mapping[str, Fields]) -> str:
        return describe_refusal(lambda: users.parse(_with_id(record)))

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _by_id(users.list_(ctx))

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        users.create_many(ctx, self.catalog, [_with_id(record) for record in new])

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        _require_mutable(self.kind, id_, changes)
        users.update(ctx, id_, changes)

    def delete(self, ctx: Context, id_: str) -> None:
        users.delete(ctx, id_)


def _require_mutable(kind: str, id_: str, changes: Fields) -> None:
    for name in changes:
        if name not in ("resource_limit", "description"):
            raise ImmutableField(kind, id_, name)


def list_targets(catalog: CatalogDriver, model: EnforcementModel) -> list[Target]:
    """Return where records can go, in the order in which they are copied.

    :param catalog: ours; its own records are no targets if another service has them.
    """
    return [
        *(_list_catalog_targets(model) if catalog.local else ()),
        _RegisteredLimits(catalog), _Limits(catalog, model), _UserLimits(catalog)]


def _list_catalog_targets(model: EnforcementModel) -> list[Target]:
    def create_project(ctx: Context, **fields: Any) -> Project:
        return projects.create(ctx, max_depth=model.max_depth, **fields)

    def update_project(ctx: Context, id_: str, **changes: Any) -> Project:
        return project_moves.update_project(ctx, model, id_, **changes)

    return [
        CatalogTarget(records.REGION, Region, regions.check, regions.list_, regions.create,
                      regions.update, cleanup.delete_region),
        CatalogTarget(records.SERVICE, Service, services.check, services.list_, services.create,
                      services.update, cleanup.delete_service, {"type": "service_type"}),
        CatalogTarget(records.ENDPOINT, Endpoint, endpoints.check, endpoints.list_,
                      endpoints.create, endpoints.update, endpoints.delete),
        CatalogTarget(records.DOMAIN, Domain, domains.check, domains.list_, domains.create,
                      domains.update, _delete_domain),
        _Projects(records.PROJECT, Project, projects.check, projects.list_, create_project,
                  update_project, cleanup.delete_project, max_depth=model.max_depth),
    ]


def _delete_domain(ctx: Context, id_: str) -> None:
    """Delete a domain, enabled or not: where it comes from it was disabled before it was deleted.

    :raises StillUsed: projects are in it, which no copy brought.
    """
    with db.write(ctx):
        domains.update(ctx, id_, enabled=False)
        if projects.list_(ctx, domain_id=id_):
            raise StillUsed(records.DOMAIN, id_, "projects are in")
        cleanup.delete_domain(ctx, id_)


def _get_resource(fields: Fields) -> limit_clashes.Resource:
    return fields["service_id"], fields["region_id"], fields["resource_name"]


def _by_id(present: Iterable[Any]) -> dict[str, Fields]:
    return {record.id: _get_fields(record) for record in present}


def _get_fields(record: Any) -> Fields:
    fields = dataclasses.asdict(record)
    del fields["id"]
    return fields


def _with_id(record: Record) -> Fields:
    return {"id": record.id, **record.fields}
