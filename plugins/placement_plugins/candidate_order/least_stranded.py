"""The order ``least_stranded``: keep the remaining room usable for the site's usual requests.

A host with many free cores and no free memory has room that no server can use: it is stranded.
The usable room of a host is the sum, over the usual requests, of how often each still fits there,
weighed by its size and by how often it comes. A request that does not fit at all adds nothing, so
taking a host's last whole piece costs more than its amounts. Hosts where a request costs the least
usable room come first: requests without devices stay away from hosts with devices as long as they
can, and requests with much memory go where memory abounds.
Source: after the fragmentation measure of Weng et al., "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

from placement_core import errors
from placement_core.placement.room import shapes
from placement_core.plugin_api.candidate_order import (
    Amounts,
    CandidateOrder,
    CandidateTrees,
    Ranks,
)


class LeastStranded(CandidateOrder):
    """Leaves room in pieces that usual requests can use."""

    api_version = 1

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._shapes = shapes.read(conf)
        if not self._shapes:
            raise errors.ConfigurationError(
                "[least_stranded] shape: expected the amounts of at least one usual request, "
                "such as VCPU:4,MEMORY_MB:8192")
        self._demand = shapes.compute_demand(self._shapes)

    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return how much usable room the request costs in each tree."""
        before = {name: trees.free(name) for name in self._demand}
        after = {name: np.maximum(free - trees.requested.get(name, 0), 0)
                 for name, free in before.items()}
        # Rounded, so that errors of floats do not order trees that are equal.
        return np.round(self._measure_usable(before) - self._measure_usable(after), 6)

    def _measure_usable(self, free: Mapping[str, Amounts]) -> npt.NDArray[np.float64]:
        """Return the usable room of each tree; 1 is what an average request takes of a class."""
        total = np.zeros(len(next(iter(free.values()))))
        for shape in self._shapes:
            copies = np.minimum.reduce(
                [free[name] / amount for name, amount in shape.amounts.items()])
            copies[copies < 1] = 0
            size = sum(amount / self._demand[name] for name, amount in shape.amounts.items())
            total += shape.weight * size * copies
        return total
