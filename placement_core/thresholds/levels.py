"""What is measured, and which threshold a measurement has reached."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from typing import Literal

Kind = Literal["limit", "capacity"]

#: The namespace of the uuids of subjects.
_NAMESPACE = uuid.UUID("6d0a7cf2-41a5-5c57-9f30-0c6cf8be25c1")
#: The level of a usual request of which too few fit.
SHORT = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is measured.

    :ivar kind: ``limit``: usage against a limit. ``capacity``: how many more of a usual request
        fit.
    :ivar node_id: the project or domain whose limit it is; None for ``capacity``.
    :ivar scope: whether usage of the node alone counts (``own``), or of all below, too
        (``subtree``), or of a user in it (``user``); None for ``capacity``.
    :ivar resource_name: of the limit; for ``capacity`` the amounts of the request.
    :ivar user_id: None: the limit is no user's.
    """

    kind: Kind
    node_id: str | None
    scope: str | None
    resource_name: str
    user_id: str | None = None

    @property
    def uuid(self) -> str:
        """Return the uuid of the subject: always the same."""
        of_user = () if self.user_id is None else (self.user_id,)
        return str(uuid.uuid5(_NAMESPACE, "\n".join(
            (self.kind, self.node_id or "", self.scope or "", self.resource_name, *of_user))))


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """A subject at one moment.

    :ivar bound: the limit, or the number of requests below which capacity is short.
    :ivar measured: what is used, or how many more fit.
    """

    subject: Subject
    bound: int
    measured: int


def find_percentage(
    measurement: Measurement, percentages: Sequence[int], hysteresis: int, before: int
) -> int:
    """Return the highest percentage of a limit that is reached; 0: none.

    :param hysteresis: a percentage that was reached before is left only that many percentage
        points below it.
    :param before: the percentage that was reached before.
    """
    if measurement.measured <= 0:
        return 0
    share = 100 * measurement.measured
    return max((
        percentage for percentage in percentages
        if share >= measurement.bound * (
            percentage - (hysteresis if percentage <= before else 0))), default=0)


def find_shortage(measurement: Measurement, hysteresis: int, before: int) -> int:
    """Return ``SHORT`` if fewer requests fit than wanted, or else 0.

    :param hysteresis: a shortage ends with that many percent more than wanted, and one at least.
    :param before: the level before.
    """
    wanted = measurement.bound
    if before:
        wanted += max(wanted * hysteresis // 100, 1) if hysteresis else 0
    return SHORT if measurement.measured < wanted else 0
