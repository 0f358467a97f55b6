"""The hierarchical models the naive way: the judge of the real ones.

It works on what a database holds (parents, limits with -1, usage of each project), goes
up from every node by hand, and decides claims by adding them and looking at
everything; it shares no code with what it judges.
"""

from __future__ import annotations


class World:
    """Projects, the limits of one resource, and what is used of it.

    :ivar parents: {node: parent or None}; no loops.
    :ivar limits: {node: -1 or what was set}.
    :ivar used: {node: what it uses itself}.
    """

    def __init__(self, parents, limits, used, default):
        self.parents = parents
        self.limits = limits
        self.used = used
        self.default = default

    def __repr__(self):
        return f"World({self.parents}, {self.limits}, {self.used}, {self.default})"

    def above(self, node):
        found = []
        while self.parents[node] is not None:
            node = self.parents[node]
            found.append(node)
        return found

    def subtree_usage(self, node):
        return sum(amount for each, amount in self.used.items()
                   if each == node or node in self.above(each))


def faults(world, *, to_default=False, deepest=None, factor=None):
    """Return what is wrong with a world: [(nodes it is about, nodes it concerns)].

    The first is what a clash names: two nodes, or one. The second says for which
    changes it is to be reported.

    :param to_default: a project with nothing set above it is held to the default.
    :param deepest: no limit below this level.
    :param factor: (numerator, denominator), by which those below may exceed together.
    """
    found = []
    below = {}
    for node in world.limits:
        above = world.above(node)
        if deepest is not None and len(above) + 1 > deepest:
            found.append(({node}, {node}))
        upper = next((each for each in above if each in world.limits), None)
        if upper is None:
            if to_default and above and _more(world.limits[node], world.default):
                found.append(({node}, {node, *above}))
            continue
        way = {node, *above[:above.index(upper) + 1]}
        if _more(world.limits[node], world.limits[upper]):
            found.append(({node, upper}, way))
        below.setdefault(upper, []).append((node, way))
    if factor is not None:
        for upper, listed in below.items():
            parts = [world.limits[node] for node, _ in listed]
            together = -1 if -1 in parts else sum(parts)
            if _more(together, _times(world.limits[upper], factor)):
                found.append(({upper}, set.union(*(way for _, way in listed))))
    return found


def fits(world, node, delta, *, hierarchical=True, factor=(1, 1)):
    """Say whether a project may use ``delta`` more, a delta from 0 on."""
    after = World(
        world.parents, world.limits, {**world.used, node: world.used[node] + delta},
        world.default)
    if _more(after.used[node], world.limits.get(node, world.default)):
        return False
    if not hierarchical:
        return True
    return not any(
        _more(after.subtree_usage(each), _times(limit, factor))
        for each, limit in world.limits.items() if each == node or each in world.above(node))


def _more(one, other):
    """Say whether one amount is more than another; -1 is more than every number."""
    if other == -1:
        return False
    return one == -1 or one > other


def _times(limit, factor):
    return -1 if limit == -1 else limit * factor[0] // factor[1]
