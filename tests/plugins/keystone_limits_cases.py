"""The base of tests of the Keystone driver of limits: limits in a real Keystone."""

from __future__ import annotations

from placement_core.plugin_api.limits import EffectiveLimits
from placement_plugins.limits.keystone import KeystoneLimits
from tests.plugins import remote

CACHE_SECONDS = 30
MAX_STALE_SECONDS = 600
FRESHNESS = {"cache_seconds": CACHE_SECONDS, "max_stale_seconds": MAX_STALE_SECONDS}


class KeystoneLimitsTestCase(remote.RemoteTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service_id = self.service()["id"]
        self.region_id = self.region()["id"]
        self.domain_id = self.domain()["id"]
        self.project_id = self.project(self.domain_id)["id"]
        self.driver = self.make()

    def make(self, **client: object) -> KeystoneLimits:
        return KeystoneLimits(self.conf(limits=FRESHNESS, client=client), clock=self.clock)

    def register(self, region_id: str | None = "", **defaults: int) -> None:
        for name, value in defaults.items():
            self.admin.make(
                "registered_limits", service_id=self.service_id, resource_name=name,
                region_id=self.region_id if region_id == "" else region_id, default_limit=value)

    def set(self, node_id: str, region_id: str | None = "", **values: int) -> str:
        kind = "domain_id" if node_id == self.domain_id else "project_id"
        for name, value in values.items():
            made = self.admin.make(
                "limits", service_id=self.service_id, resource_name=name, resource_limit=value,
                region_id=self.region_id if region_id == "" else region_id, **{kind: node_id})
        return made["id"]

    def effective(self, *node_ids: str, region_id: str | None = "") -> EffectiveLimits:
        return self.driver.effective(
            self.ctx, node_ids or [self.project_id], service_id=self.service_id,
            region_id=self.region_id if region_id == "" else region_id)

    def paths(self, *node_ids: str) -> list[str]:
        """Return what has to be asked about nodes when nothing is known."""
        of = f"service_id={self.service_id}&region_id={self.region_id}"
        return ["/domains", f"/registered_limits?{of}", *(
            f"/limits?{of}&{'domain' if id_ == self.domain_id else 'project'}_id={id_}"
            for id_ in node_ids or [self.project_id])]

    def assert_asked(self, *expected: str) -> None:
        self.assertEqual(sorted(expected), sorted(self.proxy.asked()))
