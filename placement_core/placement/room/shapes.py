"""The usual requests of a site, as ``[least_stranded] shape`` describes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from oslo_config import cfg

from placement_core import errors
from placement_core.conf import least_stranded

#: The only key of a shape that is not a resource class.
_WEIGHT = "weight"


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A usual request.

    :ivar amounts: by resource class, from 1 on.
    :ivar weight: how often it comes, compared to the others.
    """

    amounts: Mapping[str, int]
    weight: float


def read(conf: cfg.ConfigOpts) -> list[Shape]:
    """Return the configured shapes, maybe none.

    :raises errors.ConfigurationError: a value is malformed.
    """
    return [_parse(text) for text in conf[least_stranded.GROUP.name].shape]


def compute_demand(shapes: Sequence[Shape]) -> dict[str, float]:
    """Return what an average request takes of each class, by name.

    Measured by it, classes that few requests need count as much as those that all need.
    """
    names = sorted({name for shape in shapes for name in shape.amounts})
    weights = [shape.weight for shape in shapes]
    return {name: float(np.average(
        [shape.amounts.get(name, 0) for shape in shapes], weights=weights)) for name in names}


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
            f"[{least_stranded.GROUP.name}] shape = {text}: expected amounts from 1 on by "
            "resource class, such as VCPU:4,MEMORY_MB:8192, and perhaps a weight above 0")
    return Shape(amounts, weight)
