"""Where Placement's records go: resource classes, traits, providers, consumers.

``write_providers`` and ``write_consumers`` make ours exactly what records say, and may be called
for a single one; ``make_provider_fields`` and ``make_consumer_fields`` say what ours are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import os_resource_classes
import os_traits

from placement_core import db
from placement_core.context import Context
from placement_core.placement import (
    provider_copies,
    providers,
    resource_classes,
    traits,
)
from placement_core.placement.allocations import consumer_copies
from placement_core.placement.allocations.consumer_copies import ConsumerCopy
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.provider_copies import ProviderCopy
from placement_core.takeover import records
from placement_core.takeover.records import Fields, Record
from placement_core.takeover.targets import Target

#: How many providers or consumers one transaction writes.
_BATCH = 500


def list_targets(owners: Owners) -> list[Target]:
    """Return where records of Placement go, in the order in which they are copied.

    :param owners: of consumers that were never recorded here.
    """
    return [_ResourceClasses(), _Traits(), _Providers(), _Consumers(owners)]


def write_providers(ctx: Context, new: Sequence[Record]) -> None:
    """Make our providers exactly what records say, generations included.

    :raises errors.Error: one cannot be so; none is changed.
    """
    provider_copies.write(ctx, [
        ProviderCopy(
            record.id, record.fields["name"], record.fields["generation"],
            record.fields["parent"], record.fields["inventories"], record.fields["traits"],
            record.fields["aggregates"], record.fields.get("created_at")) for record in new])


def write_consumers(ctx: Context, new: Sequence[Record]) -> None:
    """Make our consumers exactly what records say, generations included.

    One that holds nothing is deleted.

    :raises errors.Error: one cannot be so; none is changed.
    """
    consumer_copies.write(ctx, [
        ConsumerCopy(
            record.id, record.fields["project_id"], record.fields["user_id"],
            record.fields["consumer_type"], record.fields["generation"],
            record.fields["allocations"], record.fields.get("created_at")) for record in new])


def delete_consumers(ctx: Context, uuids: Collection[str]) -> None:
    """Delete consumers, and all that they hold; the generations of providers stay."""
    consumer_copies.write(ctx, [
        ConsumerCopy(uuid, "", "", None, 0, {}) for uuid in sorted(uuids)])


def make_provider_fields(provider: ProviderCopy) -> Fields:
    """Return the fields of the record of a provider."""
    return {
        "name": provider.name, "generation": provider.generation,
        "parent": provider.parent_uuid, "inventories": provider.inventories,
        "traits": provider.traits, "aggregates": provider.aggregates}


def make_consumer_fields(consumer: ConsumerCopy) -> Fields:
    """Return the fields of the record of a consumer."""
    return {
        "project_id": consumer.project_id, "user_id": consumer.user_id,
        "consumer_type": consumer.consumer_type, "generation": consumer.generation,
        "allocations": consumer.allocations}


class _ResourceClasses(Target):
    kind = records.RESOURCE_CLASS

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        standard = frozenset(os_resource_classes.STANDARDS)
        return {each.name: {} for each in resource_classes.list_(ctx)
                if each.name not in standard}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        with db.write(ctx) as session:
            for record in new:
                resource_classes.find_or_insert(session, record.id)

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Do nothing: there is only a name."""

    def delete(self, ctx: Context, id_: str) -> None:
        resource_classes.delete(ctx, id_)


class _Traits(Target):
    kind = records.TRAIT

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        standard = frozenset(os_traits.get_traits())
        return {each.name: {} for each in traits.list_(ctx) if each.name not in standard}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        traits.insert_missing(ctx, [record.id for record in new])

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        """Do nothing: there is only a name."""

    def delete(self, ctx: Context, id_: str) -> None:
        traits.delete(ctx, id_)


class _Providers(Target):
    kind = records.PROVIDER
    batch = _BATCH
    replaces = True

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return {provider.uuid: make_provider_fields(provider)
                for provider in provider_copies.list_all(ctx)}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        write_providers(ctx, new)

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        provider = provider_copies.get(ctx, id_)
        if provider is not None:
            write_providers(ctx, [Record(
                self.kind, id_, "", {**make_provider_fields(provider), **changes})])

    def delete(self, ctx: Context, id_: str) -> None:
        providers.delete(ctx, id_)


@dataclasses.dataclass(frozen=True)
class _Consumers(Target):
    owners: Owners
    kind = records.CONSUMER
    batch = _BATCH
    replaces = True

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return {consumer.uuid: make_consumer_fields(consumer)
                for consumer in consumer_copies.list_all(ctx, self.owners)}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        write_consumers(ctx, new)

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        consumer = consumer_copies.get(ctx, id_, self.owners)
        if consumer is not None:
            write_consumers(ctx, [Record(
                self.kind, id_, "", {**make_consumer_fields(consumer), **changes})])

    def delete(self, ctx: Context, id_: str) -> None:
        delete_consumers(ctx, [id_])
