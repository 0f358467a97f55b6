"""The base of tests of lease policy: leases under the rules of options and limits."""

from __future__ import annotations

import datetime
import functools

from oslo_config import cfg

from placement_core import amounts, conf as options
from placement_core.catalog import domains, projects, services
from placement_core.limits import limits, registered
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota import resources
from placement_core.quota.decisions import Decisions
from placement_core.quota.limit_sources import LimitSource
from placement_core.reservations import tables
from placement_core.reservations.leases.transitions import Transitions
from placement_core.reservations.policy.rules import LeaseRules
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.tree import Tree
from placement_plugins.limits.local import LocalLimits
from tests.functional.reservations import lease_cases


class RuledTestCase(lease_cases.LeasesTestCase):
    """A domain, a trunk below it with two leaves, a pool of three hosts.

    :cvar options: of the service, {group__name: value}.
    """

    options = {}

    def setUp(self):
        super().setUp()
        self.catalog, self.limits = LocalCatalog(cfg.ConfigOpts()), LocalLimits(cfg.ConfigOpts())
        self.service_id = services.create(self.ctx, service_type="compute").id
        self.domain = domains.create(self.ctx, name="garden").id
        self.trunk = self.project("trunk")
        self.left, self.right = self.project("left", self.trunk), self.project("right", self.trunk)
        self.hosts(*[(16, 32_768, 500)] * 3)
        self.rule(**self.options)

    def rule(self, *, unregistered=amounts.UNLIMITED, **values):
        """Build the service with some options."""
        self.rules = rules(values, Decisions(
            UsageIndex(self.database), self.catalog, self.limits, Tree(cfg.ConfigOpts()),
            resources=resources.parse(
                ["servers=consumers", "instances=instances", "cores=VCPU+PCPU",
                 "ram=MEMORY_MB"]),
            unregistered=unregistered))
        self.leases = self.service()
        self.transitions = Transitions(self.plugins, self.provisioner, self.rules)

    def project(self, name, parent=None):
        return projects.create(
            self.ctx, name=name, domain_id=self.domain, parent_id=parent).id

    def register(self, values):
        """Register limits: {name: default}."""
        registered.create_many(self.ctx, self.catalog, [
            {"service_id": self.service_id, "resource_name": name, "default_limit": default}
            for name, default in values.items()])

    def limit(self, node, values):
        whose = "domain_id" if node == self.domain else "project_id"
        limits.create_many(self.ctx, self.catalog, Tree(cfg.ConfigOpts()), [
            {whose: node, "service_id": self.service_id, "resource_name": name,
             "resource_limit": value} for name, value in values.items()])

    def limit_after_prepare(self, node, value):
        """Let somebody set a limit when the next lease has been prepared."""
        prepare = LeaseRules.prepare

        def set_limit(*arguments, **named):
            check = prepare(self.rules, *arguments, **named)
            self.rules.prepare = functools.partial(prepare, self.rules)
            self.limit(node, {"lease:vcpu_hours": value})
            return check

        self.rules.prepare = set_limit

    def days(self, number):
        return self.now + datetime.timedelta(days=number)

    def assert_refused(self, kind, call, *arguments, **named):
        """Check that a call is refused, and leaves nothing; return the refusal."""
        before = self.rows(tables.leases), self.rows(tables.computehost_allocations)
        refusal = self.assertRaises(kind, call, *arguments, **named)
        self.assertIs(kind, type(refusal))
        after = self.rows(tables.leases), self.rows(tables.computehost_allocations)
        self.assertEqual(before, after)
        return refusal


def rules(values, decisions):
    """Return the rules of some options."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf.set_override("connection", "sqlite://", "placement_database")
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in values.items():
        group, _, option = name.partition("__")
        conf.set_override(option, value, group)
    return LeaseRules(conf, decisions, LimitSource("compute", None))
