"""Passes a command to the process of ``preloaded``, with this one's streams; ends as it ends."""

import json
import os
import signal
import socket
import sys

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(address: str, *arguments: str) -> int:
    """Return the exit code of the command, or die of the signal that it died of."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        for number in _SIGNALS:
            signal.signal(number, lambda sent, _frame: connection.sendall(bytes([sent])))
        request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        answer = connection.recv(64)
    code = int(answer)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
