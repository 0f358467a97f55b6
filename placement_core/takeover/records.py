"""What a source has, and how it compares with ours."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placement_core.plugin_api.reservations import ReservationPlugin, Size

if TYPE_CHECKING:
    from placement_core.takeover.spools import Spool

#: Kinds of records.
REGION, SERVICE, ENDPOINT, DOMAIN, PROJECT = (
    "region", "service", "endpoint", "domain", "project")
REGISTERED_LIMIT, LIMIT, USER_LIMIT = "registered limit", "limit", "user limit"
RESOURCE_CLASS, TRAIT, PROVIDER, CONSUMER = (
    "resource class", "trait", "resource provider", "consumer")
CELL, INSTANCE, SERVER_GROUP = "cell", "instance mapping", "server group"
#: What nova keeps for itself.
HOST_MAPPING, GROUP_POLICY, BUILD_REQUEST = (
    "host mapping", "server group policy", "build request")
HOST_PROPERTY, HOST, LEASE = "host property", "host", "lease"
#: What Blazar keeps of hosts and addresses besides.
HOST_INVENTORY, HOST_TRAIT, FLOATING_IP = "host inventory", "host trait", "floating IP"

#: The fields that are URLs, and may have passwords.
URLS: Mapping[str, Collection[str]] = {CELL: ("database_connection", "transport_url")}

#: The fields of a record, by name.
Fields = Mapping[str, Any]


def pluralize(kind: str) -> str:
    """Return what several records of a kind are called."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


_NONE: Mapping[str, Any] = types.MappingProxyType({})


class Outcome(enum.StrEnum):
    """What a copy makes, or would make, of a record of a source."""

    #: Ours lacks it.
    CREATE = "create"
    #: Ours has other values.
    UPDATE = "update"
    EQUAL = "equal"
    #: It was copied, and the source does not have it any more.
    GONE = "gone"
    #: It was gone, and is deleted here, too.
    PRUNED = "pruned"
    #: It means nothing in the source either, or nothing here.
    SKIPPED = "skipped"
    #: It is copied, or is here; but people should know something about it.
    WARNING = "warning"
    #: It cannot be copied as it is.
    REFUSED = "refused"
    #: Only in comparisons, where such records are counted: it is refused, or has no place here.
    LEFT_OUT = "left out"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A record of a source that is to be ours.

    :ivar name: what people call it.
    :ivar notes: what people are to know of it, although it can be copied.
    :ivar references: (kind, id) of the records that have to be here before it, in addition to
        those that its fields name.
    """

    kind: str
    id: str
    name: str
    fields: Fields
    notes: Sequence[str] = ()
    references: Sequence[tuple[str, str]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A record of a source, and what becomes of it; or many records of which the same is said.

    :ivar id: "": it is about many records, or about a kind as a whole.
    :ivar reason: why, if it is skipped or refused; otherwise the notes on it.
    :ivar differences: {field: (ours, the source's)}, if it is updated.
    :ivar record: what is to be ours; None if nothing is.
    :ivar count: how many records it is about.
    :ivar has_no_place: whether it is skipped although it means something in the source, because
        there is no place for it here.
    """

    kind: str
    id: str
    name: str
    outcome: Outcome
    reason: str = ""
    differences: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=lambda: _NONE)
    record: Record | None = None
    count: int = 1
    has_no_place: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """All of a source, in the order in which it can be copied.

    :ivar records: what is to be ours.
    :ivar left: what is not: skipped or refused; and warnings.
    :ivar spools: the records of kinds that have very many, behind all others; of each kind, one
        source at most has any.
    """

    records: Sequence[Record]
    left: Sequence[Item]
    spools: Sequence[Spool] = ()

    def __add__(self, other: Contents) -> Contents:
        """Return both, one behind the other."""
        return Contents(
            [*self.records, *other.records], [*self.left, *other.left],
            [*self.spools, *other.spools])


@dataclasses.dataclass(frozen=True, slots=True)
class RootProvider:
    """The root of a tree of resource providers.

    :ivar size: what the inventories of its tree add up to.
    """

    uuid: str
    size: Size


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What is here, or will be, when a source is copied.

    :ivar service_id: the service whose limits count ([quota] service_type); None: the catalog has
        none, or several.
    :ivar region_id: the region whose limits count, if one does.
    :ivar project_ids: all projects.
    :ivar dialect: of our database.
    :ivar cores_name: the name of limits that count shared and dedicated processors together, if
        one does ([quota] resource_map).
    :ivar has_dedicated: whether an inventory has dedicated processors.
    :ivar keeps_cells: whether cells and instances are in our own database.
    :ivar required_fields: those that instance mappings must have here, and may lack in nova.
    :ivar fills_templates: whether [cells] template_connection is set.
    :ivar providers: the roots of the trees of resource providers, by name.
    :ivar reservation_plugins: those that are installed, by resource type.
    """

    service_id: str | None
    region_id: str | None
    project_ids: Collection[str]
    dialect: str = ""
    cores_name: str | None = None
    has_dedicated: bool = False
    keeps_cells: bool = True
    required_fields: Collection[str] = ()
    fills_templates: bool = False
    providers: Mapping[str, RootProvider] = dataclasses.field(default_factory=dict)
    reservation_plugins: Mapping[str, ReservationPlugin] = dataclasses.field(
        default_factory=dict)
