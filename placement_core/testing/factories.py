"""Create records for tests, with the domain functions.

Every function takes a context first, chooses values that a test does not give, and returns what
the domain function returns.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Mapping

from placement_core.context import Context
from placement_core.placement import (
    aggregates as aggregate_functions,
    inventories as inventory_functions,
    providers,
    resource_classes,
    traits as trait_functions,
)
from placement_core.placement.records import InventoryValues, Provider

_numbers = itertools.count(1)


def provider(
    ctx: Context, name: str | None = None, *, uuid: str | None = None,
    parent: Provider | str | None = None,
    inventory: Mapping[str, int | InventoryValues] | None = None,
    traits: Collection[str] = (), aggregates: Collection[str] = (),
) -> Provider:
    """Create a provider with inventories, traits and aggregates.

    Custom classes and traits are created if they do not exist.

    :param parent: a provider or its uuid.
    :param inventory: {resource class: total, or all values}.
    :param aggregates: uuids.
    :returns: the provider in its final state.
    """
    parent_uuid = parent.uuid if isinstance(parent, Provider) else parent
    made = providers.create(
        ctx, name=name or f"provider-{next(_numbers)}", uuid=uuid, parent_uuid=parent_uuid)
    if inventory:
        for resource_class in inventory:
            if resource_class.startswith("CUSTOM_"):
                resource_classes.ensure(ctx, resource_class)
        inventory_functions.replace(
            ctx, made.uuid, {key: _values(value) for key, value in inventory.items()},
            generation=providers.get(ctx, made.uuid).generation, allow_fully_reserved=True)
    if traits:
        for trait in traits:
            if trait.startswith("CUSTOM_"):
                trait_functions.ensure(ctx, trait)
        trait_functions.replace_for_provider(
            ctx, made.uuid, traits, generation=providers.get(ctx, made.uuid).generation)
    if aggregates:
        aggregate_functions.replace_for_provider(ctx, made.uuid, aggregates, generation=None)
    return providers.get(ctx, made.uuid)


def sharing_provider(
    ctx: Context, name: str | None = None, *, inventory: Mapping[str, int | InventoryValues],
    aggregates: Collection[str], traits: Collection[str] = (),
) -> Provider:
    """Create a provider that shares its inventory with its aggregates."""
    return provider(ctx, name, inventory=inventory, aggregates=aggregates,
                    traits=["MISC_SHARES_VIA_AGGREGATE", *traits])


def new_uuid() -> str:
    """Return a random uuid."""
    return str(uuid.uuid4())


def _values(value: int | InventoryValues) -> InventoryValues:
    return value if isinstance(value, InventoryValues) else InventoryValues(total=value)
