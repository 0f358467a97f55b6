"""Allocation candidates the naive way: the judge of the real search.

Written from spec placement_api §4.2 and §4.3 with plain sets and products, and
from nothing else; it shares no code with what it judges.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

from tests import snapshots


class Provider:
    """A provider as the spec sees it."""

    def __init__(self, row, rows):
        self.id = row.id
        self.uuid = row.uuid
        self.parent = row.parent_id
        self.inventories = {
            snapshots.NAMES.class_names[each.class_id]: each for each in row.inventories}
        self.traits = {snapshots.NAMES.trait_names[trait] for trait in row.traits}
        self.aggregates = set(row.aggregates)
        self.shares = snapshots.SHARES in self.traits
        self.line = [self.id]
        while rows[self.line[-1]].parent_id is not None:
            self.line.append(rows[self.line[-1]].parent_id)
        self.root = self.line[-1]

    def fits(self, name, amount):
        each = self.inventories.get(name)
        return (each is not None and each.used + amount <= each.capacity
                and each.min_unit <= amount <= each.max_unit and amount % each.step_size == 0)


class Oracle:
    """All candidates of a request in a snapshot of records."""

    def __init__(self, rows, request):
        by_id = {row.id: row for row in rows}
        self.providers = {row.id: Provider(row, by_id) for row in rows}
        self.by_uuid = {provider.uuid: provider for provider in self.providers.values()}
        self.request = request
        self.groups = sorted(request.groups, key=lambda group: group.suffix)

    def anchors(self, provider):
        found = {provider.root}
        if provider.shares:
            found |= {other.root for other in self.providers.values()
                      if other.aggregates & provider.aggregates}
        return found

    def combinations(self):
        """Return {(allocations, mappings): set of anchors}; both hashable."""
        found = defaultdict(set)
        if any(group.in_tree and group.in_tree not in self.by_uuid for group in self.groups):
            return found
        for anchor in {provider.root for provider in self.providers.values()}:
            if not self.right_root(self.providers[anchor]):
                continue
            options = [self.unsuffixed(group, anchor) if group.suffix == ""
                       else self.granular(group, anchor) for group in self.groups]
            for choice in itertools.product(*options):
                if self.legal(choice):
                    found[self.canonical(choice)].add(anchor)
        return found

    def right_root(self, root):
        wanted = self.request.root_traits
        return (all(names & root.traits for names in wanted.required)
                and not wanted.forbidden & root.traits)

    def granular(self, group, anchor):
        """Return the options of a granular group: [{class: provider}], one provider each."""
        options = []
        for provider in self.providers.values():
            if anchor not in self.anchors(provider):
                continue
            if not group.resources and not group.traits.required and (
                    not group.aggregates.member_of):
                continue
            if (all(provider.fits(*pair) for pair in group.resources.items())
                    and all(names & provider.traits for names in group.traits.required)
                    and not group.traits.forbidden & provider.traits
                    and all(uuids & provider.aggregates for uuids in group.aggregates.member_of)
                    and not group.aggregates.forbidden & provider.aggregates
                    and (not group.in_tree or not group.resources
                         or self.by_uuid[group.in_tree].root == provider.root)):
                options.append((provider, dict.fromkeys(group.resources, provider)))
        return options

    def unsuffixed(self, group, anchor):
        """Return the options of the unsuffixed group: [{class: provider}]."""
        root = self.providers[anchor]
        wanted = group.aggregates

        def inside(provider):
            return all(uuids & provider.aggregates for uuids in wanted.member_of)

        per_class = []
        for name, amount in group.resources.items():
            fitting = []
            for provider in self.providers.values():
                if not provider.fits(name, amount) or anchor not in self.anchors(provider):
                    continue
                at_home = provider.root == anchor
                if not (inside(provider) or (at_home and inside(root))):
                    continue
                if wanted.forbidden & (provider.aggregates | root.aggregates):
                    continue
                if group.in_tree and (
                        not at_home or self.by_uuid[group.in_tree].root != anchor):
                    continue
                fitting.append(provider)
            per_class.append(fitting)
        options = []
        for providers in itertools.product(*per_class):
            traits = set().union(*(provider.traits for provider in providers))
            if (all(names & traits for names in group.traits.required)
                    and not group.traits.forbidden & traits):
                options.append((None, dict(zip(group.resources, providers, strict=True))))
        return options

    def legal(self, choice):
        request = self.request
        chosen = {group.suffix: provider for group, (provider, _)
                  in zip(self.groups, choice, strict=True) if group.suffix}
        if request.isolate and len({each.id for each in chosen.values()}) < len(chosen):
            return False
        for suffixes in request.same_subtree:
            providers = [chosen[suffix] for suffix in suffixes]
            if not any(all(top.id in other.line for other in providers) for top in providers):
                return False
        sums = defaultdict(int)
        for group, (_, used) in zip(self.groups, choice, strict=True):
            for name, provider in used.items():
                sums[provider.id, name] += group.resources[name]
        for (id_, name), amount in sums.items():
            each = self.providers[id_].inventories[name]
            if each.used + amount > each.capacity or amount > each.max_unit:
                return False
        if not request.nested:
            used = {id_ for id_, _ in sums}
            if len({self.providers[id_].root for id_ in used}) < len(used):
                return False
        return True

    def canonical(self, choice):
        sums = defaultdict(int)
        mappings = defaultdict(set)
        for group, (provider, used) in zip(self.groups, choice, strict=True):
            for name, each in used.items():
                sums[each.uuid, name] += group.resources[name]
                mappings[group.suffix].add(each.uuid)
            if provider is not None:
                mappings[group.suffix].add(provider.uuid)
        return (
            frozenset((uuid, name, amount) for (uuid, name), amount in sums.items()),
            frozenset((suffix, frozenset(uuids)) for suffix, uuids in mappings.items()))

    def summarised(self, found):
        """Return the uuids that summaries are shown for."""
        used = {uuid for allocations, _ in found for uuid, _, _ in allocations}
        nested = any(provider.parent for provider in self.providers.values())
        if nested and not self.request.nested:
            return used
        roots = {self.by_uuid[uuid].root for uuid in used}
        return {provider.uuid for provider in self.providers.values() if provider.root in roots}


def canonical(document):
    """Return what a document offers as ``Oracle.canonical`` does, in order."""
    return [
        (frozenset((uuid, name, amount) for uuid, used in each["allocations"].items()
                   for name, amount in used["resources"].items()),
         frozenset((suffix, frozenset(uuids)) for suffix, uuids in each["mappings"].items()))
        for each in document["allocation_requests"]]
