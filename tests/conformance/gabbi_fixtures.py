"""What upstream's fixture names stand for: a configured service and its population.

A conformance file names a fixture; gabbi finds the class of that name here,
enters it before the file's first test and leaves it after the last. Entering
makes an empty database, our application on it, and the deployment the tests expect,
built through the application's own API. What the tests need to know about it
is in environment variables, as the files ask for it.

Written from the contents of the files: which providers they name, which amounts
they ask for and are given. Inventories are posted one by one and traits put
once, because the files know the provider generations this leads to.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml
from gabbi import fixture
from oslo_config import cfg

from placement_core import app, conf
from tests import databases
from tests.answers import CheckedAnswers
from tests.conformance.deployments import SHARING, WSGI, Amount, Deployment, new_uuid

_running: list[WSGI] = []


def application() -> WSGI:
    """Return what gabbi sends requests to: the application of the entered fixture."""

    def send(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # WSGI servers hand over a path's bytes as Latin-1; gabbi's client has decoded them.
        environ["PATH_INFO"] = environ["PATH_INFO"].encode().decode("latin-1")
        return _running[-1](environ, start_response)

    return send


class APIFixture(fixture.GabbiFixture):
    """The service on an empty database, with policies as they were before secure RBAC."""

    new_policy_defaults = False
    options: Mapping[tuple[str, str], object] = {}

    def start_fixture(self) -> None:
        """Serve, and populate the deployment."""
        self._environ = dict(os.environ)
        self._folder = tempfile.TemporaryDirectory(prefix="placement-conformance-")
        for name in (
            "ADMIN_PROJECT_ID",
            "ALT_PARENT_PROVIDER_UUID",
            "CONSUMER_UUID",
            "INSTANCE_UUID",
            "MIGRATION_UUID",
            "PARENT_PROVIDER_UUID",
            "PROJECT_ID",
            "PROJECT_ID_ALT",
            "RP_NAME",
            "RP_NAME1",
            "RP_NAME2",
            "RP_UUID",
            "RP_UUID1",
            "RP_UUID2",
            "SERVICE_PROJECT_ID",
            "USER_ID",
            "USER_ID_ALT",
        ):
            os.environ[name] = new_uuid()
        for suffix in ("", "1", "2"):
            os.environ[f"CUSTOM_RES_CLASS{suffix}"] = f"CUSTOM_IRON_NFV{suffix}"
        service = self.make_service()
        _running.append(service)
        self.populate(Deployment(service))

    def make_service(self) -> WSGI:
        """Return what the tests ask."""
        return CheckedAnswers(app.make_app(self._configuration()), app.APIS)

    def stop_fixture(self) -> None:
        """Leave nothing behind."""
        if _running:
            _running.pop()
        self._folder.cleanup()
        os.environ.clear()
        os.environ.update(self._environ)

    def populate(self, deployment: Deployment) -> None:
        """Make what the files of this fixture expect to find; here: nothing."""

    def _configuration(self) -> cfg.ConfigOpts:
        configuration = cfg.ConfigOpts()
        conf.register(configuration)
        path = pathlib.Path(self._folder.name, "policy.yaml")
        path.write_text(yaml.safe_dump(self.policy()))
        settings = databases.settings("sqlite")
        for (group, option), value in {
            ("api", "auth_strategy"): "noauth2",
            ("api", "allow_remote_noauth2"): True,
            ("placement_database", "connection"): settings.connection,
            ("oslo_policy", "policy_file"): str(path),
            ("oslo_policy", "enforce_new_defaults"): self.new_policy_defaults,
            **self.options,
        }.items():
            configuration.set_override(option, value, group)
        # Read no file: the machine may have a /etc/placement.
        configuration([], project="placement", default_config_files=[], default_config_dirs=[])
        return configuration

    def policy(self) -> dict[str, str]:
        """Return the policy file's rules."""
        return {}


class LegacyRBACPolicyFixture(APIFixture):
    """The defaults that old deployments rely on."""


class SecureRBACPolicyFixture(APIFixture):
    """The present defaults."""

    new_policy_defaults = True


class OpenPolicyFixture(APIFixture):
    """A policy file that opens every rule to everyone."""

    def policy(self) -> dict[str, str]:
        """Return every rule but the base ones, open."""
        return {rule.name: "@" for rule in app.list_rules() if rule.name != "admin_api"}


class CORSFixture(APIFixture):
    """One other origin may call the service from a browser."""

    options = {
        ("cors", "allowed_origin"): ["http://valid.example.com"],
        ("cors", "allow_headers"): ["openstack-api-version"],
    }


