"""Choose hosts by the rules of topology, with the planner that gangs have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from placement_core.placement.gangs import planner
from placement_core.placement.gangs.planner import Sites
from placement_core.plugin_api.reservations import HostTopology


def find_main_domain(topology: HostTopology, held: Mapping[int, int]) -> int | None:
    """Return the domain ``within`` which most of what is held lies; None: it lies in none.

    :param held: {row of a host: slots}.
    """
    assert topology.within is not None
    counts: Counter[int] = Counter()
    for row, slots in held.items():
        counts[int(topology.within.numbers[row])] += slots
    del counts[-1]
    return counts.most_common(1)[0][0] if counts else None


def count_by_domain(topology: HostTopology, available: np.ndarray) -> np.ndarray:
    """Return how much each domain ``within`` which all is to lie has.

    :param available: how much each host has.
    """
    assert topology.within is not None
    numbers = topology.within.numbers
    inside = numbers >= 0
    counts = np.zeros(len(topology.within.names), dtype=np.int64)
    np.add.at(counts, numbers[inside], available[inside])
    return counts


def limit_to_domain(
    topology: HostTopology, available: np.ndarray, placed: Mapping[int, int], wanted: int
) -> np.ndarray:
    """Return what hosts can give if all of a demand lies in one domain, where it has to.

    That is the domain of what is placed, or else the one that ``planner.choose_domain`` chooses.

    :param available: how much each host can give, at most ``wanted``.
    """
    if topology.within is None:
        return available
    numbers, domain = topology.within.numbers, find_main_domain(topology, placed)
    if domain is None:
        rows = np.flatnonzero((available > 0) & (numbers >= 0))
        domain = planner.choose_domain(
            Sites(available[rows], rows, numbers[rows], _number_divisions(topology, rows),
                  np.full(len(rows), -1)),
            wanted, pack=topology.pack_by is not None, spread=topology.spread_by is not None,
            max_per_host=None)
    return np.where(numbers == domain, available, 0) if domain is not None else 0 * available


def distribute(
    topology: HostTopology, rows: np.ndarray, available: np.ndarray, wanted: int,
    placed: Mapping[int, int],
) -> np.ndarray:
    """Return how much of a demand each host gets: ``wanted``, or as much as there is.

    :param rows: of hosts, the best first, with all that are in ``placed``.
    :param available: how much each of them can give, at most ``wanted``.
    :param placed: {row: how much the demand has there already}.
    """
    if topology.pack_by is None and topology.spread_by is None:
        sums = np.minimum(np.cumsum(available), wanted)
        return np.diff(sums, prepend=0)
    taken = planner.extend(
        available, _number_divisions(topology, rows), wanted,
        np.fromiter((placed.get(row, 0) for row in rows.tolist()), np.int64, len(rows)),
        pack=topology.pack_by is not None, spread=topology.spread_by is not None)
    counts = np.zeros(len(rows), dtype=np.int64)
    counts[list(taken)] = list(taken.values())
    return counts


def rate(topology: HostTopology, placed: Mapping[int, int]) -> int:
    """Return how far from its rule what was placed is: lower is better.

    It is the number of domains to pack it in, or how much is in one of those to spread it among.
    """
    rows = np.fromiter(placed, dtype=np.intp, count=len(placed))
    counts: Counter[int] = Counter()
    for number, slots in zip(
            _number_divisions(topology, rows).tolist(), placed.values(), strict=True):
        counts[number] += slots
    if topology.pack_by is not None:
        return len(counts)
    return max(counts.values(), default=0) if topology.spread_by is not None else 0


def _number_divisions(topology: HostTopology, rows: np.ndarray) -> np.ndarray:
    """Return the numbers of the domains that hosts are packed into, or spread among."""
    domains = topology.pack_by or topology.spread_by
    return np.zeros(len(rows), dtype=np.int64) if domains is None else domains.numbers[rows]
