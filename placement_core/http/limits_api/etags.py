"""Entity tags of limits reads: what an answer is made from.

There is none while another service keeps what the answer shows: nobody here would
notice a change.
"""

from __future__ import annotations

from placement_core.http.conditional import ETag
from placement_core.http.limits_api import visibility
from placement_core.http.operations import Call


def tag_model(call: Call) -> ETag | None:
    """Return the tag of the enforcement model, which only a restart changes."""
    shown = call.services.advertised_model
    return ETag((call.address, shown.name, shown.description))


def tag_registered_limits(call: Call) -> ETag | None:
    """Return the tag of registered limits, which everybody sees alike."""
    if not call.services.limits.transactional:
        return None
    return ETag((call.address,), of_limits=True)


def tag_limits(call: Call) -> ETag | None:
    """Return the tag of limits, as far as the caller sees them."""
    services = call.services
    seen = visibility.get_visibility_of_limits(call)
    if not services.limits.transactional or not (seen.everything or services.catalog.local):
        return None
    return ETag((call.address, seen.key), of_limits=True)
