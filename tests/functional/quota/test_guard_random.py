"""Random claims: what the guard decides, and every sum it could be told, against an oracle."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import random

import fixtures

from placement_core import db, errors as core_errors
from placement_core.catalog import domains, projects
from placement_core.limits import limits
from placement_core.placement import allocations, inventories, resource_classes
from placement_core.placement.allocations import usage_counters
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import project_usage, usages
from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.quota import errors
from placement_core.testing import factories
from placement_plugins.enforcement.tree import Tree
from tests import databases
from tests.functional.quota import project_trees

#: Registered default: what a project may use itself where no limit is set for it.
_DEFAULTS = {"class:VCPU": 40, "class:MEMORY_MB": -1, "servers": 12}
_USERS = ("anna", "berta", "clara")
_EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
_CAPACITY = 1_000_000


def _find_unit(name):
    return CONSUMERS if name == "servers" else name.removeprefix("class:")


@dataclasses.dataclass
class _Oracle:
    """What everybody has, counted one by one.

    :ivar held: {consumer: (project, user, {resource class: amount})}.
    :ivar parents: {project: what is above it}.
    :ivar limits: {node: {resource name: limit}}.
    """

    held: dict[str, tuple[str, str, dict[str, int]]]
    parents: dict[str, str]
    limits: dict[str, dict[str, int]]

    def lineage(self, node):
        """Return a project and what is above it, the domain last."""
        nodes = [node]
        while nodes[-1] in self.parents:
            nodes.append(self.parents[nodes[-1]])
        return nodes

    def used(self, counted, *, without=None, user=None):
        """Return what the projects use for whom a condition holds, by class."""
        sums = collections.Counter()
        for uuid, (project, owner, amounts) in self.held.items():
            if uuid != without and counted(project) and user in (None, owner):
                sums.update({**amounts, CONSUMERS: 1})
        return +sums

    def judge(self, claims):
        """Return the limits that claims of one request would exceed.

        :param claims: {consumer: (project, {resource class: amount})}.
        """
        growth = collections.defaultdict(collections.Counter)
        for uuid, (project, amounts) in claims.items():
            growth[project].update({**amounts, CONSUMERS: 1})
            if uuid in self.held:
                growth[self.held[uuid][0]].subtract({**self.held[uuid][2], CONSUMERS: 1})
        excesses = set()
        for name, default in _DEFAULTS.items():
            unit = _find_unit(name)
            for project, more in growth.items():
                if more[unit] > 0:
                    excesses.update(self.find_excesses(project, name, unit, default, growth))
        return excesses

    def find_all(self, project, much):
        """Return all limits that bind a project, as exceeded by much of everything."""
        growth = {project: collections.Counter(VCPU=much, MEMORY_MB=much, **{CONSUMERS: much})}
        return {
            excess for name, default in _DEFAULTS.items()
            for excess in self.find_excesses(
                project, name, _find_unit(name), default, growth)}

    def find_excesses(self, project, name, unit, default, growth):
        """Yield the limits above a project that it exceeds, together with others below them."""
        for node in self.lineage(project):
            limit, scope = self.limits.get(node, {}).get(name), "subtree"
            if limit is None and node == project:
                limit, scope = default, "own"
            if limit is None or limit == -1:
                continue

            def counts(each, node=node, scope=scope):
                return each == node or (scope == "subtree" and node in self.lineage(each))

            used = self.used(counts)[unit]
            more = sum(amounts[unit] for each, amounts in growth.items() if counts(each))
            if more > 0 and used + more > limit:
                yield node, name, scope, limit, used, more


@databases.on_each_database
class TestRandomClaims(project_trees.TreeTestCase):
    """Two processes with usage indexes of their own take turns."""

    sizes = (1, 8, 90, 140, 500)

    def setUp(self):
        super().setUp()
        self.register(**{name.removeprefix("class:"): default
                         for name, default in _DEFAULTS.items()})
        self.processes = [self.made() for _ in range(2)]
        #: Of the processes; each relies for a while on what it knows.
        self.guards = {}
        self.index = UsageIndex(self.database)
        # So that many changes at once are not many.
        self.useFixture(fixtures.MonkeyPatch("placement_core.placement.usage.usage_index._FEW", 6))

    def test_against_an_oracle(self):
        for size in self.sizes:
            seed = size if not _EXPLORES else random.randrange(2**32)
            with self.during(f"tree of {size}, seed {seed}"):
                self.live(random.Random(seed), size)

    @contextlib.contextmanager
    def during(self, what):
        try:
            yield
        except Exception as error:
            error.add_note(what)
            raise

    def live(self, chance, size):
        self.grow(chance, size)
        for _ in range(45):
            self.decisions = chance.choice(self.processes)
            chance.choices(
                (self.claim_something, self.claim_several, self.write_many, self.give_back,
                 self.change_classes, self.change_projects, self.change_limits, self.fold),
                (9, 5, 2, 5, 3, 2, 4, 2))[0](chance)
            for _ in range(3):
                self.assert_bounds(chance)
            self.assert_sums(chance)

    def grow(self, chance, size):
        """Make a tree beside what is left of the worlds before."""
        self.domain = domain = domains.create(self.ctx, name=f"domain-{size}").id
        self.oracle = _Oracle({}, {}, {})
        self.nodes, self.limit_ids = [domain], {}
        with db.write(self.ctx):
            for number in range(size):
                self.add_project(chance, f"{number}")
        self.strangers = [f"stranger-{domain[:6]}-{number}" for number in range(3)]
        self.host = self.provider(VCPU=_CAPACITY, MEMORY_MB=_CAPACITY)
        # Their rows are numbered in another order than that in which they use something.
        some = [*self.nodes[1:9], *self.strangers]
        chance.shuffle(some)
        for project in some:
            self.owners.ensure(self.ctx, [self.write({self.host: {}}, project=project)])
        self.custom = []
        self.set_limit(chance, domain, "class:VCPU", 60)

    def add_project(self, chance, name):
        parent = chance.choice(self.nodes[-12:])
        project = projects.create(
            self.ctx, name=name, domain_id=self.domain,
            parent_id=None if parent == self.domain else parent).id
        self.oracle.parents[project] = parent
        self.nodes.append(project)

    # What happens ------------------------------------------------------------

    def amounts(self, chance):
        names = chance.sample(["VCPU", "MEMORY_MB", *self.custom], 2)
        return {name: chance.randint(1, 14) for name in names}

    def someone(self, chance):
        busy = {project for project, *_ in self.oracle.held.values()}
        return chance.choice([*self.nodes[1:], *self.nodes[1:9] * 5, *sorted(busy) * 3,
                              *self.strangers])

    def claim_something(self, chance):
        self.claim_at_once([self.draw_claim(chance)])

    def claim_several(self, chance):
        """Consumers of several projects in one request, some of which change hands."""
        self.claim_at_once([self.draw_claim(chance, keeps_owner=0.5)
                            for _ in range(chance.randint(2, 4))])

    def draw_claim(self, chance, *, keeps_owner=1.0):
        known = sorted(self.oracle.held)
        uuid = chance.choice(known) if known and chance.random() < 0.3 else factories.new_uuid()
        project, user, _ = self.oracle.held.get(uuid, (None, None, None))
        if project is None or chance.random() >= keeps_owner:
            project, user = self.someone(chance), chance.choice(_USERS)
        return uuid, project, user, self.amounts(chance)

    def claim_at_once(self, drawn):
        claims = {uuid: (project, user, amounts) for uuid, project, user, amounts in drawn}
        expected = self.oracle.judge({
            uuid: (project, amounts) for uuid, (project, _, amounts) in claims.items()})
        writes = [
            self.write({self.host: amounts}, consumer=uuid, project=project, user=user, kind=None)
            for uuid, (project, user, amounts) in claims.items()]
        refused = set()
        try:
            allocations.replace(self.context(), writes, [self.guard()], self.owners)
        except errors.QuotaExceeded as refusal:
            refused = {(each.node_id, each.resource_name, each.scope, each.limit, each.used,
                        each.asked) for each in refusal.exceeded_limits}
        else:
            self.oracle.held.update(claims)
        self.assertEqual(expected, refused)

    def guard(self):
        return self.guards.get(self.decisions) or self.guards.setdefault(
            self.decisions, super().guard())

    def write_many(self, chance):
        """Projects change at once, more than are read one by one; nobody guards it."""
        self.guards.clear()  # as if the service was restarted, and enforces limits now
        writes = [self.write({self.host: self.amounts(chance)}, consumer=factories.new_uuid(),
                             project=self.someone(chance), user=chance.choice(_USERS))
                  for _ in range(9)]
        allocations.replace(self.context(), writes)
        for write in writes:
            self.oracle.held[write.consumer_uuid] = (
                write.project_id, write.user_id,
                dict(next(iter(write.allocations.values()))))

    def give_back(self, chance):
        known = sorted(self.oracle.held)
        for uuid in chance.sample(known, min(len(known), chance.choice((1, 1, 3, 12)))):
            allocations.delete(self.context(), uuid)
            del self.oracle.held[uuid]

    def fold(self, chance):
        usage_counters.fold(self.context(), merge_slots=chance.random() < 0.5)

    def change_classes(self, chance):
        unused = [name for name in self.custom
                  if not any(name in amounts for *_, amounts in self.oracle.held.values())]
        if unused and chance.random() < 0.6:
            name = chance.choice(unused)
            inventories.delete(self.context(), self.host.uuid, name)
            resource_classes.delete(self.context(), name)
            self.custom.remove(name)
            return
        name = f"CUSTOM_{chance.randrange(10**9)}"
        resource_classes.create(self.context(), name)
        if chance.random() < 0.7:
            inventories.create(
                self.context(), self.host.uuid, name, InventoryValues(_CAPACITY),
                allow_fully_reserved=True)
            self.custom.append(name)

    def change_projects(self, chance):
        if chance.random() < 0.4 or len(self.nodes) < 3:
            self.add_project(chance, f"more-{chance.randrange(10**9)}")
            return
        project, parent = chance.choice(self.nodes[1:]), chance.choice(self.nodes)
        if project in self.oracle.lineage(parent):
            return
        with contextlib.suppress(core_errors.Error):
            projects.update(self.context(), project, parent_id=parent)
            self.oracle.parents[project] = parent

    def change_limits(self, chance):
        name = chance.choice(list(_DEFAULTS))
        if self.limit_ids and chance.random() < 0.3:
            node, name = chance.choice(sorted(self.limit_ids))
            limits.delete(self.context(), self.catalog, Tree(self.conf),
                          self.limit_ids.pop((node, name)))
            del self.oracle.limits[node][name]
            return
        self.set_limit(chance, chance.choice([*self.nodes[:9], *self.nodes]), name,
                       chance.choice((-1, 0, 5, 10, 20, 40, 60)))

    def set_limit(self, chance, node, name, value):
        # A limit above the nearest one over it is refused.
        with contextlib.suppress(core_errors.Error):
            id_ = self.limit_ids.get((node, name))
            if id_ is None:
                [id_] = self.limit(node, **{name.removeprefix("class:"): value})
            else:
                limits.update(self.context(), self.catalog, Tree(self.conf), id_,
                              {"resource_limit": value})
            self.limit_ids[node, name] = id_
            self.oracle.limits.setdefault(node, {})[name] = value

    # What is to be seen of it --------------------------------------------------

    def assert_bounds(self, chance):
        """Ask for so much that every bound names what is used below it."""
        project, much = self.someone(chance), 10**6
        excesses = self.decisions.decide(
            self.context(), project_id=project, service_id=self.service, region_id=None,
            deltas=dict.fromkeys(_DEFAULTS, much)).excesses
        expected = self.oracle.find_all(project, much)
        self.assertEqual(expected, {
            (each.binding.node_id, each.resource_name, each.binding.scope, each.binding.limit,
             each.usage, each.delta) for each in excesses})

    def assert_sums(self, chance):
        some = [self.someone(chance) for _ in range(3)]
        expected = {
            project: dict(self.oracle.used(
                lambda each, project=project: each == project))
            for project in some}
        expected = {project: used for project, used in expected.items() if used}
        self.assertEqual(expected, project_usage.read(self.ctx, some))
        known = self.index.by_project(self.ctx, some, moves_once=False)
        self.assertEqual(expected, {project: used for project, used in known.items() if used})
        user = chance.choice(_USERS)
        of_user = self.oracle.used(lambda each: each == some[0], user=user)
        self.assertEqual(
            dict(of_user), project_usage.read(self.ctx, some[:1], user_id=user).get(some[0], {}))
        shown = collections.Counter()
        for each in usages.for_project(self.ctx, some[0]):
            shown.update({**each.resources, CONSUMERS: each.consumer_count})
        self.assertEqual(expected.get(some[0], {}), dict(shown))
        sums = self.oracle.used(lambda each: each in some)
        present = self.decisions.read_usages(self.context())
        for name in ("VCPU", CONSUMERS, *self.custom):
            self.assertEqual(sums[name], present.total(ProjectSet(tuple(set(some))), name))


class TestRandomClaimsInLargeTrees(TestRandomClaims):
    """The same where every tree is large."""

    sizes = (1, 8, 30)

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.locked_usage.MOST_PROJECTS", -1))
