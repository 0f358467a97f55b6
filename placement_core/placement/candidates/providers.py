"""GET /resource_providers: filtering single providers.

Source: spec placement_api §3.2.
"""

from __future__ import annotations

import numpy as np

from placement_core.placement.candidates import filters
from placement_core.placement.candidates.requests import ProviderFilter
from placement_core.placement.index.snapshot import CapacitySnapshot, ProviderEntry


def find(snapshot: CapacitySnapshot, conditions: ProviderFilter) -> list[ProviderEntry]:
    """Return the providers that pass every condition by themselves.

    :raises errors.UnknownRequestedClass: a class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    """
    ids = filters.resolve_class_ids(snapshot, conditions.resources)
    filters.check_traits(snapshot, [conditions.traits], parameter="required")
    resources = {ids[name]: amount for name, amount in conditions.resources.items()}
    mask = filters.find_fitting_rows(
        snapshot, resources, conditions.traits, conditions.aggregates, conditions.in_tree)
    if conditions.uuid is None:
        rows = np.flatnonzero(mask).tolist()
    else:
        row = snapshot.layout.row_of_uuid.get(conditions.uuid)
        rows = [row] if row is not None and mask[row] else []
    entries = snapshot.entries
    matches = [entry for row in rows if (entry := entries[row]) is not None]
    if conditions.name is not None:
        matches = [entry for entry in matches if entry.provider.name == conditions.name]
    return matches
