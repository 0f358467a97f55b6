"""Fields that reservation plugins have in common: their schemas and their spellings.

python-blazarclient sends numbers as numbers where they look like some, and everything
else as text, so numbers are taken as text too. Floats and booleans are no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from placement_core.plugin_api.reservations import LARGEST, Hosts, InvalidReservation
from placement_core.reservations.scheduling import requirements

_DIGITS = re.compile("[0-9]{1,10}")


def _number(least: int) -> Mapping[str, Any]:
    return {
        "anyOf": [
            {"type": "integer", "minimum": least, "maximum": LARGEST},
            {"type": "string", "pattern": r"^[0-9]{1,10}\Z"},
        ],
    }


#: A number from 1 on, and one from 0 on. To validators, 1.0 is an integer; to ``count`` it is
#: not.
COUNT, COUNT_OR_NONE = _number(1), _number(0)

#: A requirement; see ``placement_core.reservations.scheduling.requirements``.
REQUIREMENT: Mapping[str, Any] = {"type": "string", "maxLength": requirements.LONGEST}


def record(properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {
        "type": "object", "properties": dict(properties), "required": list(required),
        "additionalProperties": False,
    }


def count(given: Mapping[str, Any], field: str, *, least: int = 1) -> int:
    """Return a number of a reservation.

    :raises InvalidReservation: it is missing, not a whole number, too small or too large.
    """
    value = given.get(field)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise InvalidReservation(
            f"{field} must be a whole number from {least} to {LARGEST}.", field)
    return value


def requirement(given: Mapping[str, Any], field: str) -> str:
    """Return a requirement as it was written; nothing, if there is none.

    :raises InvalidReservation: it is malformed.
    """
    text: str = given.get(field, "")
    requirements.parse(text, field)
    return text


def properties(values: Mapping[str, Any], *names: str) -> frozenset[str]:
    """Return the names of the properties that the requirements in some fields look at."""
    return frozenset().union(*(
        requirements.keys(requirements.parse(values[field], field)) for field in names))


def hosts_that_meet(values: Mapping[str, Any], hosts: Hosts, *names: str) -> np.ndarray:
    """Return which hosts meet the requirements in some fields.

    :raises InvalidReservation: one of them names a property that no host has.
    """
    meets = np.ones(len(hosts), dtype=bool)
    for field in names:
        meets &= requirements.hosts_that_meet(
            requirements.parse(values[field], field), hosts.properties, len(hosts), field=field)
    return meets
