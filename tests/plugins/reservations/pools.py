"""Random pools of hosts and bookings, for the oracle and as the planner gets them."""

from __future__ import annotations

import json

from oslo_config import cfg

from placement_core.plugin_api.reservations import (
    Amounts,
    Hosts,
    ReservationPlugin,
    ReservationSpec,
    Share,
    Size,
    Window,
)
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import AmountBooking, Bookings, Pool
from placement_plugins.reservations import host, instance
from tests.plugins.reservations import oracle

HOST = host.HostReservations(cfg.ConfigOpts())
INSTANCE = instance.InstanceReservations(cfg.ConfigOpts())

MINUTE = 60
#: A time that is no round number of anything.
EPOCH = 1_800_000_060


class Licences(ReservationPlugin):
    resource_type = "virtual:licence"
    create_schema = update_schema = {"type": "object"}

    def __init__(self, capacity):
        self.capacity = capacity

    def values(self, given, before=None, *, started=False):
        return dict(given)

    def need(self, spec, hosts):
        return Amounts({"licences": spec.values["amount"]})

    def capacities(self):
        return {"licences": self.capacity}


def at(minute):
    return EPOCH + minute * MINUTE


def window(start, end):
    return Window.of(at(start), at(end))


def random_world(chance):
    """Make a world that could be: what is taken was free when it was taken."""
    count = chance.randint(1, 4)
    ids = sorted(chance.sample(range(1, 30), count))
    world = oracle.World(
        {each: tuple(chance.choice(((4, 4, 4), (8, 4, 6), (2, 8, 3), (6, 6, 6))))
         for each in ids}, [], chance.choice((0, 0, 1, 3)), licences=chance.randint(1, 6))
    for _ in range(chance.randint(0, 12)):
        place = chance.choice(ids)
        start = chance.randint(0, 18)
        end = start + chance.randint(1, 8)
        whole = chance.random() < 0.25
        want = oracle.Want("host", frozenset({place}), 1, 1) if whole else oracle.Want(
            "slots", frozenset({place}), size=random_size(chance), amount=chance.randint(1, 2))
        if oracle.fits(world, start, end, [want]):
            slots = 1 if whole else want.amount
            size = world.sizes[place] if whole else want.size
            world.taken.append((place, start, end, tuple(slots * each for each in size), whole))
    for _ in range(chance.randint(0, 3)):
        start = chance.randint(0, 18)
        end = start + chance.randint(1, 8)
        want = oracle.Want("licence", amount=chance.randint(1, 3))
        if oracle.fits(world, start, end, [want]):
            world.lent.append((start, end, want.amount))
    if chance.random() < 0.2:
        world.down = frozenset(chance.sample(ids, 1))
    world.racks = {each: chance.choice("ab") for each in ids if chance.random() < 0.9}
    return world


def random_rules(chance, world):
    """Return rules of topology, none at all for every second reservation."""
    if chance.random() < 0.5:
        return {}
    levels = ("host", "property:rack") if world.racks else ("host",)
    rules = {}
    if chance.random() < 0.6:
        rules["within"] = chance.choice(levels[::-1][:1] if chance.random() < 0.8 else levels)
    if not rules or chance.random() < 0.5:
        rules[chance.choice(("pack_by", "spread_by"))] = chance.choice(levels)
    return rules


def random_size(chance):
    return chance.choice(((1, 1, 1), (2, 1, 1), (1, 3, 1), (2, 2, 2), (4, 4, 3), (3, 2, 1)))


def random_want(chance, world, kinds=("host", "slots", "slots", "slots", "licence")):
    kind = chance.choice(kinds)
    ids = sorted(world.sizes)
    hosts = frozenset(ids if chance.random() < 0.6 else chance.sample(
        ids, chance.randint(1, len(ids))))
    if kind == "licence":
        return oracle.Want(kind, amount=chance.randint(1, 4))
    rules = random_rules(chance, world)
    if kind == "host":
        least = chance.randint(1, min(3, len(ids)))
        return oracle.Want(
            kind, hosts, least, least + chance.choice((0, 0, 1, 5)), rules=rules)
    return oracle.Want(kind, hosts, size=random_size(chance), amount=chance.randint(1, 4),
                       affinity=chance.choice((True, False, None)), rules=rules)


def pool(world, promised=()):
    ids = sorted(world.sizes)
    return Pool(
        Hosts.of([(each, *world.sizes[each], each not in world.down, each in promised)
                  for each in ids], properties(world)),
        Bookings.of([(place, at(start), at(end), *amounts, whole)
                     for place, start, end, amounts, whole in world.taken]),
        [AmountBooking(("virtual:licence", "licences"), at(start), at(end), amount)
         for start, end, amount in world.lent],
        cleaning_seconds=world.cleaning * MINUTE)


