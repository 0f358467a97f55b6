"""Choose where the members of a gang go: pure functions over numbered places.

A *site* takes a number of members; it belongs to a host, maybe to a pool (what several hosts
share, such as a storage cluster), to a domain ``within`` which all members are to lie and to one
``by`` which they are packed or spread. What a host or a pool bounds is nested: sites lie in one
host, hosts in one pool. So taking one member after another, wherever there is room, never ends
with fewer than fit. Numbers of domains and shares are the lowest possible, except where domains
compete for one pool.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]

#: More than any number of members.
_NO_BOUND = 2**62

@dataclasses.dataclass(frozen=True, slots=True)
class Sites:
    """Where members may go; every array has an item for each site, in order of preference.

    :ivar copies: how many members fit, from 1 on.
    :ivar hosts: the number of its host.
    :ivar within, by: the numbers of its domains.
    :ivar pools: the number of its pool; -1: none.
    :ivar pool_copies: {pool: how many members it can take}.
    """

    copies: Numbers
    hosts: Numbers
    within: Numbers
    by: Numbers
    pools: Numbers
    pool_copies: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.copies)

    def select(self, positions: npt.NDArray[np.intp]) -> Sites:
        """Return some of them."""
        return Sites(
            self.copies[positions], self.hosts[positions], self.within[positions],
            self.by[positions], self.pools[positions], self.pool_copies)


def count_room(sites: Sites, domains: Numbers, max_per_host: int | None) -> dict[int, int]:
    """Return how many members each domain can take if no other takes any.

    :param domains: of each site.
    """
    counts = sites.copies
    if max_per_host is not None:
        domains, _, pools, counts = _add_up(counts, domains, sites.hosts, sites.pools)
        counts = np.minimum(counts, max_per_host)
    else:
        pools = sites.pools
    if sites.pool_copies:
        domains, pools, counts = _add_up(counts, domains, pools)
        bounds = np.array([sites.pool_copies.get(pool, _NO_BOUND) for pool in pools.tolist()])
        counts = np.minimum(counts, bounds)
    domains, counts = _add_up(counts, domains)
    return dict(zip(domains.tolist(), counts.tolist(), strict=True))


def _add_up(counts: Numbers, *keys: Numbers) -> tuple[Numbers, ...]:
    """Return the distinct combinations of keys, a column for each, and the sum of each."""
    if not len(counts):
        return (*keys, counts)
    order = np.lexsort(keys[::-1])
    columns = [key[order] for key in keys]
    begins = np.ones(len(counts), dtype=bool)
    begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    starts = np.flatnonzero(begins)
    return (*(column[starts] for column in columns), np.add.reduceat(counts[order], starts))


def choose_domain(
    sites: Sites, wanted: int, *, pack: bool, spread: bool, max_per_host: int | None
) -> int | None:
    """Return the domain ``within`` which the members are to lie; None: there are no sites.

    If several have room for all, or else for the most, it is the one that packs or spreads them
    best, and the smallest of these, so that larger ones stay whole.
    """
    room = count_room(sites, sites.within, max_per_host)
    if not room:
        return None
    wanted = min(wanted, max(room.values()))
    enough = [domain for domain, holds in room.items() if holds >= wanted]
    if len(enough) == 1 or not (pack or spread):
        return min(enough, key=lambda domain: room[domain])
    costs = (_try_domains if _compete(sites) else _judge_domains)(
        sites, wanted, pack=pack, max_per_host=max_per_host)
    return min(enough, key=lambda domain: (costs[domain], room[domain]))


def _judge_domains(
    sites: Sites, wanted: int, *, pack: bool, max_per_host: int | None
) -> dict[int, int]:
    """Return for each domain ``within`` what is to be low: domains ``by``, or members in one."""
    judge = _count_packed if pack else _find_highest_share
    copies = sites.copies if max_per_host is None else np.minimum(sites.copies, max_per_host)
    within, _, rooms = _add_up(copies, sites.within, sites.by)
    return {domain: judge(rooms[positions].tolist(), wanted)
            for domain, positions in _split(within).items()}


def _try_domains(
    sites: Sites, wanted: int, *, pack: bool, max_per_host: int | None
) -> dict[int, int]:
    """Return the same where sites compete: what one domain ``by`` takes, another may lack."""
    costs = {}
    for domain, positions in _split(sites.within).items():
        part, taken = sites.select(positions), Counter[int]()
        for site, count in distribute(
                part, wanted, pack=pack, spread=not pack, max_per_host=max_per_host).items():
            taken[int(part.by[site])] += count
        costs[domain] = len(taken) if pack else max(taken.values(), default=0)
    return costs


def _split(keys: Numbers) -> dict[int, npt.NDArray[np.intp]]:
    """Return the positions of each key."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def _count_packed(rooms: Iterable[int], wanted: int) -> int:
    """Return how many domains are needed at least."""
    total = itertools.accumulate(sorted(rooms, reverse=True))
    return 1 + sum(1 for holds in total if holds < wanted)


