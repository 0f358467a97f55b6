"""Find where the members of a gang fit, near each other or apart."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from placement_core.placement.candidates import explain, search
from placement_core.placement.candidates.combine import Combination
from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.gangs import copies, errors, levels, planner
from placement_core.placement.gangs.copies import FittingSites, JointPacking
from placement_core.placement.gangs.levels import Domains, Level
from placement_core.placement.gangs.packing import PackingBudget
from placement_core.placement.gangs.planner import Numbers, Sites
from placement_core.placement.gangs.requests import GangRequest
from placement_core.placement.index.array_types import Rows
from placement_core.placement.index.snapshot import CapacitySnapshot

#: What names are sorted by.
_NameKey: TypeAlias = tuple[list[tuple[int, str]], str]

_HOST = Level("host", "host")
_DIGITS = re.compile(r"(\d+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """Where a member goes.

    :ivar allocations: {provider uuid: {resource class: amount}}.
    :ivar host: the name of its host, and ``domains`` those of its domains, by level: of
        ``within``, and of ``pack_by`` or ``spread_by``.
    """

    allocations: dict[str, dict[str, int]]
    host: str
    domains: dict[str, str]


def find_members(
    snapshot: CapacitySnapshot, request: GangRequest, *,
    ordering: CandidateOrdering | None = None, exclude_reserved: bool = False,
) -> list[Member]:
    """Find where as many members fit as are wanted, or at least as many as are needed.

    :param ordering: the order in which hosts are preferred; those of one rank come at random.
    :param exclude_reserved: as ``search.find``.
    :returns: in the order of topology: by the names of domains of hosts, then of hosts, then of
        the parts of their trees that levels name.
    :raises errors.NoRoomForGang: fewer than needed fit.
    :raises candidates.errors.UnknownRequestedClass, candidates.errors.UnknownRequestedTraits,
        errors.UnknownLevelTrait: a name does not exist.
    """
    choices = search.choose(snapshot, request.shape, exclude_reserved=exclude_reserved)
    np.random.default_rng().shuffle(choices.anchors)
    if ordering is not None:
        choices.sort_anchors(request.shape, ordering)
    depth = max((level.depth for level in request.levels), default=0)
    topology = _Topology(snapshot, copies.find_sites(choices, depth, request.members))
    placement = _Placement(topology, _choose_sites(topology, request))
    joint = None
    if placement.count < request.members and any(part.away for part in choices.plan.parts):
        joint = JointPacking(choices, depth, request.members)
        placement = max(placement, _pack_together(snapshot, joint, request),
                        key=lambda each: each.count)
    if placement.count >= request.min_members:
        return _list_members(placement, request, choices.plan)
    room = placement.count
    if joint is not None and (depth or request.within):
        joint = JointPacking(choices, 0, request.members) if depth else joint
        room = _pack_together(snapshot, joint, dataclasses.replace(
            request, within=None, pack_by=None, spread_by=None)).count
    anywhere = topology if not depth else _Topology(
        snapshot, copies.find_sites(choices, 0, request.members))
    raise _explain(
        topology, anywhere, request, placement, room, exclude_reserved=exclude_reserved)


class _Topology:
    """The sites with room, and the domains that they are in."""

    def __init__(self, snapshot: CapacitySnapshot, fitting: FittingSites) -> None:
        self.snapshot = snapshot
        self.fitting = fitting
        self._domains: dict[Level, tuple[Domains, Rows]] = {}

    def number(self, level: Level | None) -> Numbers:
        """Return the number of each site's domain; -1: it is in none. Without a level, 0."""
        if level is None:
            return np.zeros(len(self.fitting), dtype=np.int64)
        return self._find(level)[1]

    def name(self, level: Level, site: int) -> str:
        """Return the name of a site's domain; empty: it is in none."""
        domains, numbers = self._find(level)
        number = int(numbers[site])
        return domains.name(number) if number >= 0 else ""

    def make_sites(self, request: GangRequest) -> tuple[Sites, Rows]:
        """Return the sites that are in a domain of every level, and their positions."""
        fitting, within, by = (
            self.fitting, self.number(request.within), self.number(request.divided_by))
        positions = np.flatnonzero((within >= 0) & (by >= 0))
        return Sites(fitting.copies, fitting.roots, within, by, fitting.pools,
                     fitting.pool_copies).select(positions), positions

    def _find(self, level: Level) -> tuple[Domains, Rows]:
        if level not in self._domains:
            domains, rows = Domains(self.snapshot, level), self.fitting.roots
            if level.kind == "tree":
                rows = levels.find_ancestors(self.snapshot, self.fitting.rows, level.depth)
            numbers = np.where(rows >= 0, domains.numbers[rows], -1)
            self._domains[level] = domains, numbers
        return self._domains[level]


