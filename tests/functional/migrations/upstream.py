"""Upstream Placement, run as it is installed, in processes of its own.

The judge of adoption: its ``placement-manage`` makes databases, its WSGI app fills
them, meets our fence and takes them back. Nothing of it is imported here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

#: Serves requests given as JSON on stdin through upstream's app, in order.
_APP = """
import json, sys
from oslo_config import cfg
from oslo_log import log as logging
import webob
from placement import conf, db_api, deploy
config = cfg.ConfigOpts()
conf.register_opts(config)
logging.register_options(config)
config(["--config-file", sys.argv[1]], project="placement", default_config_files=None)
db_api.configure(config)
app = deploy.loadapp(config)
for line in sys.stdin:
    method, path, body, version = json.loads(line)
    request = webob.Request.blank(path, method=method)
    request.headers["x-auth-token"] = "admin"
    request.headers["openstack-api-version"] = "placement " + version
    if body is not None:
        request.content_type = "application/json"
        request.body = json.dumps(body).encode()
    reply = request.get_response(app)
    print(json.dumps([reply.status_int, reply.text]), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Reply:
    """What upstream's API answered."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Upstream:
    """Upstream Placement on one database.

    :param url: SQLAlchemy URL with password; its driver may be ours.
    """

    def __init__(self, url: str) -> None:
        # Upstream asks cursors for ``lastrowid``, which psycopg 3 does not have.
        url = url.replace("+psycopg:", "+psycopg2:")
        self.folder = tempfile.TemporaryDirectory(prefix="placement-upstream-")
        self.config = pathlib.Path(self.folder.name) / "placement.conf"
        self.config.write_text(
            f"[DEFAULT]\nstate_path = {self.folder.name}\n[api]\nauth_strategy = noauth2\n"
            f"[placement_database]\nconnection = {url.replace('%', '%%')}\n"
            # Saves a process for each test; it runs what "db sync" runs.
            "sync_on_startup = true\n"
        )
        self._app: subprocess.Popen[str] | None = None

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``placement-manage``; the caller looks at its exit code."""
        return subprocess.run(
            [str(pathlib.Path(sys.executable).with_name("placement-manage")),
             "--config-file", str(self.config), *arguments],
            capture_output=True, text=True, check=False, timeout=120,
        )

    def make_database(self) -> None:
        """Make upstream's schema with upstream's command."""
        done = self.manage("db", "sync")
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def call(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Reply:
        """Send one request through upstream's app, which starts at the first.

        Starting, it makes its schema where there is none.
        """
        if self._app is None:
            self._app = subprocess.Popen(
                [sys.executable, "-c", _APP, str(self.config)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=(pathlib.Path(self.folder.name) / "stderr").open("w"),
                text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
            )
        assert self._app.stdin is not None and self._app.stdout is not None
        self._app.stdin.write(json.dumps([method, path, body, version]) + "\n")
        self._app.stdin.flush()
        line = self._app.stdout.readline()
        if not line:
            raise AssertionError((pathlib.Path(self.folder.name) / "stderr").read_text()[-4000:])
        return Reply(*json.loads(line))

    def do(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Reply:
        """Send a request that must succeed."""
        reply = self.call(method, path, body, version)
        if reply.status >= 300:
            raise AssertionError(f"{method} {path}: {reply.status} {reply.text}")
        return reply

    def stop(self) -> None:
        """End the process of the app, if one runs."""
        if self._app is not None:
            assert self._app.stdin is not None and self._app.stdout is not None
            self._app.stdin.close()
            self._app.wait(timeout=30)
            self._app.stdout.close()
            self._app = None

    def close(self) -> None:
        """End everything and remove the configuration."""
        self.stop()
        self.folder.cleanup()
