"""GET /resource_providers: filtering single providers.

Source: spec placement_api §3.2.
"""

from __future__ import annotations

import numpy as np

from placement_core.placement import records
from placement_core.placement.candidates import filters
from placement_core.placement.candidates.requests import ProviderFilter
from placement_core.placement.index.world import World


def find(world: World, wanted: ProviderFilter) -> list[records.Provider]:
    """Return the providers that pass every condition by themselves.

    :raises errors.UnknownResourceClass: a class does not exist.
    :raises errors.UnknownTraits: traits do not exist.
    """
    ids = filters.class_ids(world, wanted.resources)
    filters.check_traits(world, [wanted.traits], parameter="required")
    resources = {ids[name]: amount for name, amount in wanted.resources.items()}
    mask = filters.single(
        world, resources, wanted.traits, wanted.aggregates, wanted.in_tree)
    if wanted.uuid is None:
        rows = np.flatnonzero(mask).tolist()
    else:
        row = world.layout.row_of_uuid.get(wanted.uuid)
        rows = [row] if row is not None and mask[row] else []
    found = [world.entry(row).provider for row in rows]
    if wanted.name is not None:
        found = [provider for provider in found if provider.name == wanted.name]
    return found
