"""What the placement room refuses, in the words that clients know.

``str(error)`` is the whole of the specific message on the wire; ``code`` is the
stable code of spec placement_api §1.3. Callers that must react to one of these
look at the class and its attributes, never at the text.
"""

from __future__ import annotations

from collections.abc import Collection

from placement_core import errors

CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_IN_USE = "placement.inventory.inuse"

#: What a provider write says whose generation is not the present one.
STALE_INVENTORY_GENERATION = "resource provider generation conflict"
STALE_PROVIDER_GENERATION = (
    "Resource provider's generation already changed. Please update the generation and try again."
)

# Providers ------------------------------------------------------------------


class ProviderNotFound(errors.NotFound):
    """The resource provider in the address does not exist."""

    def __init__(self, uuid: str, purpose: str = "") -> None:
        super().__init__(" ".join(filter(None, (
            f"No resource provider with uuid {uuid} found", purpose))))
        self.uuid = uuid


class ProviderGenerationConflict(errors.Conflict):
    """Somebody else changed the provider since the caller looked."""

    code = CONCURRENT_UPDATE

    def __init__(self, uuid: str, message: str = STALE_PROVIDER_GENERATION) -> None:
        super().__init__(message)
        self.uuid = uuid


class DuplicateProvider(errors.Conflict):
    """Another provider has that name or uuid.

    :ivar clash: what is taken, as the message shows it.
    """

    code = "placement.duplicate_name"

    def __init__(self, clash: str) -> None:
        super().__init__(f"Conflicting resource provider {clash} already exists.")
        self.clash = clash


class ProviderNotCreated(errors.Invalid):
    """A new provider makes no sense as it was described."""

    def __init__(self, name: str, uuid: str, reason: str) -> None:
        super().__init__(
            f'Unable to create resource provider "{name}", {uuid}: '
            f"Object action create failed because: {reason}")
        self.uuid = uuid
        self.reason = reason


class ProviderNotSaved(errors.Invalid):
    """A provider cannot become what the caller described."""

    def __init__(self, uuid: str, reason: str) -> None:
        super().__init__(
            f"Unable to save resource provider {uuid}: "
            f"Object action update failed because: {reason}")
        self.uuid = uuid
        self.reason = reason


class ProviderHasChildren(errors.Conflict):
    """A provider with children cannot be removed."""

    code = "placement.resource_provider.cannot_delete_parent"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Unable to delete parent resource provider {uuid}: "
                         "It has child resource providers.")
        self.uuid = uuid


class ProviderInUse(errors.Conflict):
    """A provider with allocations cannot be removed."""

    code = "placement.resource_provider.inuse"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Unable to delete resource provider {uuid}: "
                         "Resource provider has allocations.")
        self.uuid = uuid


# Inventories ----------------------------------------------------------------


class InventoryNotFound(errors.NotFound):
    """The provider has no inventory of the class in the address."""

    def __init__(self, uuid: str, resource_class: str) -> None:
        super().__init__(f"No inventory of class {resource_class} for {uuid}")
        self.uuid = uuid
        self.resource_class = resource_class


class InventoryNotFoundForDelete(errors.NotFound):
    """There is no inventory of the class in the address to remove."""

    def __init__(self, uuid: str, resource_class: str, reason: str) -> None:
        super().__init__(f"No inventory of class {resource_class} found for delete: {reason}")
        self.uuid = uuid
        self.resource_class = resource_class


class InventoryNotThere(errors.Invalid):
    """A class that exists has no inventory record that could be replaced."""

    def __init__(self, uuid: str, resource_class: str) -> None:
        super().__init__(
            f"No inventory record with resource class for resource provider {uuid}: "
            f"No inventory of class {resource_class} found.")
        self.uuid = uuid
        self.resource_class = resource_class


class InventoryExists(errors.Conflict):
    """The provider already has inventory of that class."""

    code = CONCURRENT_UPDATE

    def __init__(self, uuid: str, resource_class: str) -> None:
        super().__init__(f"Update conflict: Inventory for '{resource_class}' on "
                         f"resource provider '{uuid}' already exists.")
        self.uuid = uuid
        self.resource_class = resource_class