def _find_highest_share(rooms: Iterable[int], wanted: int) -> int:
    """Return the largest number in one domain if the members are divided evenly."""
    left, ascending = wanted, sorted(rooms)
    for place, holds in enumerate(ascending):
        share = -(-left // (len(ascending) - place))
        if share <= holds:
            return share
        left -= holds
    return ascending[-1] if ascending else 0


def distribute(
    sites: Sites, wanted: int, *, pack: bool, spread: bool, max_per_host: int | None
) -> Counter[int]:
    """Return how many members go to each site, by its position: as many as fit, up to ``wanted``.

    :param pack: in as few domains ``by`` as possible, and in these on as few hosts.
    :param spread: evenly among the domains ``by``, and in these among the hosts.
    """
    if spread and not _compete(sites):
        copies = sites.copies if max_per_host is None else np.minimum(sites.copies, max_per_host)
        return _divide(copies, sites.by, wanted, np.zeros_like(copies))
    positions = _preselect(sites, wanted, pack=pack, max_per_host=max_per_host)
    taking = _Taking(sites.select(positions), max_per_host)
    if spread:
        _spread(taking, wanted)
    elif pack:
        _pack(taking, wanted)
    else:
        _fill(taking, range(len(positions)), wanted)
    return Counter({int(positions[site]): count for site, count in taking.taken.items()})


def extend(
    copies: Numbers, by: Numbers, wanted: int, present: Numbers, *, pack: bool, spread: bool
) -> Counter[int]:
    """Return how many more members go to each site, where some are already.

    Each site is a host of its own, without a pool.

    :param copies: how many more fit, maybe 0.
    :param present: how many are there, and stay.
    :param pack, spread: as for ``distribute``.
    """
    if spread:
        return _divide(copies, by, wanted, present)
    used_domains = np.isin(by, by[present > 0])
    taken: Counter[int] = Counter()
    for part in (present > 0, used_domains & (present == 0), ~used_domains):
        positions = np.flatnonzero(part & (copies > 0))
        zeros = np.zeros(len(positions), dtype=np.int64)
        chosen = distribute(
            Sites(copies[positions], np.arange(len(positions)), zeros, by[positions], zeros - 1),
            wanted - taken.total(), pack=pack, spread=False, max_per_host=None)
        taken.update({int(positions[site]): count for site, count in chosen.items()})
    return taken


def _divide(copies: Numbers, by: Numbers, wanted: int, present: Numbers) -> Counter[int]:
    """Spread members among sites that are hosts of their own; as ``extend``."""
    number = _number_in_order(by)
    domains = int(number.max(initial=-1)) + 1
    sites = np.bincount(number, minlength=domains)
    shares = _level(
        np.bincount(number, copies, domains).astype(np.int64),
        np.bincount(number, present, domains).astype(np.int64), wanted)
    taken = np.where(sites[number] == 1, shares[number], 0)
    divided = np.flatnonzero((shares > 0) & (sites > 1))
    if len(divided):
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(domains + 1))
        for domain in divided.tolist():
            own = order[bounds[domain]:bounds[domain + 1]]
            taken[own] = _level(copies[own], present[own], int(shares[domain]))
    return Counter({int(site): int(taken[site]) for site in np.flatnonzero(taken)})


def _number_in_order(by: Numbers) -> Numbers:
    """Number domains, too, in the order of preference: that of their first sites."""
    # That of what is in no domain is negative.
    by = by - by.min(initial=0)
    positions = np.arange(len(by))
    first = np.zeros(int(by.max(initial=-1)) + 1, dtype=np.int64)
    first[by[::-1]] = positions[::-1]
    first_of_its_domain = first[by]
    numbers: Numbers = np.cumsum(first_of_its_domain == positions) - 1
    return numbers[first_of_its_domain]


def _level(rooms: Numbers, present: Numbers, wanted: int) -> Numbers:
    """Return how many each part gets, if each member goes where the fewest are and one fits."""
    wanted = min(wanted, int(rooms.sum()))
    low, high = 0, int(present.max(initial=0)) + wanted
    while low < high:
        middle = (low + high + 1) // 2
        if np.clip(middle - present, 0, rooms).sum() <= wanted:
            low = middle
        else:
            high = middle - 1
    taken: Numbers = np.clip(low - present, 0, rooms)
    one_more = np.flatnonzero(np.clip(low + 1 - present, 0, rooms) > taken)
    taken[one_more[:wanted - int(taken.sum())]] += 1
    return taken


def _preselect(
    sites: Sites, wanted: int, *, pack: bool, max_per_host: int | None
) -> npt.NDArray[np.intp]:
    """Return the positions of sites among which the best choice is; of many, these are few."""
    if not pack or _compete(sites):
        return np.arange(len(sites))
    rooms = sorted(
        count_room(sites, sites.by, max_per_host).items(), key=lambda each: each[1], reverse=True)
    chosen = []
    for place, (domain, room) in enumerate(rooms):
        if room >= wanted:
            chosen.append(min(
                (each for each in rooms[place:] if each[1] >= wanted), key=lambda each: each[1],
            )[0])
            break
        chosen.append(domain)
        wanted -= room
    return np.flatnonzero(np.isin(sites.by, chosen))