class AllocationFixture(APIFixture):
    """One provider, used by two consumers of one user and one of another."""

    def populate(self, deployment: Deployment) -> None:
        """Make RP_UUID and its three consumers."""
        for name in ("ALT_RP_NAME", "ALT_RP_UUID", "ALT_USER_ID"):
            os.environ[name] = new_uuid()
        project, user = os.environ["PROJECT_ID"], os.environ["USER_ID"]
        provider = deployment.provider(
            os.environ["RP_NAME"],
            identity=os.environ["RP_UUID"],
            DISK_GB=Amount(2048, least=10, most=1000, step=10),
            VCPU=Amount(10),
        )
        os.environ["CONSUMER_0"] = deployment.claim(provider, project, user, DISK_GB=1000)
        os.environ["CONSUMER_ID"] = deployment.claim(provider, project, user, VCPU=6)
        os.environ["ALT_CONSUMER_ID"] = deployment.claim(
            provider, project, os.environ["ALT_USER_ID"], DISK_GB=20, VCPU=1
        )


class SharedStorageFixture(APIFixture):
    """Two hosts with NUMA cells and network devices, and two disks shared by both."""

    def populate(self, deployment: Deployment) -> None:
        """Make the hosts (only the second has a disk of its own) and the shared disks."""
        aggregate = os.environ["AGG_UUID"] = new_uuid()
        disk = Amount(2000, reserved=100)
        for host in (1, 2):
            root = os.environ[f"CN{host}_UUID"] = deployment.provider(
                f"cn{host}",
                aggregates=[aggregate],
                traits=["HW_CPU_X86_SSE", "HW_CPU_X86_SSE2"] if host == 1 else [],
                VCPU=Amount(24, ratio=16.0),
                MEMORY_MB=Amount(128 * 1024, ratio=1.5),
                **({"DISK_GB": disk} if host == 2 else {}),
            )
            for cell in (1, 2):
                numa = deployment.provider(f"numa{host}_{cell}", parent=root)
                os.environ[f"NUMA{host}_{cell}_UUID"] = numa
                device = deployment.provider(f"pf{host}_{cell}", parent=numa, SRIOV_NET_VF=8)
                os.environ[f"PF{host}_{cell}_UUID"] = device
        for name in ("ss", "ss2"):
            os.environ[f"{name.upper()}_UUID"] = deployment.provider(
                name, aggregates=[aggregate], traits=[SHARING], DISK_GB=disk
            )


class NUMAAggregateFixture(APIFixture):
    """Two empty hosts of two cells; one disk for both hosts, one for a single cell."""

    def populate(self, deployment: Deployment) -> None:
        """Make the hosts, their cells and the two shared disks."""
        a, b, c = (new_uuid() for _ in range(3))
        os.environ |= {"AGGA_UUID": a, "AGGB_UUID": b, "AGGC_UUID": c}
        memberships = {"cn1": [a], "cn2": [a, b], "numa1_1": [c]}
        for host in ("1", "2"):
            root = deployment.provider(f"cn{host}", aggregates=memberships[f"cn{host}"])
            os.environ[f"CN{host}_UUID"] = root
            for name in (f"numa{host}_1", f"numa{host}_2"):
                os.environ[f"{name.upper()}_UUID"] = deployment.provider(
                    name,
                    parent=root,
                    aggregates=memberships.get(name, ()),
                    VCPU=Amount(24, ratio=16.0),
                )
        for name, aggregate in (("ss1", a), ("ss2", c)):
            os.environ[f"{name.upper()}_UUID"] = deployment.provider(
                name,
                aggregates=[aggregate],
                traits=[SHARING],
                DISK_GB=Amount(2000, reserved=100),
            )


