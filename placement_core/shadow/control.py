"""Tells a proxy that runs what to do, over its control socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

from placement_core.shadow.errors import NotRunning, RefusedByProxy

#: The longest path of a Unix socket on Linux.
MOST_CHARACTERS = 107

Report = Callable[[str, int, int], None]


class _Connection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


def find_socket(state: pathlib.Path) -> pathlib.Path:
    """Return where the proxy with a state listens, if nothing else is said."""
    return pathlib.Path(f"{state}.control")


def call(
    path: pathlib.Path, command: str, options: Mapping[str, object] | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """Let the proxy carry out a command; return what it says at the end.

    :param report: is told how far it is.
    :raises NotRunning: nobody listens there.
    :raises RefusedByProxy: nothing has happened.
    """
    with contextlib.closing(_Connection(path)) as connection:
        try:
            connection.request(
                "POST", f"/{command}", json.dumps(options or {}),
                {"Content-Type": "application/json"})
            with connection.getresponse() as response:
                for line in response:
                    message = json.loads(line)
                    if "done" in message and report is not None:
                        report(message["what"], message["done"], message["total"])
                    elif "error" in message:
                        raise RefusedByProxy(message["error"])
                    elif "result" in message:
                        result: dict[str, Any] = message["result"]
                        return result
        except (OSError, http.client.HTTPException) as error:
            raise NotRunning(str(path)) from error
    raise NotRunning(str(path))
