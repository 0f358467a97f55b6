"""Records that the functions of this package return."""

from __future__ import annotations

import dataclasses
import datetime

from placement_core.masking import mask_url


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A cell mapping: a part of the cloud with a database of its own.

    :ivar transport_url: the URL of its message bus; stored for nova, not used.
    :ivar disabled: nova schedules no new instances there; its instances count all the same.
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
        """The cell's name, or its uuid if it has no name, which nova allows."""
        return self.name or self.uuid


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """An instance mapping: the cell, project and user of an instance.

    :ivar user_id: None: the row is not migrated yet.
    :ivar cell_uuid: None: no cell was chosen yet.
    :ivar queued_for_delete: None: the row is not migrated yet.
    :ivar id: increases in the order of creation.
    """

    uuid: str
    project_id: str
    user_id: str | None
    cell_uuid: str | None
    queued_for_delete: bool | None
    id: int
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