def _compete(sites: Sites) -> bool:
    """Say whether what one site takes, another may lack."""
    return bool(sites.pool_copies) or bool((np.bincount(sites.hosts) > 1).any())


class _Taking:
    """The sites while members are placed."""

    def __init__(self, sites: Sites, max_per_host: int | None) -> None:
        self.sites = sites
        self.taken: Counter[int] = Counter()
        self._copies: list[int] = sites.copies.tolist()
        self._hosts: list[int] = sites.hosts.tolist()
        self._pools: list[int] = sites.pools.tolist()
        self._max_per_host = max_per_host
        self._on_host: Counter[int] = Counter()
        self._in_pool: Counter[int] = Counter()

    def count_left(self, sites: Iterable[int]) -> int:
        """Return how many more members fit at some sites together."""
        by_host: Counter[tuple[int, int]] = Counter()
        for site in sites:
            left = self._copies[site] - self.taken[site]
            by_host[self._pools[site], self._hosts[site]] += left
        if self._max_per_host is not None:
            for pool, host in by_host:
                by_host[pool, host] = min(
                    by_host[pool, host], self._max_per_host - self._on_host[host])
        if not self.sites.pool_copies:
            return by_host.total()
        by_pool: Counter[int] = Counter()
        for (pool, _), left in by_host.items():
            by_pool[pool] += left
        return sum(min(left, self._count_left_in_pool(pool)) for pool, left in by_pool.items())

    def take(self, site: int, count: int) -> None:
        """Place members at a site."""
        self.taken[site] += count
        self._on_host[self._hosts[site]] += count
        self._in_pool[self._pools[site]] += count

    def _count_left_in_pool(self, pool: int) -> int:
        bound = self.sites.pool_copies.get(pool)
        return _NO_BOUND if bound is None else bound - self._in_pool[pool]


def _fill(taking: _Taking, sites: Iterable[int], wanted: int) -> None:
    """Place members at one site after another."""
    for site in sites:
        if not wanted:
            return
        count = min(wanted, taking.count_left((site,)))
        if count:
            taking.take(site, count)
            wanted -= count


def _pack(taking: _Taking, wanted: int) -> None:
    by, hosts = taking.sites.by.tolist(), taking.sites.hosts.tolist()

    def fill_domain(sites: Iterable[int], count: int) -> None:
        _pack_groups(
            taking, _group(sites, hosts), count, lambda own, most: _fill(taking, own, most))

    _pack_groups(taking, _group(range(len(by)), by), wanted, fill_domain)


def _group(sites: Iterable[int], keys: Sequence[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for site in sites:
        groups.setdefault(keys[site], []).append(site)
    return list(groups.values())


def _pack_groups(
    taking: _Taking, groups: list[list[int]], wanted: int,
    fill: Callable[[Sequence[int], int], None],
) -> None:
    """Fill as few groups as possible: the largest first, as the last one the smallest that does.

    :param fill: places a number of members in a group that has room for them.
    """
    heap = [(-room, at) for at, group in enumerate(groups) if (room := taking.count_left(group))]
    heapq.heapify(heap)
    while heap and wanted:
        room, at = heapq.heappop(heap)
        left = taking.count_left(groups[at])
        if left < -room:  # by now, others have used the host or the pool that it shares with them
            if left:
                heapq.heappush(heap, (-left, at))
            continue
        if left >= wanted:
            at = min((at, *(other for _, other in heap)), key=lambda each: (
                (fits := taking.count_left(groups[each])) < wanted, fits))
            left = wanted
        fill(groups[at], left)
        wanted -= left


def _spread(taking: _Taking, wanted: int) -> None:
    hosts = taking.sites.hosts.tolist()
    domains = [_Evenly([_Evenly([_Site(taking, site) for site in own])
                        for own in _group(group, hosts)])
               for group in _group(range(len(hosts)), taking.sites.by.tolist())]
    everywhere = _Evenly(domains)
    while wanted and everywhere.take_one():
        wanted -= 1


class _Takes(Protocol):
    """Something that members can be placed in."""

    def take_one(self) -> bool:
        """Place a member; return whether there was room."""


class _Site:
    __slots__ = ("_site", "_taking")

    def __init__(self, taking: _Taking, site: int) -> None:
        self._taking = taking
        self._site = site

    def take_one(self) -> bool:
        if self._taking.count_left((self._site,)) < 1:
            return False
        self._taking.take(self._site, 1)
        return True


class _Evenly:
    """Places each member in the part that has the fewest so far, and room."""

    __slots__ = ("_heap", "_parts")

    def __init__(self, parts: Sequence[_Takes]) -> None:
        self._parts = parts
        self._heap = [(0, at) for at in range(len(parts))]

    def take_one(self) -> bool:
        while self._heap:
            count, at = self._heap[0]
            if self._parts[at].take_one():
                heapq.heapreplace(self._heap, (count + 1, at))
                return True
            heapq.heappop(self._heap)
        return False