def properties(world):
    ids = sorted(world.sizes)
    racks = {"rack": [world.racks.get(each) for each in ids]} if world.racks else {}
    return {"id": ids, "hypervisor_hostname": [f"host-{each}" for each in ids], **racks}


def requirement(want, ids):
    """Return the hosts of some ids that a want may have, and its rules, as clients write them."""
    among = [] if want.hosts == set(ids) else [
        ["or", *(["=", "$id", str(each)] for each in sorted(want.hosts))]]
    parts = [*among, *(["==", f"${word}", level] for word, level in want.rules.items())]
    return json.dumps(["and", *parts] if len(parts) > 1 else parts[0]) if parts else ""


def wanted(world, wants, held=(), *, started=False):
    """Return wants as requests to plugins; the hosts they may have as a requirement."""
    found = []
    for number, want in enumerate(wants):
        among = requirement(want, world.sizes)
        if want.kind == "licence":
            plugin, given = Licences(world.licences), {"amount": want.amount}
        elif want.kind == "host":
            plugin, given = HOST, {
                "min": want.least, "max": want.most, "hypervisor_properties": among}
        else:
            plugin, given = INSTANCE, {
                "vcpus": want.size[0], "memory_mb": want.size[1], "disk_gb": want.size[2],
                "amount": want.amount, "affinity": want.affinity, "resource_properties": among}
        found.append(ReservationRequest(plugin, ReservationSpec(
            f"r{number}", "p", plugin.values(given), held[number] if held else (), started)))
    return found


def shares(world, want, placed):
    """Return what a want has that was put so."""
    whole = want.kind == "host"
    return [Share(each, slots, Size(*(world.sizes[each] if whole else want.size)), whole)
            for each, slots in sorted(placed.items())]


def placed(granted):
    """Return what was granted as the oracle speaks of it."""
    return [{share.host_id: share.slots for share in each.shares} for each in granted]


def full(chance, hosts=6):
    """Make empty hosts, and reservations that fill them to the last of some resource."""
    sizes = chance.sample(range(1, 6), chance.randint(2, 3))
    wants = [oracle.Want("slots", size=(size, 1, 1), affinity=None) for size in sizes]
    world = oracle.World({}, [])
    for place in range(1, chance.randint(2, hosts) + 1):
        here = [chance.choice(wants) for _ in range(chance.randint(1, 3))]
        for want in here:
            want.amount += 1
        world.sizes[place] = (sum(want.size[0] for want in here), 9, 9)
    wants = [want for want in wants if want.amount]
    if chance.random() < 0.4:
        world.sizes[20] = (chance.randint(1, 12), 9, 9)
        wants.append(oracle.Want("host", least=1, most=1))
    for want in wants:
        want.hosts = frozenset(world.sizes)
    return world, wants


def tight(chance, hosts, count):
    """Make many empty hosts in four racks, and reservations that fit there, with little to spare.

    They fit, because each host is made as large as what is put there, and little larger.
    """
    world = oracle.World({}, [], racks={
        place: chance.choice("abcd") for place in range(1, hosts + 1)})
    wants = []
    for _ in range(count):
        kind = chance.choice(("slots", "slots", "slots", "host"))
        wants.append(oracle.Want(
            kind, frozenset(world.racks),
            size=(chance.randint(1, 5), chance.randint(1, 4), chance.randint(1, 3)),
            affinity=chance.choice((None, None, False)) if kind == "slots" else None,
            rules={"within": "property:rack"} if chance.random() < 0.4 else {}))
    homes = [chance.choice("abcd") for _ in wants]
    for place, rack in world.racks.items():
        near = [want for want, home in zip(wants, homes, strict=True)
                if home == rack or not want.rules]
        wholes = [want for want in near if want.kind == "host"]
        slots = [want for want in near if want.kind == "slots"]
        if wholes and chance.random() < 0.3:
            want = chance.choice(wholes)
            want.least = want.most = want.least + 1
            world.sizes[place] = (chance.randint(1, 9),) * 3
            continue
        here = [chance.choice(slots) for _ in range(chance.randint(0, 3))] if slots else []
        here = [want for at, want in enumerate(here)
                if want.affinity is None or want not in here[:at]]
        for want in here:
            want.amount += 1
        world.sizes[place] = tuple(
            sum(want.size[column] for want in here) + chance.randint(0, 2)
            for column in range(3))
    return world, [want for want in wants if want.least or want.amount]
