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

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

from placement_core import errors
from placement_core.plugin_api.candidate_order import (
    Amounts,
    CandidateOrder,
    CandidateTrees,
    Ranks,
)

GROUP = "least_stranded"
#: The only key of a shape that is not a resource class.
_WEIGHT = "weight"

OPTIONS: list[cfg.Opt] = [
    cfg.MultiStrOpt(
        "shape",
        default=[],
        help="With [placement] candidate_order = least_stranded: the amounts of a usual request, "
        "such as ``VCPU:4,MEMORY_MB:8192``; once for each. ``weight:3`` beside the amounts says "
        "that such a request comes three times as often as one without a weight.",
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A usual request.

    :ivar amounts: by resource class, from 1 on.
    :ivar weight: how often it comes, compared to the others.
    """

    amounts: Mapping[str, int]
    weight: float


class LeastStranded(CandidateOrder):
    """Leaves room in pieces that usual requests can use."""

    api_version = 1

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts(OPTIONS, group=GROUP)
        self._shapes = [_parse(text) for text in conf[GROUP].shape]
        if not self._shapes:
            raise errors.ConfigurationError(
                f"[{GROUP}] shape: expected the amounts of at least one usual request, such as "
                "VCPU:4,MEMORY_MB:8192")
        self._demand = _compute_demand(self._shapes)

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


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the order's own options for oslo-config-generator."""
    return [(GROUP, OPTIONS)]


def _parse(text: str) -> Shape:
    """Return the shape that a value of the option describes.

    :raises errors.ConfigurationError: the value is malformed.
    """
    pairs = [part.partition(":") for part in text.split(",")]
    try:
        amounts = {name.strip(): int(amount) for name, _, amount in pairs
                   if name.strip() != _WEIGHT}
        weight = next((float(value) for name, _, value in pairs if name.strip() == _WEIGHT), 1.0)
    except ValueError:
        amounts, weight = {}, 0.0
    if not amounts or not weight > 0 or min(amounts.values()) < 1 or not all(amounts):
        raise errors.ConfigurationError(
            f"[{GROUP}] shape = {text}: expected amounts from 1 on by resource class, such as "
            "VCPU:4,MEMORY_MB:8192, and perhaps a weight above 0")
    return Shape(amounts, weight)


def _compute_demand(shapes: Sequence[Shape]) -> dict[str, float]:
    """Return what an average request takes of each class.

    Measured by it, classes that few requests need count as much as those that all need.
    """
    names = sorted({name for shape in shapes for name in shape.amounts})
    weights = [shape.weight for shape in shapes]
    return {name: float(np.average(
        [shape.amounts.get(name, 0) for shape in shapes], weights=weights)) for name in names}
