"""What a source has, and how it compares with ours."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from placement_core.plugin_api.reservations import ReservationPlugin, Size

#: Kinds of records.
REGION, SERVICE, ENDPOINT, DOMAIN, PROJECT = (
    "region", "service", "endpoint", "domain", "project")
REGISTERED_LIMIT, LIMIT, USER_LIMIT = "registered limit", "limit", "user limit"
HOST_PROPERTY, HOST, LEASE = "host property", "host", "lease"


def name_many(kind: str) -> str:
    """Return what several records of a kind are called."""
    return f"{kind[:-1]}ies" if kind.endswith("ty") else f"{kind}s"


#: The fields of a record, by name.
Fields = Mapping[str, Any]


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
    #: It means nothing in the source either.
    SKIPPED = "skipped"
    #: It cannot be copied as it is.
    REFUSED = "refused"


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
    """A record of a source, and what becomes of it.

    :ivar reason: why, if it is skipped or refused; otherwise the notes on it.
    :ivar differences: {field: (ours, the source's)}, if it is updated.
    :ivar record: what is to be ours; None if nothing is.
    """

    kind: str
    id: str
    name: str
    outcome: Outcome
    reason: str = ""
    differences: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    record: Record | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """All of a source, in the order in which it can be copied.

    :ivar records: what is to be ours.
    :ivar left: what is not: skipped or refused.
    """

    records: Sequence[Record]
    left: Sequence[Item]


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
    :ivar providers: the roots of the trees of resource providers, by name.
    :ivar reservation_plugins: those that are installed, by resource type.
    """

    service_id: str | None
    region_id: str | None
    project_ids: Collection[str]
    providers: Mapping[str, RootProvider] = dataclasses.field(default_factory=dict)
    reservation_plugins: Mapping[str, ReservationPlugin] = dataclasses.field(
        default_factory=dict)