@dataclasses.dataclass(frozen=True, slots=True)
class _Placement:
    """How many members go to each site, by its position."""

    topology: _Topology
    taken: Mapping[int, int]

    @property
    def count(self) -> int:
        return sum(self.taken.values())


def _choose_sites(topology: _Topology, request: GangRequest) -> Counter[int]:
    """Return how many members go to each site, by its position: maybe too few."""
    rules = {"pack": request.pack_by is not None, "spread": request.spread_by is not None}
    sites, positions = topology.make_sites(request)
    domain = planner.choose_domain(
        sites, request.members, max_per_host=request.max_per_host, **rules)
    if domain is None:
        return Counter()
    chosen = np.flatnonzero(sites.within == domain)
    sites, positions = sites.select(chosen), positions[chosen]
    taken = planner.distribute(
        sites, request.members, max_per_host=request.max_per_host, **rules)
    return Counter({int(positions[site]): count for site, count in taken.items()})


def _pack_together(
    snapshot: CapacitySnapshot, joint: JointPacking, request: GangRequest
) -> _Placement:
    """Place the members wherever there is room for all of them, or for the most.

    It heeds what hosts share and each may choose, but not how many domains and hosts are used.
    """
    sites, positions = _Topology(snapshot, joint.sites).make_sites(request)
    domains = list(dict.fromkeys(sites.within.tolist()))
    budget = PackingBudget(len(domains))
    best = joint.pack((), request.max_per_host, budget)
    for domain in domains:
        budget.begin_tree()
        own = positions[sites.within == domain].tolist()
        best = max(best, joint.pack(own, request.max_per_host, budget),
                   key=lambda packed: packed.copies.sum())
        if best.copies.sum() >= request.members:
            break
    return _Placement(_Topology(snapshot, best), dict(enumerate(best.copies.tolist())))


def _list_members(placement: _Placement, request: GangRequest, plan: Plan) -> list[Member]:
    topology, taken = placement.topology, placement.taken
    ordering_levels = _list_ordering_levels(request)

    def make_site_key(site: int) -> tuple[list[_NameKey], str]:
        row = int(topology.fitting.rows[site])
        # What its members use is no part of its host where it is a sharing provider elsewhere.
        is_own = topology.snapshot.layout.root[row] == topology.fitting.roots[site]
        names = [topology.name(level, site) if is_own or level.kind != "tree" else ""
                 for level in ordering_levels]
        provider = topology.snapshot.entry(row).provider
        return [_make_name_key(name) for name in (*names, provider.name)], provider.uuid

    members = []
    for site in sorted(taken, key=make_site_key):
        host = topology.name(_HOST, site)
        domains = {level.text: topology.name(level, site) for level in request.levels}
        combinations = topology.fitting.list_combinations(site, taken[site])
        if request.order_by is not None and request.order_by.kind == "tree":
            combinations = _sort_by_parts(
                topology, plan, site, combinations, request.order_by.depth)
        members += [
            Member(_make_allocations(plan, combination), host, domains)
            for combination in combinations]
    return members


