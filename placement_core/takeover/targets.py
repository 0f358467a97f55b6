"""Where the records of a source go: what we have of a kind, and how one is made."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from placement_core.catalog import domains, endpoints, projects, regions, services
from placement_core.context import Context
from placement_core.limits import cleanup, limits, project_moves, registered, users
from placement_core.plugin_api.catalog import CatalogDriver, Project
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.takeover import records
from placement_core.takeover.errors import ImmutableField
from placement_core.takeover.records import Fields, Record


class Target(abc.ABC):
    """Our records of a kind. Methods join the transaction of ``ctx`` if there is one.

    :ivar kind: theirs.
    """

    kind: str

    @abc.abstractmethod
    def read(self, ctx: Context) -> Mapping[str, Fields]:
        """Return all of them: {id: fields}."""

    @abc.abstractmethod
    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        """Create some, or none.

        :raises errors.Error: one cannot be created.
        """

    def find_obstacle(self, ours: Fields, changes: Fields) -> str:
        """Say why fields of one, as ``read`` returned it, cannot be changed; "": they can."""
        return ""

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


@dataclasses.dataclass(frozen=True)
class CatalogTarget(Target):
    """Our records of a kind that the catalog has."""

    kind: str
    list_all: Callable[[Context], Iterable[Any]]
    create_one: Callable[..., Any]
    update_one: Callable[..., Any]
    delete_one: Callable[[Context, str], None]
    #: Names of fields that ``create_one`` has others for.
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

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
class _RegisteredLimits(Target):
    catalog: CatalogDriver
    kind = records.REGISTERED_LIMIT

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

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _by_id(limits.list_(ctx))

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
        CatalogTarget(records.REGION, regions.list_, regions.create, regions.update,
                      cleanup.delete_region),
        CatalogTarget(records.SERVICE, services.list_, services.create, services.update,
                      cleanup.delete_service, {"type": "service_type"}),
        CatalogTarget(records.ENDPOINT, endpoints.list_, endpoints.create, endpoints.update,
                      endpoints.delete),
        CatalogTarget(records.DOMAIN, domains.list_, domains.create, domains.update,
                      cleanup.delete_domain),
        CatalogTarget(records.PROJECT, projects.list_, create_project, update_project,
                      cleanup.delete_project),
    ]


def _by_id(present: Iterable[Any]) -> dict[str, Fields]:
    return {record.id: _get_fields(record) for record in present}


def _get_fields(record: Any) -> Fields:
    fields = dataclasses.asdict(record)
    del fields["id"]
    return fields


def _with_id(record: Record) -> Fields:
    return {"id": record.id, **record.fields}
