"""The limit driver ``keystone`` against a real Keystone: answers, requests, outages."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.catalog import Region, Service
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver, RegisteredName
from placement_core.quota import limit_sources
from placement_core.quota.errors import AmbiguousRegion
from placement_core.testing import fakes, limits as contract
from placement_plugins.limits.keystone import KeystoneLimits
from tests.plugins import remote
from tests.plugins.keystone_limits_cases import CACHE_SECONDS, KeystoneLimitsTestCase


class _Renamed(LimitDriver):
    """The driver for whom Keystone has other ids than the contract: it chooses them itself.

    :param names: {the contract's id: Keystone's}.
    """

    api_version = 1

    def __init__(self, driver: LimitDriver, names: Mapping[str, str]) -> None:
        self._driver = driver
        self._names = names

    def effective(
        self, ctx: Context, node_ids: Collection[str], *, service_id: str,
        region_id: str | None,
    ) -> EffectiveLimits:
        names = {self._names.get(id_, id_): id_ for id_ in node_ids}
        found = self._driver.effective(
            ctx, list(names), service_id=self._names.get(service_id, service_id),
            region_id=self._names.get(region_id or "", region_id))
        return EffectiveLimits(
            found.defaults, {names[id_]: limits for id_, limits in found.overrides.items()})

    def user_limits(
        self, ctx: Context, project_id: str, user_id: str, *, service_id: str,
        region_id: str | None,
    ) -> Mapping[str, Amount]:
        return self._driver.user_limits(
            ctx, self._names.get(project_id, project_id), user_id,
            service_id=self._names.get(service_id, service_id), region_id=region_id)

    def registered(self, ctx: Context) -> Collection[RegisteredName]:
        """Return those of the contract: other tests register limits in the same Keystone."""
        ids = {id_: name for name, id_ in self._names.items()}
        return [
            RegisteredName(ids[each.service_id], each.region_id and ids[each.region_id],
                           each.resource_name)
            for each in self._driver.registered(ctx) or () if each.service_id in ids]


class TestContract(contract.LimitsContract, remote.RemoteTestCase):
    """What every limit driver has to do."""

    knows_users = False

    def given(
        self, registered: contract.Registered, limits: contract.Set,
        user_limits: contract.SetForUsers,
    ) -> tuple[LimitDriver, Context]:
        names = {
            contract.SERVICE: self.service()["id"], contract.OTHER_SERVICE: self.service()["id"],
            contract.REGION: self.region()["id"], contract.OTHER_REGION: self.region()["id"],
            contract.DOMAIN: self.domain()["id"],
        }
        domain_id = names[contract.DOMAIN]
        for id_, parent_id in ((contract.PROJECT, contract.DOMAIN),
                               (contract.OTHER_PROJECT, contract.DOMAIN),
                               (contract.CHILD, contract.PROJECT)):
            names[id_] = self.project(names[parent_id], domain_id)["id"]

        def of(service_id: str, region_id: str | None, name: str) -> dict[str, Any]:
            return {"service_id": names[service_id], "region_id": names.get(region_id or ""),
                    "resource_name": name}

        for key, value in registered.items():
            self.admin.make("registered_limits", **of(*key), default_limit=value)
        for (node_id, *key), value in limits.items():
            kind = "domain_id" if node_id == contract.DOMAIN else "project_id"
            self.admin.make(
                "limits", **of(*key), resource_limit=value, **{kind: names[node_id]})
        return _Renamed(KeystoneLimits(self.conf(), clock=self.clock), names), self.ctx


class TestAnswers(KeystoneLimitsTestCase):
    """What Keystone keeps is what the driver says."""

    def test_defaults_and_overrides(self) -> None:
        self.register(cores=20, ram=-1, disk=0)
        self.set(self.project_id, cores=0, disk=-1)
        self.set(self.domain_id, cores=40)
        other = self.project(self.domain_id)["id"]
        found = self.effective(self.domain_id, self.project_id, other)
        self.assertEqual({"cores": 20, "ram": amounts.UNLIMITED, "disk": 0}, found.defaults)
        self.assertEqual({"cores": 0, "disk": amounts.UNLIMITED},
                         found.overrides[self.project_id])
        self.assertEqual({"cores": 40}, found.overrides[self.domain_id])
        self.assertEqual({}, found.overrides.get(other, {}))

    def test_no_region_is_a_region_of_its_own(self) -> None:
        self.register(cores=20)
        self.set(self.project_id, cores=5)
        self.assertEqual({}, self.effective(region_id=None).defaults)
        self.register(region_id=None, cores=7, ram=8)
        self.set(self.project_id, region_id=None, ram=9)
        self.clock.forward(CACHE_SECONDS)
        found = self.effective(region_id=None)
        self.assertEqual({"cores": 7, "ram": 8}, found.defaults)
        self.assertEqual({self.project_id: {"ram": 9}}, found.overrides)
        found = self.effective()
        self.assertEqual({"cores": 20}, found.defaults)
        self.assertEqual({self.project_id: {"cores": 5}}, found.overrides)

    def test_other_services_do_not_matter(self) -> None:
        self.register(cores=20)
        other = self.service()["id"]
        self.admin.make("registered_limits", service_id=other, region_id=self.region_id,
                        resource_name="images", default_limit=1)
        self.assertEqual({"cores": 20}, self.effective().defaults)

    def test_what_nobody_can_have(self) -> None:
        """Placement's project ids are any text; Keystone refuses to look for most."""
        self.register(cores=20)
        odd = ["", "a b", "ä", "x" * 65, "a/b", "\0", uuid.uuid4().hex]
        found = self.effective(*odd)
        self.assertEqual({"cores": 20}, found.defaults)
        self.assertEqual([], [each for each in found.overrides.values() if each])
        for service_id, region_id in (
                ("compute", None), ("", None), (uuid.uuid4().hex, None),
                (self.service_id, ""), (self.service_id, "nowhere"),
                (self.service_id, "x" * 300), (self.service_id, "é/&=")):
            found = self.driver.effective(
                self.ctx, [self.project_id], service_id=service_id, region_id=region_id)
            self.assertEqual({}, dict(found.defaults), (service_id, region_id))

    def test_users_have_no_limits(self) -> None:
        self.assertEqual({}, self.driver.user_limits(
            self.ctx, self.project_id, "user", service_id=self.service_id, region_id=None))
        self.assertEqual([], self.proxy.asked())

    def test_endpoint_of_the_catalog(self) -> None:
        """Without endpoint_override, Keystone is where its own catalog says."""
        self.register(cores=20)
        self.driver = self.make(
            endpoint_override=None, region_name="RegionOne", valid_interfaces="internal")
        self.assertEqual({"cores": 20}, self.effective().defaults)

    def test_an_address_without_version(self) -> None:
        self.register(cores=20)
        root = self.proxy.url.removesuffix("/v3")
        self.driver = self.make(endpoint_override=f"{root}/", auth_url=root)
        self.assertEqual({"cores": 20}, self.effective().defaults)


