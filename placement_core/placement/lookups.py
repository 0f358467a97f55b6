"""Look-ups of providers by the uuid that a client sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import PreparedRead, Session
from placement_core.placement import errors, tables

_providers = tables.resource_providers

_BY_UUID = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.generation,
    _providers.c.parent_provider_id, _providers.c.root_provider_id, _providers.c.name,
).where(_providers.c.uuid == sa.bindparam("uuid"))
_GENERATION = sa.select(_providers.c.generation).where(_providers.c.id == sa.bindparam("id"))


def is_provider_uuid(text: str) -> bool:
    """Say whether a provider can have ``text`` as its uuid."""
    return 0 < len(text) <= 36 and text.isascii() and "\0" not in text


def get_provider(session: Session, uuid: str, *, purpose: str = "") -> sa.Row[Any]:
    """Return (id, uuid, generation, parent_provider_id, root_provider_id, name).

    :param purpose: ends the message of the error.
    :raises errors.ProviderNotFound: none has exactly this uuid.
    """
    if is_provider_uuid(uuid):
        row = session.execute(_BY_UUID, {"uuid": uuid}).first()
        # An adopted MySQL table compares without regard to case.
        if row is not None and row.uuid == uuid:
            return row
    raise errors.ProviderNotFound(uuid, purpose)


def get_generation(session: Session, provider_id: int) -> int:
    """Return the generation of a provider whose row the session holds."""
    generation: int = session.execute(_GENERATION, {"id": provider_id}).scalar_one()
    return generation


def fetch_of_provider(ctx: Context, read: PreparedRead, uuid: str) -> Sequence[Any]:
    """Return the rows that a statement selects of a provider.

    :param read: outer joins from the provider of ``:uuid``, whose own row
        therefore comes in any case; its first column is the provider's uuid.
    :raises errors.ProviderNotFound: none has exactly this uuid.
    """
    if is_provider_uuid(uuid):
        rows = read.fetch(ctx, {"uuid": uuid})
        if rows and rows[0].uuid == uuid:
            return rows
    raise errors.ProviderNotFound(uuid)
