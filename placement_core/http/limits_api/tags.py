"""Entity tags of limits reads: what an answer is made from.

There is none while another service keeps what the answer shows: nobody here would
notice a change.
"""

from __future__ import annotations

from placement_core.http import conditional
from placement_core.http.limits_api import sights
from placement_core.http.operations import Call


def model(call: Call) -> str | None:
    """Return the tag of the enforcement model, which only a restart changes."""
    shown = call.services.advertised_model
    return conditional.of(call.address, shown.name, shown.description)


def registered_limits(call: Call) -> str | None:
    """Return the tag of registered limits, which everybody sees alike."""
    if not call.services.limits.transactional:
        return None
    return conditional.of_limits(call.ctx, call.address)


def limits(call: Call) -> str | None:
    """Return the tag of limits, as far as the caller sees them."""
    services = call.services
    sight = sights.of_limits(call)
    if not services.limits.transactional or not (sight.everything or services.catalog.local):
        return None
    return conditional.of_limits(call.ctx, call.address, sight.key)
