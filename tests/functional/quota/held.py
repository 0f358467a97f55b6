"""The base of tests of held claims: a small tree of projects, and short ways to claim."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import amounts
from placement_core.catalog import domains, projects, services
from placement_core.db import clock
from placement_core.limits import limits, registered
from placement_core.placement.allocations import Gate
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.usage import usages
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.quota import claims, tables
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.decisions import Decisions
from placement_core.quota.guard import QuotaGuard
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.nodes import LimitNodes
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.testing import factories
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.tree import Tree
from placement_plugins.limits.local import LocalLimits
from tests.functional.placement.claims import ClaimsTestCase

_holds = tables.held_claims


class Cloud:
    """A tree of projects with limits, and what claims are judged by.

    ``trunk`` has ``branch`` below it, which has ``leaf`` and ``twig``; by default each
    may have 1000 VCPU.
    """

    def __init__(self, ctx) -> None:
        self._ctx = ctx
        conf = cfg.ConfigOpts()
        self.catalog, self._limits, self._model = LocalCatalog(conf), LocalLimits(conf), Tree(conf)
        self._decisions = Decisions(
            UsageIndex(ctx.database), self.catalog, self._limits, self._model,
            unregistered=amounts.UNLIMITED)
        self._nodes, self._owners = LimitNodes(), Owners()
        self.claims = self.claims_by()

    def plant(self) -> None:
        ctx = self._ctx
        self._service = services.create(ctx, service_type="compute").id
        domain = domains.create(ctx, name="garden").id
        self.trunk = projects.create(ctx, name="trunk", domain_id=domain).id
        self.branch = projects.create(
            ctx, name="branch", domain_id=domain, parent_id=self.trunk).id
        self.leaf, self.twig = (
            projects.create(ctx, name=name, domain_id=domain, parent_id=self.branch).id
            for name in ("leaf", "twig"))
        registered.create_many(ctx, self.catalog, [
            {"service_id": self._service, "resource_name": "class:VCPU", "default_limit": 1000}])

    def limit(self, project: str, value: int) -> None:
        limits.create_many(self._ctx, self.catalog, self._model, [
            {"project_id": project, "service_id": self._service, "resource_name": "class:VCPU",
             "resource_limit": value}])

    def claims_by(self, *gates: Gate) -> claims.Claims:
        """Return what writes allocations, judged by gates and by limits."""
        guard = QuotaGuard(
            self._decisions, self._nodes, LimitSource("compute", None), "enforce",
            owners=self._owners)
        judges = [*gates, guard, HeldClaimsGate(self.catalog)]
        return claims.Claims(judges, judges, AnswerPruner(), self._owners, 8)


class HeldTestCase(ClaimsTestCase):
    """A test with short ways to hold, and to let time pass."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = Cloud(self.ctx)
        self.cloud.plant()

    def hold(self, held, *, ctx=None, seconds=600, **options):
        """Claim for a new consumer; ``seconds``: None takes for good."""
        options = {"consumer": factories.new_uuid(), "seen": None,
                   "project": self.cloud.leaf, **options}
        return self.cloud.claims.claim(
            ctx or self.ctx, self.write(held, **options), hold_seconds=seconds)

    def put(self, held, *, ctx=None, **options):
        """Write allocations as PUT /allocations does with the guard on."""
        self.cloud.claims.replace(ctx or self.ctx, [self.write(held, **options)])

    def pass_time(self, consumer: str, *, seconds: int = 10**4) -> None:
        """Let the time of a claim be over, or that since it ended pass."""
        with self.database.autocommit.connect() as connection:
            connection.execute(
                sa.update(_holds).where(_holds.c.consumer_uuid == consumer).values(
                    expires_at=clock.in_seconds(sa.literal(-seconds)),
                    ended_at=sa.case(
                        (_holds.c.ended_at.is_(None), None),
                        else_=clock.in_seconds(sa.literal(-seconds)))))

    def expired(self, held, **options):
        """Make a claim whose time is over; return its consumer."""
        consumer = self.hold(held, **options).consumer_uuid
        self.pass_time(consumer)
        return consumer

    def state(self, consumer: str) -> str | None:
        """Return the state of a claim; None: there is none."""
        try:
            return claims.get(self.context(), consumer).state
        except claims.errors.ClaimNotFound:
            return None

    def rows(self) -> int:
        return self.count(_holds)

    def usage(self, *projects: str) -> list[int]:
        """Return how many VCPU projects use."""
        return [
            sum(group.resources.get("VCPU", 0) for group in usages.for_project(self.ctx, each))
            for each in projects]
