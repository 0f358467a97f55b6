"""The driver ``nova`` against a stand-in that checks what nova's own schemas check."""

from __future__ import annotations

from collections.abc import Collection

from placement_core.plugin_api.compute import (
    ComputeUnavailable,
)
from placement_core.testing.compute import (
    HOST,
    LEASE,
    OTHER_LEASE,
    PROJECT,
    ComputeContract,
)
from placement_plugins.compute.nova import NovaCompute
from tests import nova_standin
from tests.plugins.nova_cases import SERVICES, NovaTestCase


class TestContract(ComputeContract, NovaTestCase):
    """What every driver has to do."""

    delete_after = 0

    def given(self, hosts: Collection[str]) -> NovaCompute:
        self.nova.set(delete_after=self.delete_after)
        return self._driver()

    def boot(
        self, host: str, *, project_id: str, lease: str | None = None, preemptible: bool = False
    ) -> str:
        return self.nova.boot(
            SERVICES[host], project=project_id, flavor=lease,
            specs={"blazar:preemptible": "True"} if preemptible else {"hw:cpu_policy": "shared"})

    def servers(self) -> set[str]:
        return set(self.nova.world()["servers"])

    def images(self) -> list[str]:
        return [each["properties"]["reserved_server_id"]
                for each in self.nova.world()["images"].values()]

    def finish_images(self) -> None:
        self._finish_images()

    def server_group(self, lease: str) -> None:
        self._group(lease)

    def freepool(self) -> set[str]:
        return self._hosts_of("freepool")

    def hosts(self, lease: str) -> set[str]:
        return self._hosts_of(lease)

    def size(self, lease: str) -> tuple[int, int, int]:
        flavor = self.nova.world()["flavors"][lease]
        return flavor["vcpus"], flavor["ram"], flavor["disk"]

    def users(self, lease: str) -> set[str]:
        return set(self.nova.world()["flavors"][lease]["projects"])

    def flavor_class(self, lease: str) -> str | None:
        specs = self.nova.world()["flavors"][lease]["specs"]
        classes = [name.removeprefix("resources:") for name, amount in specs.items()
                   if name.startswith("resources:") and amount == "1"]
        self.assertLessEqual(len(classes), 1)
        return classes[0] if classes else None

    def flavor_in_aggregate(self, lease: str) -> bool:
        specs = self.nova.world()["flavors"][lease]["specs"]
        return specs.get("aggregate_instance_extra_specs:reservation") == lease

    def slot_project(self, lease: str) -> str | None:
        tenants = self._aggregate(lease)["metadata"].get("filter_tenant_id")
        if tenants is None:
            return None
        (project,) = set(tenants.split(",")) - {nova_standin.SERVICE}
        return project


class TestContractWithSlowServers(TestContract):
    """The same where servers take their time to go."""

    delete_after = 2


