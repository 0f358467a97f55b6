"""A real Keystone for tests: SQLite, Fernet tokens, one process.

``python -m tests.keystone_service FOLDER`` makes one in FOLDER, prints its URL when it
serves, and serves until it is killed. ``Keystone`` is the fixture around it.
Keystone itself is imported by that process alone.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import socketserver
import subprocess
import sys
import wsgiref.simple_server
from collections.abc import Sequence

import fixtures
from cryptography import fernet

#: The administrator's password, and that of the service's user.
PASSWORD = "no secret"
_PATIENCE_SECONDS = 180

_OPTIONS = """
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/tokens
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credentials
[cache]
enabled = false
"""


class Keystone(fixtures.Fixture):
    """A running Keystone; ``url`` is its v3 endpoint.

    The project ``admin`` has the user ``admin``, with the role of that name.
    """

    url: str

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.keystone_service", str(folder)],
                stdout=subprocess.PIPE, stderr=log)
        self.addCleanup(self._end, process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        line = process.stdout.readline().decode() if ready else ""
        if not line.startswith("http"):
            raise RuntimeError(f"Keystone did not start:\n{(folder / 'log').read_text()}")
        self.url = line.strip()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        with contextlib.suppress(AttributeError):
            process.stdout.close()


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


def main(folder: pathlib.Path) -> None:
    """Make a Keystone in ``folder`` and serve it."""
    for name in ("tokens", "receipts", "credentials"):
        keys = folder / name
        keys.mkdir(mode=0o700)
        for number in "01":
            (keys / number).write_bytes(fernet.Fernet.generate_key())
    (folder / "keystone.conf").write_text(_OPTIONS.format(folder=folder))
    server = wsgiref.simple_server.make_server(
        "127.0.0.1", 0, lambda environ, start: [], server_class=_Server)
    url = f"http://127.0.0.1:{server.server_port}/v3"
    _manage(folder, "db_sync")
    _manage(folder, "bootstrap", "--bootstrap-password", PASSWORD,
            "--bootstrap-admin-url", url, "--bootstrap-internal-url", url,
            "--bootstrap-public-url", url, "--bootstrap-region-id", "RegionOne")
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = str(folder)
    sys.argv[1:] = []  # Keystone reads its options there
    from keystone.wsgi import api

    server.set_app(api.application)
    print(url, flush=True)
    server.serve_forever()


def _manage(folder: pathlib.Path, *arguments: str) -> None:
    """Run keystone-manage in a child, which starts with everything imported."""
    from keystone.cmd import cli

    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(2, 1)
            command: Sequence[str] = (
                "keystone-manage", "--config-file", str(folder / "keystone.conf"), *arguments)
            sys.argv = list(command)
            cli.main(argv=list(command))
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if ended:
        raise SystemExit(f"keystone-manage {arguments[0]} failed")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
