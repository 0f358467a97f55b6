"""What the functions of this room return: frozen values, no sessions behind them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

#: The type under which clients see consumers without one.
UNKNOWN_TYPE = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider. ``parent_uuid`` is None for the root of a tree."""

    id: int
    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryValues:
    """What a client may set of an inventory, with the API's defaults."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory record of one class on one provider."""

    resource_class: str
    values: InventoryValues
    used: int = 0
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderInventories:
    """All inventories of a provider, and the generation they were read at."""

    generation: int
    inventories: tuple[Inventory, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A trait or a resource class: a name with times."""

    name: str
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderTraits:
    """The traits of a provider, and the generation they were read at."""

    generation: int
    traits: tuple[Named, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAggregates:
    """The aggregates of a provider, and the generation they were read at."""

    generation: int
    uuids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderUsages:
    """Used amounts by class, for every class with inventory."""

    generation: int
    usages: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class TypeUsage:
    """What the consumers of one type use; ``consumer_type`` None: never set."""

    consumer_type: str | None
    consumer_count: int
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAllocation:
    """What one consumer holds on one provider."""

    resources: Mapping[str, int]
    provider_generation: int
    created_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """All a consumer holds, by provider uuid; who owns it."""

    consumer_uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    generation: int
    providers: Mapping[str, ProviderAllocation]


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerShare:
    """What one consumer holds on the provider that was asked for."""

    consumer_generation: int
    resources: Mapping[str, int]
    created_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAllocations:
    """All allocations on a provider, by consumer uuid."""

    generation: int
    consumers: Mapping[str, ConsumerShare]


#: What a reshape makes: {provider uuid: (its generation as the caller saw it,
#: {resource class: values})}
NewInventories: TypeAlias = Mapping[str, tuple[int, Mapping[str, InventoryValues]]]


class AnyGeneration(enum.Enum):
    """The type of ``ANY_GENERATION``, which no number of a client equals."""

    ANY = "any"


#: As ``AllocationWrite.expected_generation``: whatever it is now (below 1.28).
ANY_GENERATION: Final = AnyGeneration.ANY


@dataclasses.dataclass(frozen=True, slots=True)
class AllocationWrite:
    """The whole of what a consumer shall hold from now on.

    :ivar allocations: {provider uuid: {resource class: amount ≥ 1}}; empty
        takes everything away.
    :ivar expected_generation: what the caller last saw; None for a new
        consumer; ``ANY_GENERATION`` replaces whatever is there.
    :ivar consumer_type: None leaves the type as it is.
    """

    consumer_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    project_id: str
    user_id: str
    consumer_type: str | None = None
    expected_generation: int | AnyGeneration | None = ANY_GENERATION
