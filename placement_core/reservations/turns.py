"""The turns of a lease: it starts, it will end soon, it ends.

Each is one transaction, which also writes down that its event is done: so it happens
once, whoever tries. The lease's row is taken first, then its event's; ``end`` before its
time takes the pool's row before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from placement_core.context import Context
from placement_core.plugin_api.reservations import ReservationPlugin
from placement_core.reservations.effects import Effects


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """An event that somebody carries out.

    :ivar attempt: which one this is of its owner's: of all who tried, one has it.
    """

    event_id: str
    lease_id: str
    event_type: str
    owner: str
    attempt: int


class Turns:
    """Carries out the events of leases.

    :param plugins: by resource type.
    """

    def __init__(self, plugins: Mapping[str, ReservationPlugin], effects: Effects) -> None:
        self._plugins = plugins
        self._effects = effects

    def carry_out(self, ctx: Context, turn: Turn) -> bool:
        """Do what an event says, and mark it as done, in one transaction.

        :returns: False: somebody else has it, or it is not to be done any more; nothing
            was written.
        :raises errors.Error: it could not be done now; nothing was written.
        """
        raise NotImplementedError
