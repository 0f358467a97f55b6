"""Runs one of nova's services: ``python -m tests.nova.services NAME CONF [CONF …]``.

It is the service's own main program; this only ends it when the process that started it is
gone, and hosts nova-api, which is an application without a server: NAME is then
``api:PORT``. Where nova can choose it runs with native threads.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import socketserver
import sys
import threading
import wsgiref.simple_server


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Leave it to nova's own log."""


def main(name: str, files: list[str]) -> None:
    """Run a service until it ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kind, _, port = name.partition(":")
    if kind == "api":
        os.environ["OS_NOVA_CONFIG_FILES"] = f"{paste_configuration()};{';'.join(files)}"
        sys.argv[:] = ["nova-api"]  # Nova reads its options there.
        application = importlib.import_module("nova.wsgi.osapi_compute").application
        server = wsgiref.simple_server.make_server(
            "127.0.0.1", int(port), application, server_class=_Server, handler_class=_Handler)
        server.serve_forever()
    sys.argv[:] = [f"nova-{kind}", *(f"--config-file={file}" for file in files)]
    importlib.import_module(f"nova.cmd.{kind}").main()


def paste_configuration() -> pathlib.Path:
    """Return the path of nova's api-paste.ini, which its package brings as data."""
    import importlib.metadata

    for file in importlib.metadata.files("nova") or ():
        if file.match("etc/nova/api-paste.ini"):
            return pathlib.Path(str(file.locate())).resolve()
    raise FileNotFoundError("nova's package has no etc/nova/api-paste.ini")


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