class NUMANetworkFixture(APIFixture):
    """A host with cells, accelerators and network agents; another with many network cards."""

    def populate(self, deployment: Deployment) -> None:
        """Make both hosts, without anything above them, and the disk they share."""
        self.hosts(deployment, None, None)

    def hosts(
        self, deployment: Deployment, above_first: str | None, above_second: str | None,
    ) -> None:
        """Make both hosts below the given providers."""
        aggregate = os.environ["AGGA_UUID"] = new_uuid()
        os.environ["SS1_UUID"] = deployment.provider(
            "ss1", aggregates=[aggregate], traits=[SHARING], DISK_GB=2000
        )
        first = os.environ["CN1_UUID"] = deployment.provider(
            "cn1",
            parent=above_first,
            aggregates=[aggregate],
            traits=["COMPUTE_VOLUME_MULTI_ATTACH"],
        )
        self._cells(deployment, first)
        self._agents(deployment, first)
        second = os.environ["CN2_UUID"] = deployment.provider(
            "cn2",
            parent=above_second,
            aggregates=[aggregate],
            traits=["CUSTOM_FOO"],
            VCPU=8,
            MEMORY_MB=Amount(2048, least=1024, step=128),
            DISK_GB=1000,
        )
        deployment.claim(second, "a project", "a user", VCPU=3)
        self._cards(deployment, second)

    def _cells(self, deployment: Deployment, host: str) -> None:
        cells = (
            deployment.provider(
                "numa0",
                parent=host,
                traits=["HW_NUMA_ROOT"],
                VCPU=4,
                MEMORY_MB=Amount(2048, least=512, step=256),
            ),
            deployment.provider(
                "numa1",
                parent=host,
                traits=["HW_NUMA_ROOT", "CUSTOM_FOO"],
                VCPU=4,
                MEMORY_MB=Amount(2048, least=256, most=1024),
            ),
        )
        deployment.claim(cells[0], "a project", "a user", VCPU=2)
        os.environ |= {"NUMA0_UUID": cells[0], "NUMA1_UUID": cells[1]}
        os.environ["FPGA0_UUID"] = deployment.provider("fpga0", parent=cells[0], FPGA=1)
        os.environ["PGPU0_UUID"] = deployment.provider("pgpu0", parent=cells[0], VGPU=8)
        for number in (0, 1):
            device = deployment.provider(f"fpga1_{number}", parent=cells[1], FPGA=1)
            os.environ[f"FPGA1_{number}_UUID"] = device

    def _agents(self, deployment: Deployment, host: str) -> None:
        sriov = os.environ["SRIOV_AGENT_UUID"] = deployment.provider(
            "sriov_agent", parent=host, traits=["CUSTOM_VNIC_TYPE_DIRECT"]
        )
        for number in (1, 2):
            os.environ[f"ESN{number}_UUID"] = deployment.provider(
                f"esn{number}",
                parent=sriov,
                traits=[f"CUSTOM_PHYSNET{number}"],
                NET_BW_EGR_KILOBIT_PER_SEC=10000 * number,
            )
        ovs = os.environ["OVS_AGENT_UUID"] = deployment.provider(
            "ovs_agent", parent=host, traits=["CUSTOM_VNIC_TYPE_NORMAL"]
        )
        os.environ["BR_INT_UUID"] = deployment.provider(
            "br_int", parent=ovs, traits=["CUSTOM_PHYSNET0"], NET_BW_EGR_KILOBIT_PER_SEC=1000
        )

    def _cards(self, deployment: Deployment, host: str) -> None:
        # For each card: how many virtual functions a port has, and the ports' networks.
        for card, (functions, networks) in enumerate(
            ((4, (1, 2)), (2, (1, 2, 1, 2)), (8, (1,))), start=1
        ):
            parent = os.environ[f"NIC{card}_UUID"] = deployment.provider(
                f"nic{card}", parent=host, traits=["CUSTOM_HW_NIC_ROOT"]
            )
            for port, network in enumerate(networks, start=1):
                os.environ[f"PF{card}_{port}_UUID"] = deployment.provider(
                    f"pf{card}_{port}",
                    parent=parent,
                    traits=[f"CUSTOM_PHYSNET{network}"],
                    CUSTOM_VF=functions,
                )


class DeepNUMANetworkFixture(NUMANetworkFixture):
    """The same two hosts, each below a parent, and both parents below one root."""

    def populate(self, deployment: Deployment) -> None:
        """Make the root and the parents, then the hosts."""
        root = deployment.provider("gp1")
        self.hosts(
            deployment, deployment.provider("p1", parent=root),
            deployment.provider("p2", parent=root))


class NonSharedStorageFixture(APIFixture):
    """Three plain hosts; the aggregates have names only."""

    def populate(self, deployment: Deployment) -> None:
        """Make CN1 to CN3."""
        for letter in "ABC":
            os.environ[f"AGG{letter}_UUID"] = new_uuid()
        for number in (1, 2, 3):
            os.environ[f"CN{number}_UUID"] = deployment.provider(
                f"cn{number}", VCPU=24, MEMORY_MB=128 * 1024, DISK_GB=2000
            )


