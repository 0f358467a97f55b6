"""Admission as a child would do it: minute by minute, slot by slot, every way to put them.

It shares nothing with the product but what worlds are made of: plain tuples. A
minute is a unit of time here; the product is told seconds.
"""

from __future__ import annotations

import dataclasses
import itertools


@dataclasses.dataclass
class World:
    """Hosts by id, who has what of them, and minutes of cleaning after each use.

    :ivar sizes: {host: (vcpus, memory, disk)}
    :ivar taken: (host, start, end, (vcpus, memory, disk), whole)
    :ivar down: hosts that take nothing new.
    :ivar racks: {host: its rack}; others are in none.
    """

    sizes: dict[int, tuple[int, int, int]]
    taken: list[tuple[int, int, int, tuple[int, int, int], bool]]
    cleaning: int = 0
    down: frozenset[int] = frozenset()
    licences: int = 0
    lent: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    racks: dict[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Want:
    """A reservation: whole hosts (``least``), slots (``amount``), or licences."""

    kind: str
    hosts: frozenset[int] = frozenset()
    least: int = 0
    most: int = 0
    size: tuple[int, int, int] = (0, 0, 0)
    amount: int = 0
    affinity: bool | None = None
    fixed: dict[int, int] = dataclasses.field(default_factory=dict)
    rules: dict[str, str] = dataclasses.field(default_factory=dict)


def domains(world, level, put):
    """Return how much lies in each domain of a level: ``host``, or ``property:rack``."""
    counts = {}
    for host, slots in put.items():
        name = host if level == "host" else world.racks[host]
        counts[name] = counts.get(name, 0) + slots
    return counts


def cost(world, want, put):
    """Return what is to be low: how many domains it is packed in, or the most in one."""
    if "pack_by" in want.rules:
        return len(domains(world, want.rules["pack_by"], put))
    if "spread_by" in want.rules:
        return max(domains(world, want.rules["spread_by"], put).values())
    return 0


def best_cost(world, start, end, want):
    """Return the lowest cost of any way in which a reservation fits."""
    return min(cost(world, want, way) for way in ways(world, want)
               if stands(world, start, end, [want], [way]))


def load(world, host, minute):
    """Return what is taken of a host in a minute, and whether somebody has all of it."""
    here = [each for each in world.taken
            if each[0] == host and each[1] <= minute < each[2] + world.cleaning]
    return [sum(each[3][at] for each in here) for at in range(3)], any(
        each[4] for each in here), bool(here)


def stands(world, start, end, wants, placed):
    """Say whether reservations fit that were put so: a {host: slots} for each want."""
    for host, size in world.sizes.items():
        wholes = sum(1 for want, at in zip(wants, placed, strict=True)
                     if want.kind == "host" and at.get(host))
        mine = [sum(want.size[column] * at.get(host, 0)
                    for want, at in zip(wants, placed, strict=True) if want.kind == "slots")
                for column in range(3)]
        if not wholes and not any(mine):
            continue
        if wholes and (wholes > 1 or any(mine)):
            return False
        for minute in range(start, end + world.cleaning):
            used, whole, any_at_all = load(world, host, minute)
            if whole or (wholes and any_at_all):
                return False
            if any(used[at] + mine[at] > size[at] for at in range(3)):
                return False
    for minute in range(start, end):
        lent = sum(amount for begin, stop, amount in world.lent if begin <= minute < stop)
        asked = sum(want.amount for want in wants if want.kind == "licence")
        if asked and lent + asked > world.licences:
            return False
    return True


def ways(world, want):
    """Yield every way to put a reservation on hosts, whether it fits or not."""
    if want.kind == "licence":
        yield {}
        return
    for way in _ways_anywhere(world, want):
        if "within" not in want.rules or len(domains(world, want.rules["within"], way)) == 1:
            yield way


def may_have(world, want):
    """Return the hosts that a reservation may get: with rules, only those in a rack."""
    hosts = want.hosts - world.down
    return hosts & set(world.racks) if "property:rack" in want.rules.values() else hosts


def _ways_anywhere(world, want):
    allowed = sorted(may_have(world, want) | set(want.fixed))
    if want.kind == "host":
        for chosen in itertools.combinations(allowed, max(want.least, len(want.fixed))):
            if set(want.fixed) <= set(chosen):
                yield dict.fromkeys(chosen, 1)
        return
    for counts in distributions(want.amount, len(allowed)):
        put = {host: count for host, count in zip(allowed, counts, strict=True) if count}
        if any(put.get(host, 0) < count for host, count in want.fixed.items()):
            continue
        if want.affinity is True and len(put) != 1:
            continue
        if want.affinity is False and max(put.values()) > 1:
            continue
        yield put


def distributions(amount, places):
    if not places:
        return
    if places == 1:
        yield (amount,)
        return
    for first in range(amount + 1):
        for rest in distributions(amount - first, places - 1):
            yield (first, *rest)


def fits(world, start, end, wants):
    """Say whether there is any way to put all reservations on hosts."""
    def put(so_far):
        if not stands(world, start, end, wants[:len(so_far)], so_far):
            return False
        if len(so_far) == len(wants):
            return True
        return any(put([*so_far, way]) for way in ways(world, wants[len(so_far)]))
    return put([])


def next_fit(world, since, minutes, wants):
    """Return the first minute at which it fits, or None."""
    last = max([since, *(each[2] + world.cleaning for each in world.taken),
                *(each[1] for each in world.lent)])
    for start in range(since, last + 1):
        if fits(world, start, start + minutes, wants):
            return start
    return None


def free(world, minute):
    """Return (hosts of which nothing is taken, vcpus, memory, disk) that are free."""
    found = [0, 0, 0, 0]
    for host, size in world.sizes.items():
        used, whole, any_at_all = load(world, host, minute)
        if host in world.down or whole:
            continue
        found[0] += not any_at_all
        for at in range(3):
            found[1 + at] += max(0, size[at] - used[at])
    return tuple(found)


def most(world, start, end, want):
    """Return how much of a reservation fits, on all hosts together, its affinity observed.

    If it is to lie within one domain, on those of the best one.
    """
    level = want.rules.get("within")
    if level is None:
        return _most_on(world, start, end, want, may_have(world, want))
    parts = {}
    for host in may_have(world, want):
        parts.setdefault(host if level == "host" else world.racks[host], set()).add(host)
    return max((_most_on(world, start, end, want, hosts) for hosts in parts.values()), default=0)


def _most_on(world, start, end, want, hosts):
    found = 0
    for host in hosts:
        def here(slots, host=host):
            one = dataclasses.replace(want, least=1, amount=slots)
            return stands(world, start, end, [one], [{host: slots}])
        if want.kind == "host":
            found += here(1)
            continue
        slots = max((count for count in range(1, want.amount + 1) if here(count)), default=0)
        if want.affinity is True:
            slots = slots if slots == want.amount else 0
        elif want.affinity is False:
            slots = min(slots, 1)
        found += slots
    return found
