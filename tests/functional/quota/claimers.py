"""Race tests of claims from other processes: what they run."""

from __future__ import annotations

import itertools
import random
import threading
import time

from placement_core.context import Context
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claim_expiry, claims
from placement_core.quota.records import Claim
from placement_core.testing import factories
from tests.functional.placement.races import processes
from tests.functional.quota.held import Cloud

_SECONDS = 60



def _claim(ctx, cloud, provider, project, hold_seconds=None) -> Claim:
    write = AllocationWrite(factories.new_uuid(), {provider: {"VCPU": 1}}, project, "user",
                            "INSTANCE", None)
    return cloud.claims.claim(ctx, write, hold_seconds=hold_seconds)


def claim(database, *, providers: list[str], projects: list[str], threads: int, count: int):
    """Claim one VCPU ``count`` times, from some threads, of each project in turn."""
    cloud = Cloud(Context(database))
    tickets = itertools.count()
    outcomes = []

    def play() -> None:
        ctx = Context(database)
        while (ticket := next(tickets)) < count:
            try:
                _claim(ctx, cloud, providers[ticket % len(providers)],
                       projects[ticket % len(projects)])
                outcomes.append("made")
            except Exception as error:
                outcomes.append(type(error).__name__)

    players = [threading.Thread(target=play) for _ in range(threads)]
    processes.wait_for_start()
    for player in players:
        player.start()
    for player in players:
        player.join()
    processes.say({name: outcomes.count(name) for name in set(outcomes)})


def live_until_killed(database, *, providers: list[str], projects: list[str], threads: int):
    """Hold, confirm, release and sweep; say what was acknowledged to be confirmed."""
    cloud = Cloud(Context(database))
    lock = threading.Lock()

    def play(number: int) -> None:
        ctx, chance = Context(database), random.Random(number)
        mine = []
        while True:
            try:
                made = _claim(ctx, cloud, chance.choice(providers), chance.choice(projects), 1)
                what = chance.random()
                if what < 0.3:
                    claims.confirm(ctx, made.consumer_uuid)
                    mine.append(made.consumer_uuid)
                    with lock:
                        processes.say({"confirmed": made.consumer_uuid})
                elif what < 0.6:
                    claims.release(ctx, made.consumer_uuid)
            except (claims.errors.QuotaExceeded, claims.errors.ClaimExpired):
                if mine and chance.random() < 0.5:
                    with lock:
                        processes.say({"released": mine[-1]})  # about to be
                    claims.release(ctx, mine.pop())
            claim_expiry.sweep(ctx)

    processes.wait_for_start()
    for number in range(threads):
        threading.Thread(target=play, args=(number,), daemon=True).start()
    time.sleep(_SECONDS)
