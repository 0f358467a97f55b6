"""The base of tests of quota: a nova with instances, and a tree of projects with limits.

Every test runs with each value of ``[quota] count_usage_from_placement``
(``in_every_way``): what it asserts does not depend on who counts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from placement_core import services
from placement_core.catalog import domains, projects, regions, services as catalog_services
from placement_core.context import Context
from placement_core.limits import limits, registered, users
from placement_core.quota import checks
from placement_core.testing import factories
from placement_core.testing.counting import Running
from tests import databases
from tests.plugins.counting import nova_deployments

USER = "jane"


def in_every_way(cls):
    """Make a class of tests run with both ways of counting on each database (decorator).

    As it is, usage is counted from placement; a subclass ``…InCells`` counts in cells.
    """
    name = f"{cls.__name__}InCells"
    in_cells = type(name, (cls,), {"from_placement": False, "__module__": cls.__module__})
    setattr(sys.modules[cls.__module__], name, databases.on_each_database(in_cells))
    return databases.on_each_database(cls)


class QuotaTestCase(nova_deployments.NovaDeploymentTestCase):
    """A domain with ``trunk`` (which has ``left`` and ``right``) and ``other`` in it.

    The service's parts are built of the options, as the service does it.

    :cvar from_placement: ``[quota] count_usage_from_placement``.
    :cvar model: ``[limits] enforcement_model``.
    :cvar names: {resource name: registered default}.
    """

    from_placement = True
    model = "tree"
    names: Mapping[str, int] = {"servers": 10, "cores": 10, "ram": -1}

    def setUp(self):
        super().setUp()
        self.parts = self.built()
        self.enforcer = self.parts.quota
        self.here = self.cell("here")
        self.service = catalog_services.create(self.ctx, service_type="compute").id
        regions.create(self.ctx, id="RegionOne")
        self.domain = domains.create(self.ctx, name="garden").id
        self.trunk = self.project("trunk")
        self.other = self.project("other")
        self.left = self.project("left", self.trunk)
        self.right = self.project("right", self.trunk)
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": self.service, "resource_name": name, "default_limit": default}
            for name, default in self.names.items()])

    def built(self, **options):
        """Return the service's parts on the test's database, with some options."""
        conf = self.conf(
            quota__count_usage_from_placement=self.from_placement,
            limits__enforcement_model=self.model, **options)
        made = services.build(conf)
        self.addCleanup(made.database.dispose)
        return made

    def context(self) -> Context:
        """Return a context on the database of the parts, where they are built."""
        return self.parts.context() if hasattr(self, "parts") else super().context()

    def project(self, name, parent=None):
        return projects.create(
            self.ctx, name=name, domain_id=self.domain, parent_id=parent).id

    def limit(self, node, value, name="cores"):
        whose = "domain_id" if node == self.domain else "project_id"
        return limits.create_many(self.ctx, self.parts.catalog, self.parts.model, [
            {whose: node, "service_id": self.service, "resource_name": name,
             "resource_limit": value}])[0].id

    def user_limit(self, project, value, name="cores", user=USER):
        users.create_many(self.ctx, self.parts.catalog, [
            {"project_id": project, "user_id": user, "service_id": self.service,
             "resource_name": name, "resource_limit": value}])

    def use(self, project, cores=1, ram=10, *, user=USER, uuid=None):
        """Run an instance; return its uuid."""
        uuid = uuid or factories.new_uuid()
        self.run_instance(
            Running(uuid, project, user, {"VCPU": cores, "MEMORY_MB": ram}), self.here)
        return uuid

    def check(self, project, user=None, **deltas):
        return checks.check(
            self.ctx, self.enforcer, project_id=project, deltas=deltas, user_id=user)

    def excesses(self, project, user=None, **deltas):
        return [(each.node_id, each.scope, each.limit, each.used, each.asked)
                for each in self.check(project, user, **deltas).exceeded_limits]
