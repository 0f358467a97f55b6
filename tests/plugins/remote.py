"""What the tests of both Keystone drivers share: a configuration, a clock, a Keystone."""

from __future__ import annotations

import pathlib
import unittest
from collections.abc import Iterator, Mapping
from typing import Any

import fixtures
from oslo_config import cfg

from placement_core.context import Context
from tests import base, keystone_service, proxies


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


def login(url: str, **changes: object) -> dict[str, object]:
    """Return the options of ``[keystone_client]`` with which an operator reaches ``url``."""
    return {
        "auth_type": "password", "auth_url": url, "endpoint_override": url,
        "username": "admin", "user_domain_id": "default",
        "password": keystone_service.PASSWORD,
        "project_name": "admin", "project_domain_id": "default", "timeout": 30,
    } | changes


def configuration(
    test: fixtures.TestWithFixtures, **groups: Mapping[str, object]
) -> cfg.ConfigOpts:
    """Return what an operator's file with these groups and options makes."""
    folder = pathlib.Path(test.useFixture(fixtures.TempDir()).path)
    path = folder / "placement.conf"
    path.write_text("\n".join(_lines(groups)))
    conf = cfg.ConfigOpts()
    conf([], project="placement", default_config_files=[str(path)], default_config_dirs=[])
    return conf


def _lines(groups: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for group, options in groups.items():
        yield f"[{group}]"
        yield from (f"{name} = {value}" for name, value in options.items() if value is not None)


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class RemoteTestCase(base.TestCase):
    """A test against a real Keystone, through a proxy that counts.

    :cvar options: text for keystone.conf.
    """

    options = ""

    def setUp(self) -> None:
        super().setUp()
        self.keystone = keystone_service.shared(self.options)
        self.admin = keystone_service.admin(self.keystone)
        self.proxy = self.useFixture(proxies.Proxy(self.keystone.url))
        self.clock = Clock()
        # The drivers need no database.
        self.ctx = Context(None)

    def conf(
        self, *, client: Mapping[str, object] | None = None, **groups: Mapping[str, object]
    ) -> cfg.ConfigOpts:
        return configuration(
            self, keystone_client=login(self.proxy.url, **(client or {})), **groups)

    def service(self) -> Any:
        return self.admin.make("services", type="t", name=keystone_service.new_name("service"))

    def region(self) -> Any:
        return self.admin.make("regions", id=keystone_service.new_name("Region"))

    def domain(self) -> Any:
        return self.admin.make("domains", name=keystone_service.new_name("domain"))

    def project(self, parent_id: str, domain_id: str | None = None) -> Any:
        return self.admin.make(
            "projects", name=keystone_service.new_name("project"), parent_id=parent_id,
            domain_id=domain_id or parent_id)

    def user(self, role: str, project_id: str) -> str:
        """Make a user with a role in a project (password ``PASSWORD``); return its name."""
        user = self.admin.make(
            "users", name=keystone_service.new_name("user"),
            password=keystone_service.PASSWORD, domain_id="default")
        roles = {each["name"]: each["id"] for each in self.admin.list("roles")}
        status, _, answer = self.admin.send(
            "PUT", f"/projects/{project_id}/users/{user['id']}/roles/{roles[role]}")
        self.assertEqual(204, status, answer)
        return user["name"]


#: What a client waits in tests of a Keystone that hangs; a busy machine delays one that does not.
SHORT_TIMEOUT = 5.0
#: Seconds, longer than all that is waited for a Keystone that hangs, and its rest.
LONG = 60


def failures(proxy: proxies.Proxy, clock: Clock) -> dict[str, Any]:
    """Return ways in which a Keystone fails, {name: what to set as ``proxy.instead``}."""
    def hang(request: proxies.Request) -> None:
        clock.forward(SHORT_TIMEOUT)
        proxy.hang(request)

    page = proxies.Answer(200, b"<html>Please log in</html>", (("Content-Type", "text/html"),))
    return {
        "503": lambda request: proxies.Answer(503, b"{}"),
        "429": lambda request: proxies.Answer(429, b"{}"),
        "an error of its own": lambda request: proxies.Answer(
            500, b'{"error": {"code": 500, "message": "", "title": ""}}'),
        "somebody else's page": lambda request: page,
        "somebody else's 404": lambda request: proxies.Answer(404, b"<html>no</html>"),
        "somebody else's document": lambda request: proxies.Answer(200, b'{"status": "ok"}'),
        "nothing": hang,
    }


def end_failure(proxy: proxies.Proxy, clock: Clock, name: str) -> None:
    """Let Keystone answer again: at once, unless it hung and is left alone for a while."""
    proxy.instead = lambda request: None
    if name == "nothing":
        clock.forward(LONG)