class InvalidInventory(errors.Invalid):
    """The values of an inventory leave no usable capacity, or are no numbers.

    :param verb: ``create`` or ``update``.
    """

    def __init__(self, uuid: str, resource_class: str, reason: str, *, verb: str) -> None:
        super().__init__(
            f"Unable to {verb} inventory for resource provider {uuid}: Invalid inventory for "
            f"'{resource_class}' on resource provider '{uuid}'. {reason}")
        self.uuid = uuid
        self.resource_class = resource_class
        self.reason = reason


class InventoryInUse(errors.Conflict):
    """Allocations stand against inventory that was to be removed.

    :ivar resource_classes: the classes, in the order of their ids.
    """

    code = INVENTORY_IN_USE

    def __init__(
        self, uuid: str, resource_classes: Collection[str], *, prefix: str = "",
        code: str = INVENTORY_IN_USE,
    ) -> None:
        super().__init__(f"{prefix}Inventory for '{', '.join(resource_classes)}' on "
                         f"resource provider '{uuid}' in use.")
        self.uuid = uuid
        self.resource_classes = tuple(resource_classes)
        self.code = code


# Resource classes -----------------------------------------------------------


class ResourceClassNotFound(errors.NotFound):
    """The resource class in the address does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No such resource class {name}.")
        self.name = name


class UnknownResourceClass(errors.Invalid):
    """A resource class named in the request does not exist.

    :param prefix: what could not be done because of it.
    """

    def __init__(self, name: str, *, prefix: str = "") -> None:
        super().__init__(f"{prefix}No such resource class {name}.")
        self.name = name


class InvalidResourceClassName(errors.Invalid):
    """A name that no custom resource class can have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"JSON does not validate: {name!r} does not match "
                         "'^CUSTOM_[A-Z0-9_]+$' or is longer than 255 characters")
        self.name = name


class ResourceClassExists(errors.Conflict):
    """Another resource class has that name."""

    def __init__(self, name: str, *, creating: bool) -> None:
        super().__init__(f"Conflicting resource class already exists: {name}" if creating
                         else f"Resource class already exists: {name}")
        self.name = name


class StandardResourceClass(errors.Invalid):
    """Standard resource classes can be neither renamed nor removed."""

    def __init__(self, name: str, *, deleting: bool) -> None:
        super().__init__(
            f"Error in delete resource class: Cannot delete standard resource class {name}."
            if deleting else f"Cannot update standard resource class {name}")
        self.name = name


class ResourceClassInUse(errors.Conflict):
    """Inventory (or an allocation) of the class exists."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Error in delete resource class: Cannot delete resource class {name}. "
                         "Class is in use in inventory.")
        self.name = name


# Traits and aggregates ------------------------------------------------------


class TraitNotFound(errors.NotFound):
    """The trait in the address does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No such trait(s): {name}.")
        self.name = name


class UnknownTraits(errors.Invalid):
    """Traits that a provider was to get do not exist."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"No such trait {', '.join(names)}")
        self.names = tuple(names)


class InvalidTraitName(errors.Invalid):
    """A name that no custom trait can have."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start "
            'with the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"')
        self.name = name


class StandardTrait(errors.Invalid):
    """Standard traits cannot be removed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Cannot delete standard trait {name}.")
        self.name = name


class TraitInUse(errors.Conflict):
    """A provider has the trait."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The trait {name} is in use by a resource provider.")
        self.name = name


class InvalidAggregate(errors.Invalid):
    """A spelling of an aggregate's uuid that cannot be kept as it was given."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Aggregate {uuid!r} is not a uuid of at most 36 characters.")
        self.uuid = uuid


# Consumers and allocations ----------------------------------------------------


class ConsumerGenerationConflict(errors.Conflict):
    """Somebody else changed the consumer since the caller looked.

    :ivar actual: its generation now; None: there is no such consumer.
    :ivar given: what the caller sent.
    """

    code = CONCURRENT_UPDATE

    def __init__(self, uuid: str, actual: int | None, given: int | None) -> None:
        super().__init__(
            f"consumer generation conflict - expected {'null' if actual is None else actual} "
            f"but got {given}")
        self.uuid = uuid
        self.actual = actual
        self.given = given


class MalformedConsumer(errors.Invalid):
    """A consumer cannot be called that."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Malformed consumer_uuid: {uuid}")
        self.uuid = uuid


