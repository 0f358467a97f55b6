"""A real Keystone for tests: SQLite, Fernet tokens, one process.

``python -m tests.keystone_service FOLDER [OPTIONS]`` makes one in FOLDER, prints its URL
when it serves, and serves until it is killed; OPTIONS is text for its keystone.conf.
``Keystone`` is the fixture around it, ``shared`` one that a whole test process uses.
Keystone itself is imported by that process alone.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import pathlib
import select
import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid
import wsgiref.simple_server
from collections.abc import Mapping, Sequence
from typing import Any

import fixtures
from cryptography import fernet

#: Whether there is one to be had.
INSTALLED = importlib.util.find_spec("keystone") is not None

#: The administrator's password, and that of the service's user.
PASSWORD = "no secret"
_PATIENCE_SECONDS = 180

_OPTIONS = """
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/tokens
[token]
# The administrator logs in once for a whole run of tests, which may take more than an hour.
expiration = 86400
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credentials
[cache]
enabled = true
backend = dogpile.cache.memory
# In memory, answers change what is kept (spec limits, B10); tokens are what costs time.
[identity]
password_hash_rounds = 4
[unified_limit]
caching = false
[resource]
caching = false
[catalog]
caching = false
"""


class Keystone(fixtures.Fixture):
    """A running Keystone; ``url`` is its v3 endpoint, ``log`` a file that goes with it.

    ``folder`` has its configuration, its keys and its database.

    The project ``admin`` has the user ``admin``, with the role of that name.

    :param options: text for keystone.conf.
    """

    url: str
    folder: pathlib.Path
    log: pathlib.Path

    def __init__(self, options: str = "") -> None:
        super().__init__()
        self._options = options

    def _setUp(self) -> None:
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "tests.keystone_service", str(self.folder), self._options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.addCleanup(self._end, process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        line = process.stdout.readline().decode() if ready else ""
        if not line.startswith("http"):
            raise RuntimeError(f"Keystone did not start:\n{self.log.read_text()}")
        self.url = line.strip()

    def make_authtoken_environment(
        self, login: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment of a service that trusts this Keystone.

        :param login: how it logs in, instead of as the administrator with a password.
        """
        options = {"auth_url": self.url, "www_authenticate_uri": self.url, **(login or {
            "auth_type": "password", "username": "admin", "password": PASSWORD,
            "project_name": "admin", "user_domain_id": "default", "project_domain_id": "default"})}
        return {f"OS_KEYSTONE_AUTHTOKEN__{name.upper()}": value
                for name, value in options.items()}

    def stop(self) -> None:
        """Kill it."""
        self._end(self._process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


_shared: dict[str, Keystone] = {}


def shared(options: str = "") -> Keystone:
    """Return a Keystone that this process has already, or make it; it ends with the process.

    Tests that share one make objects of their own and do not count on there being no others.
    """
    if options not in _shared:
        made = Keystone(options)
        made.setUp()
        atexit.register(made.cleanUp)
        _shared[options] = made
    return _shared[options]


class Admin:
    """Sends requests as the administrator, and makes what tests need.

    :param url: Keystone's v3 endpoint.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.token = self.log_in(
            {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD},
            {"project": {"name": "admin", "domain": {"id": "default"}}})

    def log_in(self, user: Mapping[str, object], scope: Mapping[str, object] | str) -> str:
        """Return a token for a user.

        :param scope: ``unscoped`` for none.
        """
        status, headers, answer = self.send("POST", "/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope,
        }}, token="")
        if status != 201:
            raise AssertionError(f"POST /auth/tokens: {status} {answer!r}")
        return headers["X-Subject-Token"]

    def send(
        self, method: str, path: str, body: object = None, *,
        token: str | None = None, headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any, bytes]:
        """Send one request; return status, headers and body.

        :param body: bytes, or something for JSON.
        :param token: instead of the administrator's; "" for none.
        """
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        else:
            # The server of the standard library waits for a body otherwise.
            request.add_header("Content-Length", "0")
        token = self.token if token is None else token
        if token:
            request.add_header("X-Auth-Token", token)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def make(self, collection: str, **values: object) -> Any:
        """Make an object; return it as Keystone shows it."""
        member = collection.removesuffix("s")
        batch = collection in ("limits", "registered_limits")
        body = {collection: [values]} if batch else {member: values}
        status, _, answer = self.send("POST", f"/{collection}", body)
        if status != 201:
            raise AssertionError(f"POST /{collection} {body}: {status} {answer!r}")
        document = json.loads(answer)
        return document[collection][0] if batch else document[member]

    def list(self, collection: str) -> Any:
        """Return all objects of a collection."""
        return json.loads(self.send("GET", f"/{collection}")[2])[collection]

    def change(self, collection: str, id_: str, **values: object) -> None:
        """Change an object."""
        path = f"/{collection}/{id_}"
        status, _, answer = self.send("PATCH", path, {collection.removesuffix("s"): values})
        if status != 200:
            raise AssertionError(f"PATCH {path} {values}: {status} {answer!r}")

    def remove(self, collection: str, id_: str) -> None:
        """Delete an object."""
        status, _, answer = self.send("DELETE", f"/{collection}/{id_}")
        if status != 204:
            raise AssertionError(f"DELETE /{collection}/{id_}: {status} {answer!r}")


@functools.cache
def admin(keystone: Keystone) -> Admin:
    """Return the administrator of a shared Keystone, who has logged in already."""
    return Admin(keystone.url)


def new_name(kind: str) -> str:
    """Return a name that nothing else in a shared Keystone has."""
    return f"{kind}-{uuid.uuid4().hex[:12]}"


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


def main(folder: pathlib.Path, options: str) -> None:
    """Make a Keystone in ``folder`` and serve it."""
    for name in ("tokens", "receipts", "credentials"):
        keys = folder / name
        keys.mkdir(mode=0o700)
        for number in "01":
            (keys / number).write_bytes(fernet.Fernet.generate_key())
    (folder / "keystone.conf").write_text(_OPTIONS.format(folder=folder) + options)
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

    # Who started it may be killed: then this pipe is closed.
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    server.set_app(api.application)
    print(url, flush=True)
    os.dup2(2, 1)  # Nobody reads on; Keystone would wait when the pipe is full.
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
    main(pathlib.Path(sys.argv[1]), "".join(sys.argv[2:]))
