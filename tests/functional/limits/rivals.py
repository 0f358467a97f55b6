"""Race tests of limits from other processes: what they run."""

import random

from oslo_config import cfg

from placement_core.context import Context
from placement_core.limits import bulk_register, errors, limits, registered, users
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.flat import Flat
from placement_plugins.enforcement.strict_two_level import StrictTwoLevel
from tests.functional.placement.races.processes import say, wait_for_start


def create(database, *, kind, items):
    """Create the same items as everybody else, at the same moment."""
    ctx, catalog = Context(database), LocalCatalog(cfg.ConfigOpts())
    wait_for_start()
    try:
        if kind == "registered_limit":
            registered.create_many(ctx, catalog, items)
        elif kind == "limit":
            limits.create_many(ctx, catalog, StrictTwoLevel(cfg.ConfigOpts()), items)
        else:
            users.create_many(ctx, catalog, items)
        say({"outcome": "created"})
    except Exception as error:
        say({"outcome": type(error).__name__})


def register(database, *, items):
    """Register a service's list, as every node of a deployment does at its start."""
    ctx, catalog = Context(database), LocalCatalog(cfg.ConfigOpts())
    wait_for_start()
    say({"states": [each.state for each in bulk_register.register(ctx, catalog, items)]})


def change(database, *, ids, rounds, seed):
    """Raise and lower limits at random; refusals are counted."""
    ctx, catalog = Context(database), LocalCatalog(cfg.ConfigOpts())
    model = StrictTwoLevel(cfg.ConfigOpts())
    chance, refused = random.Random(seed), 0
    wait_for_start()
    for _ in range(rounds):
        try:
            limits.update(ctx, catalog, model, chance.choice(ids),
                          {"resource_limit": chance.choice([-1, *range(10)])})
        except errors.HierarchyClash:
            refused += 1
    say({"refused": refused})


def set_until_gone(database, *, items):
    """Make limits again and again, until each project is gone from the catalog."""
    ctx, catalog = Context(database), LocalCatalog(cfg.ConfigOpts())
    model = Flat(cfg.ConfigOpts())
    outcomes = []
    wait_for_start()
    while items:
        for item in list(items):
            try:
                limits.create_many(ctx, catalog, model, [item])
                outcomes.append("created")
            except errors.DuplicateLimit as error:
                outcomes.append(type(error).__name__)
            except errors.UnknownLimitReference as error:
                outcomes.append(type(error).__name__)
                items.remove(item)
    say({name: outcomes.count(name) for name in set(outcomes)})