class TestWhatIsMade(NovaTestCase):
    """Names, metadata and extra specs: what nova's filters and users go by."""

    def test_slots(self) -> None:
        driver = self._driver()
        driver.put_flavor(LEASE, vcpus=2, memory_mb=1024, disk_gb=10, in_aggregate=True,
                          resource_class="CUSTOM_RESERVATION_X")
        driver.put_slot_aggregate(LEASE, PROJECT)
        world = self.nova.world()
        self.assertEqual({
            "id": LEASE, "name": f"reservation:{LEASE}", "public": False, "projects": [],
            "vcpus": 2, "ram": 1024, "disk": 10, "specs": {
                "aggregate_instance_extra_specs:reservation": LEASE,
                "resources:CUSTOM_RESERVATION_X": "1"}}, world["flavors"][LEASE])
        self.assertEqual({}, world["groups"])
        self.assertEqual(
            {"reservation": LEASE, "filter_tenant_id": f"{PROJECT},{nova_standin.SERVICE}"},
            self._aggregate(LEASE)["metadata"])

    def test_slots_change(self) -> None:
        """What a reservation does not have any more is not left on what it keeps."""
        driver = self._driver()
        driver.put_flavor(LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=True,
                          resource_class="CUSTOM_X")
        driver.put_flavor(LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=False,
                          resource_class="CUSTOM_X")
        self.assertEqual({"resources:CUSTOM_X": "1"},
                         self.nova.world()["flavors"][LEASE]["specs"])

    def test_what_earlier_releases_made(self) -> None:
        """Metadata that confine a project to its reservation, or name its group, go."""
        driver = self._driver()
        driver.put_slot_aggregate(LEASE, PROJECT)
        driver.put_host_aggregate(OTHER_LEASE, PROJECT)
        for lease in (LEASE, OTHER_LEASE):
            driver._nova.set_aggregate_metadata(
                driver._find_aggregate(lease), {"filter_tenant_id": PROJECT, "affinity_id": "g"})
        driver.put_slot_aggregate(LEASE, PROJECT)
        driver.put_host_aggregate(OTHER_LEASE, PROJECT)
        self.assertEqual([], [
            each["name"] for each in self.nova.world()["aggregates"].values()
            if each["metadata"].get("filter_tenant_id") == PROJECT])
        self.assertNotIn("affinity_id", self._aggregate(LEASE)["metadata"])

    def test_slots_that_placement_knows(self) -> None:
        """Without an aggregate, nova's filter must find nothing to compare with one."""
        driver = self._driver()
        driver.put_flavor(LEASE, vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=False,
                          resource_class="CUSTOM_X")
        self.assertEqual({"resources:CUSTOM_X": "1"},
                         self.nova.world()["flavors"][LEASE]["specs"])

    def test_hosts(self) -> None:
        for prefix, zone in (("blazar_", {"availability_zone": f"blazar_{LEASE}"}), ("", {})):
            driver = self._driver(az_prefix=prefix, blazar_owner="owner")
            driver.put_host_aggregate(LEASE, PROJECT)
            self.assertEqual({"owner": PROJECT} | zone,
                             self._aggregate(LEASE)["metadata"])
            driver.remove_aggregate(LEASE)

    def test_freepool(self) -> None:
        """It is closed to all projects but the service's own; one that is there stays."""
        driver = self._driver(aggregate_freepool_name="pool")
        driver.add_to_freepool(HOST)
        driver.add_to_freepool(HOST)
        found = self._aggregate("pool")
        self.assertEqual(
            ({"filter_tenant_id": nova_standin.SERVICE}, [SERVICES[HOST]]),
            (found["metadata"], found["hosts"]))
        self._driver(
            aggregate_freepool_name="pool", service_project_id="p").add_to_freepool(HOST)
        self.assertEqual({"filter_tenant_id": "p"}, self._aggregate("pool")["metadata"])

    def test_what_others_made(self) -> None:
        """Things of other names are nobody's reservation, and stay."""
        driver = self._driver()
        others = self._driver(name_prefix="other:")
        for number in range(8):
            others.put_flavor(f"f{number}", vcpus=1, memory_mb=1, disk_gb=0, in_aggregate=False)
        self._group(LEASE, prefix="other:")
        driver.add_to_freepool(HOST)
        self.assertEqual({}, dict(driver.made()))
        for number in range(5):
            driver.put_flavor(f"{LEASE[:-1]}{number}", vcpus=1, memory_mb=1, disk_gb=0,
                              in_aggregate=False)
        self.assertEqual(5, len(driver.made()))
        for number in range(5):
            driver.remove_flavor(f"{LEASE[:-1]}{number}")
        driver.remove_server_group(LEASE)
        self.assertEqual((8, 1), (len(others._connection.compute.get(
            "/flavors/detail?is_public=False").json()["flavors"]) + 5,
            len(self.nova.world()["groups"])))

    def test_many_groups(self) -> None:
        """Nova gives as many at once as it likes, and no link to more."""
        driver = self._driver()
        self.nova.set(max_limit=2)
        leases = [f"{LEASE[:-1]}{number}" for number in range(5)]
        for lease in leases:
            self._group(lease)
        self.assertEqual(set(leases), set(driver.made()))
        driver.remove_server_group(leases[-1])
        self.assertEqual(4, len(self.nova.world()["groups"]))

    def test_servers_that_users_deleted(self) -> None:
        """Those that could be restored still hold their host."""
        driver = self._driver()
        driver.put_host_aggregate(LEASE, PROJECT)
        driver.add_host(LEASE, HOST)
        self.nova.boot(SERVICES[HOST], project=PROJECT, status="SOFT_DELETED")
        self.assertRaises(ComputeUnavailable, driver.remove_aggregate, LEASE)
        self.assertEqual(1, driver.delete_host_servers(LEASE, HOST))
        driver.remove_aggregate(LEASE)
        self.assertEqual({}, dict(driver.made()))

    def test_images(self) -> None:
        """Failed ones are made again, and of servers in error there are none."""
        driver = self._driver()
        driver.put_host_aggregate(LEASE, PROJECT)
        driver.add_host(LEASE, HOST)
        server = self.nova.boot(SERVICES[HOST], project=PROJECT, name="web")
        self.nova.boot(SERVICES[HOST], project=PROJECT, status="ERROR")
        self.assertEqual(1, driver.snapshot_host_servers(LEASE, HOST))
        ((first, image),) = self.nova.world()["images"].items()
        self.assertEqual(("reserved_web", {"reservation_id": LEASE, "reserved_server_id": server}),
                         (image["name"], image["properties"]))
        for status, unfinished, count in (
                ("saving", 1, 1), ("active", 0, 1), ("killed", 1, 2), ("active", 0, 2)):
            self.nova.set(images=self.nova.world()["images"] | {first: image | {"status": status}})
            self.assertEqual(unfinished, driver.snapshot_host_servers(LEASE, HOST), status)
            self.assertEqual(count, len(self.nova.world()["images"]))

    def test_images_of_servers_with_long_names(self) -> None:
        """Nova takes no longer name for an image than for a server, and no space at its end."""
        driver = self._driver()
        driver.put_host_aggregate(LEASE, PROJECT)
        driver.add_host(LEASE, HOST)
        names = ["x" * 245 + " " + "x" * 8 + end for end in "ab"]
        servers = [self.nova.boot(SERVICES[HOST], project=PROJECT, name=name) for name in names]
        self.assertEqual(2, driver.snapshot_host_servers(LEASE, HOST))
        images = list(self.nova.world()["images"].values())
        self.assertEqual(["reserved_" + "x" * 245] * 2, [image["name"] for image in images])
        self.assertEqual(set(servers), {
            image["properties"]["reserved_server_id"] for image in images})
        self._finish_images()
        self.assertEqual(0, driver.snapshot_host_servers(LEASE, HOST))
        self.assertEqual(2, len(self.nova.world()["images"]))

    def test_images_of_a_later_end(self) -> None:
        """Images say for which end they were made; those of an earlier one do not count."""
        driver = self._driver()
        driver.put_host_aggregate(LEASE, PROJECT)
        driver.add_host(LEASE, HOST)
        server = self.nova.boot(SERVICES[HOST], project=PROJECT, name="web")
        for due_at in ("2027-01-01T23:00:00Z", "2027-01-08T23:00:00Z"):
            self.assertEqual(1, driver.snapshot_host_servers(LEASE, HOST, due_at))
            self._finish_images()
            self.assertEqual(0, driver.snapshot_host_servers(LEASE, HOST, due_at))
            *_, image = self.nova.world()["images"].values()
            self.assertEqual({"reservation_id": LEASE, "reserved_server_id": server,
                              "reserved_due_at": due_at}, image["properties"])
        self.assertEqual(0, driver.snapshot_host_servers(LEASE, HOST))
        self.assertEqual(2, len(self.nova.world()["images"]))
