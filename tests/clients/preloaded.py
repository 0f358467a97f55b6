"""``openstack``, without the second that each process of it takes to load its libraries.

``command`` returns what begins a command line, in the place of the program. A process that has
loaded the client forks for each command, which has arguments, environment, folder and streams
of its own. Where the program itself is what is tested, tests start that.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any

_RELAY = pathlib.Path(__file__).with_name("relay.py")
#: A request is an environment, mostly.
_MOST_BYTES = 1 << 20
_STREAMS = 3


@functools.cache
def command(path: str | None = None) -> list[str]:
    """Return the program, and its first arguments.

    :param path: PYTHONPATH, where more plugins of the client are; this process's own by default.
    """
    folder = tempfile.TemporaryDirectory(prefix="placement-preloaded-")
    address = f"{folder.name}/socket"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    process = subprocess.Popen(
        # -P: as for the program, this folder is not in its path.
        [sys.executable, "-P", __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
        # What stevedore found before it keeps in a folder.
        env={**kept, **({} if path is None else {"PYTHONPATH": path}),
             "XDG_CACHE_HOME": folder.name})
    atexit.register(_end, process, folder)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError("openstack could not be loaded")
    return [sys.executable, "-I", "-S", str(_RELAY), address]


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    process.kill()
    process.wait()
    folder.cleanup()


def main(address: str) -> None:
    """Load the client; run commands until the standard input is closed."""
    # The client reads its name as it is loaded.
    sys.argv[:] = ["openstack"]
    import openstack.connection  # noqa: F401
    from openstackclient import shell

    # Nobody waits for those who serve.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    listener.close()
                    _serve(connection, shell)


def _serve(connection: socket.socket, shell: Any) -> None:
    """Run a command in a child, and say how it ended; kill it when nobody waits for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, streams, _, _ = socket.recv_fds(connection, _MOST_BYTES, _STREAMS)
    child = os.fork()
    if not child:
        connection.close()
        _run(json.loads(text), streams, shell)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    while ended not in select.select([connection, ended], [], [])[0]:
        sent = connection.recv(1)
        os.kill(child, sent[0] if sent else signal.SIGKILL)
        if not sent:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(request: Any, streams: list[int], shell: Any) -> None:
    status: object = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[1:] = request["arguments"]
        status = shell.main(request["arguments"])
    except SystemExit as exited:
        status = exited.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(status or 0))  # type: ignore[call-overload]


if __name__ == "__main__":
    main(sys.argv[1])
