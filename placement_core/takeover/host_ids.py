"""How Blazar spells the ids of hosts: some are the uuids of their resource providers."""

from __future__ import annotations

from collections.abc import Callable

from placement_core.context import Context
from placement_core.takeover import origins
from placement_core.takeover.blazar_tables import SOURCE
from placement_core.takeover.records import HOST

#: Returns the id of a host there: (its id here, the uuid of its provider).
Spell = Callable[[int, str], str]


def read_spelling(ctx: Context) -> Spell:
    """Return what spells ids of hosts as they were when they were copied."""
    copied = origins.list_copied(ctx, SOURCE, [HOST])[HOST]

    def spell(host_id: int, provider_uuid: str) -> str:
        return provider_uuid if provider_uuid in copied else str(host_id)

    return spell
