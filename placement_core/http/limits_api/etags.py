"""Entity tags of limits reads: what an answer is made from.

There is none while another service keeps what the answer shows, because changes there are
not noticed here.
"""

from __future__ import annotations

from placement_core.http.conditional import ETag
from placement_core.http.limits_api import visibility
from placement_core.http.operations import Call


def tag_model(call: Call) -> ETag | None:
    """Return the tag of the enforcement model, which only a restart changes."""
    model = call.services.advertised_model
    return ETag((call.address, model.name, model.description))


def tag_registered_limits(call: Call) -> ETag | None:
    """Return the tag of registered limits, which all callers see alike."""
    if not call.services.limits.transactional:
        return None
    return ETag((call.address,), of_limits=True)


def tag_limits(call: Call) -> ETag | None:
    """Return the tag of limits, as far as the caller sees them."""
    services = call.services
    visible = visibility.get_visibility_of_limits(call)
    if not services.limits.transactional or not (visible.everything or services.catalog.local):
        return None
    return ETag((call.address, visible.key), of_limits=True)