def _list_ordering_levels(request: GangRequest) -> list[Level]:
    """Return the levels by which sites are sorted, those of larger domains first."""
    named = [level for level in (request.within, request.order_by, request.divided_by)
             if level is not None]
    # Levels of trees divide hosts, the others are of whole hosts.
    return [*(level for level in named if level.kind != "tree"), _HOST,
            *sorted((level for level in named if level.kind == "tree"),
                    key=lambda level: level.depth)]


def _sort_by_parts(
    topology: _Topology, plan: Plan, site: int, combinations: Sequence[Combination], depth: int
) -> list[Combination]:
    """Sort the members of a site by the parts of their host that they use.

    A part is a provider at a depth, with all below it. Only the required levels make sites, so
    that hosts without such parts take members, too; these use none, and come first. What members
    use elsewhere, such as the host's own disk or a shared one, does not count.
    """
    snapshot, host = topology.snapshot, int(topology.fitting.roots[site])

    def make_key(combination: Combination) -> list[_NameKey]:
        lines = [snapshot.layout.ancestors(row)
                 for part, row in zip(plan.parts, combination, strict=True) if part.resources]
        parts = {line[-1 - depth] for line in lines if line[-1] == host and depth < len(line)}
        return sorted(_make_name_key(snapshot.entry(row).provider.name) for row in parts)

    return sorted(combinations, key=make_key)


def _make_name_key(name: str) -> _NameKey:
    """Return a key by which rack-2 comes before rack-10; other names have other keys."""
    return [(int(part), "") if part.isdecimal() else (-1, part)
            for part in _DIGITS.split(name) if part], name


def _make_allocations(plan: Plan, combination: Combination) -> dict[str, dict[str, int]]:
    allocations: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    class_names = plan.snapshot.names.class_names
    for part, row in zip(plan.parts, combination, strict=True):
        for class_id, amount in part.resources.items():
            allocations[plan.snapshot.entry(row).provider.uuid][class_names[class_id]] += amount
    return {uuid: dict(amounts) for uuid, amounts in allocations.items()}


def _explain(
    topology: _Topology, anywhere: _Topology, request: GangRequest, most: _Placement, room: int,
    *, exclude_reserved: bool,
) -> errors.NoRoomForGang:
    """Return why too few members fit.

    :param topology: of the parts of trees that levels name.
    :param anywhere: of whole hosts.
    :param most: the most members that fit as they are wanted.
    :param room: how many fit at least, wherever they are.
    """
    everywhere = _list_sites(anywhere, request)
    total = max(room, sum(planner.count_room(
        everywhere, everywhere.within, request.max_per_host).values()))
    reason = None
    if not total:
        reason = explain.explain_candidates(
            topology.snapshot, request.shape, max_candidates=1,
            exclude_reserved=exclude_reserved).reason
    levels_asked: Sequence[Level] = list(dict.fromkeys((*request.levels, _HOST)))
    largest = [_find_largest(topology if level.kind == "tree" else anywhere, level, request)
               for level in levels_asked]
    if request.within and most.count > largest[0].holds:
        largest[0] = errors.LargestDomain(
            request.within.text, most.topology.name(request.within, 0), most.count)
    return errors.NoRoomForGang(
        request.members, request.min_members, total, largest, reason)


def _list_sites(topology: _Topology, request: GangRequest) -> Sites:
    """Return all sites, whatever domains they are in."""
    return topology.make_sites(dataclasses.replace(
        request, within=None, pack_by=None, spread_by=None))[0]


def _find_largest(
    topology: _Topology, level: Level, request: GangRequest
) -> errors.LargestDomain:
    numbers = topology.number(level)
    room = planner.count_room(_list_sites(topology, request), numbers, request.max_per_host)
    room.pop(-1, None)
    if not room:
        return errors.LargestDomain(level.text, None, 0)
    largest = max(room, key=lambda number: room[number])
    site = int(np.flatnonzero(numbers == largest)[0])
    return errors.LargestDomain(level.text, topology.name(level, site), room[largest])