class InvalidOwner(errors.Invalid):
    """A project, user or consumer type that no database can keep."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} cannot be the name of a project, user or consumer type.")
        self.name = name


class NoAllocations(errors.NotFound):
    """The consumer in the address holds nothing."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"No allocations for consumer '{uuid}'")
        self.uuid = uuid


class AllocationForUnknownProvider(errors.Invalid):
    """An allocation names a provider that does not exist."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Allocation for resource provider '{uuid}' that does not exist.")
        self.uuid = uuid


class CannotAllocate(errors.Conflict):
    """An amount cannot be had from a provider.

    :ivar uuid: the provider.
    :ivar asked: how much more than before of the class was asked of the provider;
        for ``ConstraintsViolated`` one consumer's amount.
    """

    def __init__(self, uuid: str, resource_class: str, asked: int, reason: str) -> None:
        super().__init__(f"Unable to allocate inventory: {reason}")
        self.uuid = uuid
        self.resource_class = resource_class
        self.asked = asked


class InventoryMissing(CannotAllocate):
    """The provider has no inventory of the class."""

    def __init__(self, uuid: str, resource_class: str, asked: int) -> None:
        super().__init__(uuid, resource_class, asked,
                         f"Inventory for '{resource_class}' on resource provider '{uuid}' "
                         "invalid.")


class ConstraintsViolated(CannotAllocate):
    """The amount is below min_unit, above max_unit or no multiple of step_size."""

    def __init__(
        self, uuid: str, resource_class: str, asked: int, *,
        min_unit: int, max_unit: int, step_size: int,
    ) -> None:
        super().__init__(
            uuid, resource_class, asked,
            f"Unable to create allocation for '{resource_class}' on resource provider "
            f"'{uuid}'. The requested amount would violate inventory constraints. (Asked "
            f"{asked}; min_unit {min_unit}, max_unit {max_unit}, step_size {step_size}.)")
        self.min_unit = min_unit
        self.max_unit = max_unit
        self.step_size = step_size


class CapacityExceeded(CannotAllocate):
    """What is free of the class on the provider is less than what was asked."""

    def __init__(
        self, uuid: str, resource_class: str, asked: int, *, used: int, capacity: int
    ) -> None:
        super().__init__(
            uuid, resource_class, asked,
            f"Unable to create allocation for '{resource_class}' on resource provider "
            f"'{uuid}'. The requested amount would exceed the capacity. (Asked {asked} more; "
            f"{used} of {capacity} are used.)")
        self.used = used
        self.capacity = capacity


class ProviderReserved(errors.Conflict):
    """A claim, or a change of trees, is about providers that are kept for reservations.

    Not ``CONCURRENT_UPDATE``: it is of no use to try again.
    """

    code = "reservations.fenced"


class ReshapedProviderNotFound(errors.Invalid):
    """A reshape names a provider that does not exist."""

    code = "placement.resource_provider.not_found"

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Resource provider {uuid} in inventories not found: "
                         f"No resource provider with uuid {uuid} found")
        self.uuid = uuid


class ReshapedProviderConflict(ProviderGenerationConflict):
    """Somebody else changed a provider since the author of a reshape looked.

    :ivar actual: its generation now.
    :ivar given: what the caller sent.
    """

    def __init__(self, uuid: str, actual: int, given: int) -> None:
        super().__init__(uuid, f"{STALE_INVENTORY_GENERATION} for provider {uuid}: "
                               f"actual: {actual}, given: {given}")
        self.actual = actual
        self.given = given


class InvalidMarker(errors.Invalid):
    """The marker of a page is none that a page before could have named."""

    code = "placement.invalid_marker"

    def __init__(self, marker: str) -> None:
        super().__init__(f"The marker {marker} does not name anything to go on from.")
        self.marker = marker