class TestEmptyRegion(KeystoneLimitsTestCase):
    """Whose limits count where ``[quota] region`` is empty."""

    def find(self, *region_ids: str) -> limit_sources.ServiceKey | None:
        catalog = fakes.MemoryCatalog(
            regions=[Region(id_) for id_ in region_ids],
            services=[Service(self.service_id, "compute")])
        return limit_sources.find(self.ctx, catalog, self.driver, "compute", None)

    def test_the_only_region_is_meant(self) -> None:
        self.register(cores=20, disk=5)
        self.set(self.project_id, cores=7)
        self.register(region_id=None, cores=1, ram=8)
        self.set(self.project_id, region_id=None, cores=2, ram=3)
        key = self.find(self.region_id)
        assert key is not None
        for read in (limit_sources.effective, limit_sources.effective_of_many):
            found = read(self.ctx, self.driver, key, [self.project_id])
            self.assertEqual({"cores": 20, "disk": 5, "ram": 8}, found.defaults)
            self.assertEqual({"cores": 7, "ram": 3}, found.overrides[self.project_id])

    def test_several_regions(self) -> None:
        key = self.find(self.region_id, "other")
        self.assertEqual((None,), key and key.region_ids)
        self.register(cores=20)
        self.clock.forward(CACHE_SECONDS)
        error = self.assertRaises(
            AmbiguousRegion, self.find, self.region_id, "other")
        self.assertIn("cores. Set [quota] region.", str(error))
        self.register(region_id=None, cores=7)
        self.clock.forward(CACHE_SECONDS)
        key = self.find(self.region_id, "other")
        self.assertEqual((None,), key and key.region_ids)
