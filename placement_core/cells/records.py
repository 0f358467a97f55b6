"""What the room's functions return."""

from __future__ import annotations

import dataclasses
import datetime

from placement_core.masking import mask_url


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A cell mapping: a part of the cloud that has a database of its own.

    :ivar transport_url: where its message bus is; kept for nova, not used.
    :ivar disabled: nothing new is scheduled there; it is counted all the same.
    """

    id: int
    uuid: str
    name: str
    transport_url: str = dataclasses.field(repr=False)
    database_connection: str = dataclasses.field(repr=False)
    disabled: bool

    @property
    def masked_connection(self) -> str:
        """The database's URL without its password."""
        return mask_url(self.database_connection)

    @property
    def masked_transport(self) -> str:
        """The message bus's URL without its passwords."""
        return mask_url(self.transport_url)

    @property
    def title(self) -> str:
        """Its name; or its uuid, because nova lets a cell have no name."""
        return self.name or self.uuid


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """An instance mapping: which cell an instance is in, and whose it is.

    :ivar id: rises with the order of creation.
    :ivar user_id: None: not migrated yet.
    :ivar cell_uuid: None: no cell was chosen yet.
    :ivar queued_for_delete: None: not migrated yet.
    """

    uuid: str
    project_id: str
    user_id: str | None
    cell_uuid: str | None
    queued_for_delete: bool | None
    id: int
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
