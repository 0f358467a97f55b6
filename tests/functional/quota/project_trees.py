"""The base of tests of quota: a tree of projects with limits, and claims in it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import fixtures
from oslo_config import cfg

from placement_core import amounts
from placement_core.catalog import domains, projects, services
from placement_core.limits import limits, registered, users
from placement_core.placement import allocations
from placement_core.placement.records import Provider
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota import resources
from placement_core.quota.decisions import Decisions
from placement_core.quota.guard import Mode, QuotaGuard
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.tree import Tree
from placement_plugins.limits.local import LocalLimits
from tests import races
from tests.functional.placement import claims

MAP = ("servers=consumers", "instances=instances", "cores=VCPU+PCPU", "ram=MEMORY_MB")


class TreeTestCase(claims.ClaimsTestCase):
    """A domain, a trunk below it, a branch below that and two leaves on it."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.catalog, self.limits = LocalCatalog(self.conf), LocalLimits(self.conf)
        self.service = services.create(self.ctx, service_type="compute").id
        self.domain = domains.create(self.ctx, name="garden").id
        self.trunk = self.project("trunk", None)
        self.branch = self.project("branch", self.trunk)
        self.left = self.project("left", self.branch)
        self.right = self.project("right", self.branch)
        self.host = self.provider(VCPU=1000, PCPU=1000, MEMORY_MB=100_000)
        self.decisions, self.limit_nodes = self.made(), LimitNodes()

    def project(self, name: str, parent: str | None) -> str:
        return projects.create(
            self.ctx, name=name, domain_id=self.domain, parent_id=parent).id

    def made(self, *, unregistered: amounts.Amount = amounts.UNLIMITED) -> Decisions:
        return Decisions(
            UsageIndex(self.database), self.catalog, self.limits, Tree(self.conf),
            resources=resources.parse(MAP), unregistered=unregistered)

    def register(self, **defaults: int) -> None:
        """Register limits; ``VCPU`` stands for ``class:VCPU``."""
        registered.create_many(self.ctx, self.catalog, [
            {"service_id": self.service, "resource_name": _name(name), "default_limit": default}
            for name, default in defaults.items()])

    def limit(self, node: str, **values: int) -> list[str]:
        """Set limits of a node; return their ids."""
        whose = "domain_id" if node == self.domain else "project_id"
        return [each.id for each in limits.create_many(
            self.ctx, self.catalog, Tree(self.conf), [
                {whose: node, "service_id": self.service, "resource_name": _name(name),
                 "resource_limit": value} for name, value in values.items()])]

    def limit_user(self, project: str, user: str, **values: int) -> None:
        users.create_many(self.ctx, self.catalog, [
            {"project_id": project, "user_id": user, "service_id": self.service,
             "resource_name": _name(name), "resource_limit": value}
            for name, value in values.items()])

    def guard(self, mode: Mode = "enforce") -> QuotaGuard:
        return QuotaGuard(
            self.decisions, self.limit_nodes, LimitSource("compute", None), mode,
            owners=self.owners)

    @contextlib.contextmanager
    def keeping_guard(self) -> Iterator[QuotaGuard]:
        """Claim through one guard, as a process does, which relies on what it knows."""
        guard = self.guard()
        with fixtures.MonkeyPatch(
                "tests.functional.quota.project_trees.TreeTestCase.guard", lambda *_: guard):
            yield guard

    def take(
        self, project: str, held: Mapping[str, int] | None = None, *,
        consumer: str | None = None, mode: Mode = "enforce", ctx=None, host=None, **options,
    ) -> str:
        """Claim through the guard; return the consumer."""
        consumer = consumer or factories.new_uuid()
        where: Provider = host or self.host
        allocations.replace(
            ctx or self.ctx,
            [self.write({where: held} if held else {}, consumer=consumer, project=project,
                        **options)],
            [self.guard(mode)], self.owners)
        return consumer

    def paused(self, function: Callable[[], Any], *, logged: bool = False) -> races.Paused:
        """Run a write until it is about to be committed.

        :param logged: whether it is in the change log by then.
        """
        append = self.database.journal.append

        def play(paused):
            thread = threading.current_thread()

            def wait(session):
                if logged:
                    append(session)
                if threading.current_thread() is thread:
                    paused.here()
                if not logged:
                    append(session)

            with mock.patch.object(self.database.journal, "append", wait):
                return function()

        return races.Paused(play)


def _name(name: str) -> str:
    return f"class:{name}" if name.isupper() else name
