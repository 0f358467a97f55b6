"""The order of allocation candidates: which provider trees come first.

A request with a limit receives the first candidates only, and clients such as nova prefer what
comes first. So the order decides which hosts fill up, and what room is left for later requests.
Without a limit, the answer has the same candidates in another order.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

#: A column with a value for each tree.
Amounts = npt.NDArray[np.int64]
Ranks = npt.NDArray[Any]


class CandidateTrees(Protocol):
    """Some provider trees; a provider alone is a tree, too.

    The service ranks all trees for a request, also those that lack room, and keeps the ranks:
    later it ranks only the trees whose free amounts changed.
    """

    @property
    def requested(self) -> Mapping[str, int]:
        """Return the requested amounts by resource class, those of all groups together."""

    @property
    def uuids(self) -> Sequence[str]:
        """Return the uuids of the roots."""

    def free(self, resource_class: str) -> Amounts:
        """Return the free amount of a resource class in each tree.

        That is capacity less usage, at least 0, of the tree's own providers; 0 where it has
        none. Providers that share their resources with the tree are not counted.
        """

    def __len__(self) -> int:
        """Return the number of trees."""


class CandidateOrder(abc.ABC):
    """Ranks provider trees for a request.

    Used from any thread, for each request for allocation candidates, so it has to be fast:
    compute with whole columns, and ask no other service.

    :cvar api_version: the version of this class that an order was written for.
    """

    api_version = 1

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; an order registers its own options here.

        :raises errors.ConfigurationError: an option of the order is not valid.
        """

    @abc.abstractmethod
    def rank(self, trees: CandidateTrees) -> Ranks | None:
        """Return a finite number for each tree: the lowest comes first.

        Trees of equal rank stay in the order of the capacity index or, with ``[placement]
        randomize_allocation_candidates``, in random order.

        :returns: None: all trees have the same rank.
        """
