"""Schemas and parsers of fields that reservation plugins share.

python-blazarclient sends values that look like numbers as numbers, and all others as strings, so
numbers are accepted as strings, too. Floats and booleans are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from placement_core.plugin_api.reservations import (
    LARGEST,
    Hosts,
    HostTopology,
    InvalidReservation,
)
from placement_core.reservations.scheduling import requirements, topology

_DIGITS = re.compile("[0-9]{1,10}")


def _number(least: int) -> Mapping[str, Any]:
    return {
        "anyOf": [
            {"type": "integer", "minimum": least, "maximum": LARGEST},
            {"type": "string", "pattern": r"^[0-9]{1,10}\Z"},
        ],
    }


#: Schemas of an integer from 1 on, and from 0 on. Validators accept 1.0 as an integer,
#: ``parse_count`` does not.
COUNT, COUNT_OR_NONE = _number(1), _number(0)

#: A requirement; see ``placement_core.reservations.scheduling.requirements``.
REQUIREMENT: Mapping[str, Any] = {"type": "string", "maxLength": requirements.LONGEST}


def build_schema(properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {
        "type": "object", "properties": dict(properties), "required": list(required),
        "additionalProperties": False,
    }


def parse_count(raw_fields: Mapping[str, Any], field: str, *, least: int = 1) -> int:
    """Return a field as an integer.

    :raises InvalidReservation: it is missing, not a whole number, too small or too large.
    """
    value = raw_fields.get(field)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise InvalidReservation(
            f"{field} must be a whole number from {least} to {LARGEST}.", field)
    return value


def parse_requirements(raw_fields: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Check requirements and return their texts; empty, where there is none.

    :raises InvalidReservation: one is malformed, or rules of topology contradict each other.
    """
    texts = {field: raw_fields.get(field, "") for field in names}
    topology.parse(texts)
    return texts


def find_properties(values: Mapping[str, Any], *names: str) -> frozenset[str]:
    """Return the names of the properties that the requirements in some fields use."""
    return topology.find_properties({field: values[field] for field in names})


def match_hosts(
    values: Mapping[str, Any], hosts: Hosts, *names: str
) -> tuple[np.ndarray, HostTopology]:
    """Return for each host whether it meets the requirements in some fields (bool).

    Hosts that are in no domain of a level do not. The second item is where they lie.

    :raises InvalidReservation: one of them names a property that no host has, or a level that no
        host is in.
    """
    conditions, rules = topology.parse({field: values[field] for field in names})
    meets = np.ones(len(hosts), dtype=bool)
    for field, condition in conditions.items():
        meets &= requirements.hosts_that_meet(
            condition, hosts.properties, len(hosts), field=field)
    host_topology = topology.find_topology(rules, hosts, field=names[-1])
    for domains in (host_topology.within, host_topology.pack_by, host_topology.spread_by):
        if domains is not None:
            meets &= domains.numbers >= 0
    return meets, host_topology
