"""Hosts of a network on one machine: namespaces that can be cut off."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

import fixtures

from tests.server_programs import NoServerError, NotInstalledError, find


class Network(fixtures.Fixture):
    """Some hosts, each in a namespace of its own, on one bridge, which this machine is on, too.

    :ivar addresses: of the hosts.
    """

    def __init__(self, name: str, count: int) -> None:
        """Prepare a network.

        :param name: of at most five letters, for its interfaces.
        """
        super().__init__()
        # Networks of several runs stand beside each other.
        self._name = f"{name[:5]}{os.getpid() % 10_000}"
        self._count = count

    def _setUp(self) -> None:
        if os.geteuid() != 0:
            raise NotInstalledError("network namespaces need the user root")
        self._ip = find("ip", "iproute2", "/usr/sbin")
        subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._bridge = f"{self._name}-br"
        self.addresses = [f"{subnet}.{number + 2}" for number in range(self._count)]
        self._run("link", "add", self._bridge, "type", "bridge")
        self.addCleanup(self._run, "link", "del", self._bridge)
        self._run("addr", "add", f"{subnet}.1/24", "dev", self._bridge)
        self._run("link", "set", self._bridge, "up")
        for number, address in enumerate(self.addresses):
            self._make_host(number, address)

    def _make_host(self, number: int, address: str) -> None:
        host, outside = self._host(number), self._outside(number)
        self._run("netns", "add", host)
        self.addCleanup(self._run, "netns", "del", host)
        self._run("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", host)
        self._run("link", "set", outside, "master", self._bridge, "up")
        self._run("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            self._run("-n", host, "link", "set", device, "up")

    def _host(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _outside(self, number: int) -> str:
        return f"{self._name}-v{number}"

    def enter(self, number: int) -> Sequence[str]:
        """Return what a command begins with that is to run on a host."""
        return [self._ip, "netns", "exec", self._host(number)]

    @contextlib.contextmanager
    def cut_off(self, number: int) -> Iterator[None]:
        """Let nothing reach a host, and nothing leave it."""
        self._run("link", "set", self._outside(number), "nomaster")
        try:
            yield
        finally:
            self._run("link", "set", self._outside(number), "master", self._bridge)

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([self._ip, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise NoServerError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
