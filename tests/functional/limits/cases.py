"""The base of tests of limits: a small catalog, and short ways to set limits."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_config import cfg

from placement_core.catalog import domains, projects, regions, services
from placement_core.limits import history, limits, records, registered, tables, users
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.flat import Flat
from placement_plugins.enforcement.strict_two_level import StrictTwoLevel
from placement_plugins.enforcement.tree import Tree
from tests import base

FLAT, STRICT, TREE = (model(cfg.ConfigOpts()) for model in (Flat, StrictTwoLevel, Tree))


class LimitsTestCase(base.DatabaseTestCase):
    """A test with two services, two regions, and two trees of projects.

    ``domain`` has ``top`` (which has ``child``) and ``other`` below it,
    ``far_domain`` has ``far``.
    """

    def setUp(self):
        super().setUp()
        self.catalog = LocalCatalog(cfg.ConfigOpts())
        self.compute = services.create(self.ctx, service_type="compute", name="nova").id
        self.network = services.create(self.ctx, service_type="network").id
        self.one = regions.create(self.ctx, id="RegionOne").id
        self.two = regions.create(self.ctx, id="RegionTwo").id
        self.domain = domains.create(self.ctx, name="domain").id
        self.top = self.project("top", self.domain)
        self.child = self.project("child", self.domain, parent_id=self.top)
        self.other = self.project("other", self.domain)
        self.far_domain = domains.create(self.ctx, name="far domain").id
        self.far = self.project("far", self.far_domain)

    def project(self, name, domain_id, **options):
        return projects.create(self.ctx, name=name, domain_id=domain_id, **options).id

    def registration(self, name="cores", default=10, **others):
        return {"service_id": self.compute, "region_id": self.one, "resource_name": name,
                "default_limit": default, **others}

    def register(self, name="cores", default=10, **others):
        return registered.create_many(
            self.ctx, self.catalog, [self.registration(name, default, **others)])[0]

    def item(self, node, value, name="cores", **others):
        kind = "domain_id" if node in (self.domain, self.far_domain) else "project_id"
        return {kind: node, "service_id": self.compute, "region_id": self.one,
                "resource_name": name, "resource_limit": value, **others}

    def set_many(self, items, *, model=FLAT, ctx=None, catalog=None):
        return limits.create_many(ctx or self.ctx, catalog or self.catalog, model, items)

    def set_limit(self, node, value, name="cores", *, model=FLAT, ctx=None, **others):
        return self.set_many([self.item(node, value, name, **others)], model=model, ctx=ctx)[0]

    def change(self, limit, *, model=FLAT, ctx=None, **changes):
        return limits.update(ctx or self.ctx, self.catalog, model, limit.id, changes)

    def delete(self, limit, *, model=FLAT, ctx=None):
        limits.delete(ctx or self.ctx, self.catalog, model, limit.id)

    def user_item(self, project, user, value, name="cores", **others):
        return {"project_id": project, "user_id": user, "service_id": self.compute,
                "region_id": self.one, "resource_name": name, "resource_limit": value, **others}

    def set_user_limit(self, project, user, value, name="cores", **others):
        return users.create_many(
            self.ctx, self.catalog, [self.user_item(project, user, value, name, **others)])[0]

    def values(self):
        """Return {node: {resource name: value}} of everything that is set."""
        found = {}
        for each in limits.list_(self.ctx):
            found.setdefault(each.project_id or each.domain_id, {})[
                each.resource_name] = each.resource_limit
        return found

    def changes(self, **filters):
        """Return (action, kind, resource, old, new) of each change, the oldest first."""
        return [(each.action, each.kind, each.resource_name, each.old_value, each.new_value)
                for each in reversed(history.list_(self.ctx, **filters))]

    def rows(self):
        """Return how many rows each table has: registered, limits, users', history."""
        with self.database.autocommit.connect() as connection:
            return tuple(
                connection.scalar(sa.select(sa.func.count()).select_from(table))
                for table in (tables.registered_limits, tables.limits, tables.user_limits,
                              tables.limit_history))


def equals(**values):
    return [records.Filter(field, "equals", value) for field, value in values.items()]
