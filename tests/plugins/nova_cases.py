"""The base of tests of the driver of Nova: a driver, and a stand-in for nova."""

from __future__ import annotations

import unittest
from typing import Any

from placement_core.testing.compute import (
    HOSTS,
)
from placement_plugins.compute.nova import NovaCompute
from tests import base, nova_standin
from tests.plugins import remote

#: The names of the services of hosts are not those of their compute nodes.
SERVICES = {host: f"compute-{number}" for number, host in enumerate(HOSTS)}
NODES = {service: host for host, service in SERVICES.items()}


@unittest.skipUnless(nova_standin.INSTALLED, "nova is not installed")
class NovaTestCase(base.TestCase):
    """A test against the stand-in, which must not have been sent, or sent, what nova does not.

    :cvar complaints: whether the test sends such things on purpose.
    """

    def setUp(self) -> None:
        self.nova = nova_standin.shared()
        self.nova.reset(hosts=SERVICES)
        super().setUp()
        self.addCleanup(self._look_for_violations)

    def _look_for_violations(self) -> None:
        self.assertEqual([], self.nova.violations())

    def _finish_images(self) -> None:
        self.nova.set(images={
            id_: image | {"status": "active"}
            for id_, image in self.nova.world()["images"].items()})

    def _driver(self, **changes: object) -> NovaCompute:
        conf = remote.configuration(self, nova={
            "auth_type": "password", "auth_url": f"{self.nova.url}/v3", "username": "service",
            "user_domain_id": "default", "password": nova_standin.PASSWORD,
            "project_name": "service", "project_domain_id": "default", "timeout": 20} | changes)
        return NovaCompute(conf)

    def _group(self, lease: str, *, prefix: str = "reservation:") -> None:
        """Have a server group of the service's project, as earlier releases made one."""
        self.nova.put_group(f"{prefix}{lease}", project=nova_standin.SERVICE)

    def _aggregate(self, name: str) -> Any:
        (found,) = (each for each in self.nova.world()["aggregates"].values()
                    if each["name"] == name)
        return found

    def _hosts_of(self, name: str) -> set[str]:
        return {NODES[host] for each in self.nova.world()["aggregates"].values()
                if each["name"] == name for host in each["hosts"]}
