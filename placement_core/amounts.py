"""Amounts that a limit allows: an integer, or ``UNLIMITED``.

The APIs spell "unlimited" as -1. Here ``UNLIMITED`` is greater than every integer, so
that comparing and adding need no special case. 0 is zero.
"""

from __future__ import annotations

import math
from fractions import Fraction

#: How much is allowed, or used: an integer from 0 on, or ``UNLIMITED``.
Amount = int | float

UNLIMITED: Amount = math.inf

#: How the APIs spell ``UNLIMITED``.
_WIRE_UNLIMITED = -1


def from_wire(value: int) -> Amount:
    """Return the amount of an API's limit value.

    :param value: an integer from -1 on.
    """
    return UNLIMITED if value == _WIRE_UNLIMITED else value


def to_wire(amount: Amount) -> int:
    """Return an amount as the APIs spell it."""
    return _WIRE_UNLIMITED if amount == UNLIMITED else int(amount)


def is_over(limit: Amount, usage: int, delta: int) -> bool:
    """Say whether ``usage`` plus ``delta`` exceeds ``limit``.

    A delta of 0 asks whether usage exceeds it already.
    Source: oslo.limit 2.12, spec limits §4.
    """
    return usage + delta > limit


def scale(amount: Amount, factor: Fraction) -> Amount:
    """Return ``amount`` times ``factor``, rounded down.

    :param factor: a fraction, because 100 × 1.15 is 115 and in floats 114.99….
    """
    return amount if amount == UNLIMITED else math.floor(int(amount) * factor)