class GranularFixture(APIFixture):
    """Three hosts that differ, two shared disks and a shared network."""

    def populate(self, deployment: Deployment) -> None:
        """Make the hosts and what they share."""
        a, b, c = (new_uuid() for _ in range(3))
        os.environ |= {"AGGA": a, "AGGB": b, "AGGC": c}
        os.environ["CN_LEFT"] = deployment.provider(
            "cn_left",
            aggregates=[a],
            traits=[
                "HW_CPU_X86_AVX",
                "HW_CPU_X86_AVX2",
                "HW_GPU_API_DXVA",
                "HW_NIC_DCB_PFC",
                "CUSTOM_FOO",
            ],
            VCPU=8,
            MEMORY_MB=4096,
            DISK_GB=500,
            VGPU=8,
            SRIOV_NET_VF=8,
            CUSTOM_NET_MBPS=4000,
        )
        os.environ["CN_MIDDLE"] = deployment.provider(
            "cn_middle",
            aggregates=[a, b],
            traits=["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "HW_NIC_ACCEL_TLS"],
            VCPU=8,
            MEMORY_MB=4096,
            SRIOV_NET_VF=8,
            CUSTOM_NET_MBPS=4000,
        )
        os.environ["CN_RIGHT"] = deployment.provider(
            "cn_right",
            aggregates=[b, c],
            traits=["HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD"],
            VCPU=8,
            MEMORY_MB=4096,
            DISK_GB=500,
            VGPU=Amount(8, most=2),
        )
        os.environ["SHR_DISK_1"] = deployment.provider(
            "shr_disk_1", aggregates=[a], traits=[SHARING, "CUSTOM_DISK_SSD"], DISK_GB=1000
        )
        os.environ["SHR_DISK_2"] = deployment.provider(
            "shr_disk_2", aggregates=[a, b], traits=[SHARING], DISK_GB=1000
        )
        os.environ["SHR_NET"] = deployment.provider(
            "shr_net", aggregates=[c], traits=[SHARING], SRIOV_NET_VF=16, CUSTOM_NET_MBPS=40000
        )


class NeutronQoSMultiSegmentFixture(APIFixture):
    """Four hosts with guaranteed bandwidth on the physical networks they reach."""

    DIRECT = (
        "CUSTOM_VNIC_TYPE_DIRECT",
        "CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL",
        "CUSTOM_VNIC_TYPE_MACVTAP",
    )

    def populate(self, deployment: Deployment) -> None:
        """Make compute0 (elsewhere), 1 and 2 (a segment each) and 3 (both, but narrow)."""
        first, second = "CUSTOM_PHYSNET_MSN_S1", "CUSTOM_PHYSNET_MSN_S2"
        self._host(deployment, "compute0", ["CUSTOM_PHYSNET_OTHER"], 5000, 10000)
        self._host(deployment, "compute1", [first], 5000, 10000)
        self._host(deployment, "compute2", [second], 5000, 10000)
        self._host(deployment, "compute3", [first, second], 1000, 1000)

    def _host(
        self, deployment: Deployment, name: str, networks: list[str], bridge: int, device: int
    ) -> None:
        """Make a host: a bridge and a device for each of ``networks``, so wide."""
        root = os.environ[name] = deployment.provider(name, VCPU=8, MEMORY_MB=4096, DISK_GB=500)
        ovs = os.environ[f"{name}:ovs_agent"] = deployment.provider(
            f"{name}:Open vSwitch agent",
            parent=root,
            traits=["CUSTOM_VNIC_TYPE_NORMAL"],
            NET_PACKET_RATE_KILOPACKET_PER_SEC=1000,
        )
        sriov = os.environ[f"{name}:sriov_agent"] = deployment.provider(
            f"{name}:NIC Switch agent", parent=root, traits=self.DIRECT
        )
        for number, network in enumerate(networks):
            interface = "br-ex" + (str(number + 1) if number else "")
            os.environ[f"{name}:{interface.replace('-', '_')}"] = deployment.provider(
                f"{name}:Open vSwitch agent:{interface}",
                parent=ovs,
                traits=["CUSTOM_VNIC_TYPE_NORMAL", network],
                NET_BW_EGR_KILOBIT_PER_SEC=bridge,
                NET_BW_IGR_KILOBIT_PER_SEC=bridge,
            )
            os.environ[f"{name}:pf{number}"] = deployment.provider(
                f"{name}:NIC Switch agent:enp129s0f{number}",
                parent=sriov,
                traits=[*self.DIRECT, network],
                NET_BW_EGR_KILOBIT_PER_SEC=device,
                NET_BW_IGR_KILOBIT_PER_SEC=device,
            )
