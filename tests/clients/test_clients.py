"""The clients that people use, against the served application."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import uuid

import openstack
import openstack.exceptions

from tests import base, serving
from tests.clients import preloaded


class TestOpenStackClient(base.DatabaseTestCase):
    """``openstack resource provider …``: the osc-placement plugin."""

    def setUp(self) -> None:
        super().setUp()
        self.program = preloaded.command()
        self.service = self.useFixture(serving.Service(self.database.settings.connection))

    def _openstack(self, *arguments: str, succeeds: bool = True) -> object:
        """Run the command line client; return its JSON output, or its complaint."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        done = subprocess.run(
            [
                *self.program,
                *("--os-auth-type", "admin_token", "--os-token", "admin"),
                *("--os-endpoint", self.service.url, "--os-placement-api-version", "1.39"),
                *arguments,
                *(["-f", "json"] if _shows(arguments) else []),
            ],
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(succeeds, done.returncode == 0, done.stdout + done.stderr)
        if not succeeds:
            return done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def test_refusals_have_their_reason(self) -> None:
        """What is said about a body has one line, because the client shows the last one."""
        self.program = [str(pathlib.Path(sys.executable).with_name("openstack"))]
        for arguments, reason in (
            (("class", "create", "fortune"), "'fortune' does not match"),
            (("class", "create", "CUSTOM_" + "A" * 300), "is too long"),
            (("provider", "inventory", "class", "set", str(uuid.uuid4()), "VCPU",
              "--total", "0"), "No resource provider"),
        ):
            said = str(self._openstack("resource", *arguments, succeeds=False))
            self.assertIn(reason, said, arguments)

    def test_from_a_host_to_its_usage(self) -> None:
        """Register a host, find room, claim, look, and give back."""
        host = self._openstack("resource", "provider", "create", "host1")["uuid"]
        self._openstack(
            *("resource", "provider", "inventory", "set", host),
            *("--resource", "VCPU=16", "--resource", "MEMORY_MB=65536"),
        )
        self._openstack("trait", "create", "CUSTOM_GOLD")
        self._openstack("resource", "provider", "trait", "set", "--trait", "CUSTOM_GOLD", host)
        aggregate = str(uuid.uuid4())
        self._openstack(
            *("resource", "provider", "aggregate", "set", host),
            *("--aggregate", aggregate, "--generation", "2"),
        )
        found = self._openstack(
            *("allocation", "candidate", "list", "--resource", "VCPU=2"),
            *("--required", "CUSTOM_GOLD", "--member-of", aggregate),
        )
        self.assertEqual([host], [row["resource provider"] for row in found])
        consumer = str(uuid.uuid4())
        self._openstack(
            *("resource", "provider", "allocation", "set", consumer),
            *("--allocation", f"rp={host},VCPU=2", "--allocation", f"rp={host},MEMORY_MB=512"),
            *("--project-id", "demo", "--user-id", "jane", "--consumer-type", "INSTANCE"),
        )
        usages = self._openstack("resource", "provider", "usage", "show", host)
        self.assertEqual(
            {"VCPU": 2, "MEMORY_MB": 512}, {row["resource_class"]: row["usage"] for row in usages}
        )
        refusal = self._openstack("resource", "provider", "delete", host, succeeds=False)
        self.assertIn("Resource provider has allocations", refusal)
        self._openstack("resource", "provider", "allocation", "delete", consumer)
        self._openstack("resource", "provider", "delete", host)
        self.assertEqual([], self._openstack("resource", "provider", "list"))


def _shows(arguments: tuple[str, ...]) -> bool:
    """Say whether a command prints something in a chosen format."""
    return "delete" not in arguments and arguments[:2] != ("trait", "create") and (
        arguments[:3] != ("resource", "class", "create"))


class TestOpenStackSDK(base.DatabaseTestCase):
    """openstacksdk's placement proxy."""

    def setUp(self) -> None:
        super().setUp()
        service = self.useFixture(serving.Service(self.database.settings.connection))
        cloud = openstack.connection.Connection(
            auth_type="admin_token",
            auth={"endpoint": service.url, "token": "admin"},
            placement_endpoint_override=service.url,
            placement_default_microversion="1.39",
        )
        self.addCleanup(cloud.close)
        self.placement = cloud.placement

    def test_a_provider_and_what_belongs_to_it(self) -> None:
        """Make, change, list and delete through the proxy's objects."""
        provider = self.placement.create_resource_provider(name="host1")
        self.assertEqual("host1", self.placement.find_resource_provider("host1").name)
        self.placement.create_resource_provider_inventory(
            provider, resource_class="VCPU", total=16
        )
        listed = list(self.placement.resource_provider_inventories(provider))
        self.assertEqual([("VCPU", 16)], [(one.resource_class, one.total) for one in listed])
        changed = self.placement.update_resource_provider_inventory(
            listed[0], provider, resource_provider_generation=1, total=32
        )
        self.assertEqual(32, changed.total)
        renamed = self.placement.update_resource_provider(provider, name="host2")
        self.assertEqual("host2", renamed.name)
        self.placement.create_resource_class(name="CUSTOM_FPGA")
        self.assertIn("CUSTOM_FPGA", [one.name for one in self.placement.resource_classes()])
        self.placement.create_trait("CUSTOM_GOLD")
        self.assertEqual("CUSTOM_GOLD", self.placement.get_trait("CUSTOM_GOLD").id)
        self.placement.delete_resource_provider(provider)
        self.assertRaises(
            openstack.exceptions.NotFoundException,
            self.placement.get_resource_provider,
            provider.id,
        )
