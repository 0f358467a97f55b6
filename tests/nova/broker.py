"""A virtual host of RabbitMQ for one nova, so that two runs do not read each other's queues.

``PLACEMENT_TEST_RABBITMQ`` names one that nobody else uses, as ``amqp://user:password@host:port/name``.
Without it a new one is made, with ``rabbitmqctl``, in the server that answers on 127.0.0.1.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import urllib.parse
import uuid

import fixtures
import kombu

VARIABLE = "PLACEMENT_TEST_RABBITMQ"
_LOCAL = "amqp://guest:guest@127.0.0.1:5672/"
_CTL = shutil.which("rabbitmqctl", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
_SECONDS_TO_CONNECT = 3


@functools.cache
def missing() -> str | None:
    """Say why there is no RabbitMQ for tests; None: there is one."""
    url = os.environ.get(VARIABLE)
    problem = _refusal(url or _LOCAL)
    if problem is not None:
        return f"RabbitMQ ({f'{VARIABLE} does not answer' if url else f'set {VARIABLE}'})"
    if url is None and (_CTL is None or _control("list_vhosts").returncode):
        return f"RabbitMQ (rabbitmqctl is not to be had; set {VARIABLE})"
    return None


class VirtualHost(fixtures.Fixture):
    """A virtual host that is this fixture's own.

    :ivar transport_url: as nova.conf has it.
    """

    transport_url: str

    def _setUp(self) -> None:
        url = os.environ.get(VARIABLE)
        if url is None:
            name = f"placement-test-{uuid.uuid4().hex[:12]}"
            for command in (["add_vhost", name],
                            ["set_permissions", "--vhost", name, "guest", ".*", ".*", ".*"]):
                done = _control(*command)
                if done.returncode:
                    raise RuntimeError(f"rabbitmqctl {' '.join(command)}: {done.stderr}")
                if command[0] == "add_vhost":
                    self.addCleanup(_control, "delete_vhost", name)
            url = _LOCAL + name
        self.transport_url = urllib.parse.urlsplit(url)._replace(scheme="rabbit").geturl()


def _control(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert _CTL is not None
    return subprocess.run([_CTL, "--quiet", *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


def _refusal(url: str) -> Exception | None:
    try:
        with kombu.Connection(url, connect_timeout=_SECONDS_TO_CONNECT) as connection:
            connection.connect()
    except (OSError, *kombu.Connection(url).connection_errors) as error:
        return error
    return None
