"""``placement-core``, run in this process (quick) or in one of its own (as it is used)."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pathlib
import pty
import subprocess
import sys
from unittest import mock

from placement_core.cli import main

_ROOT = pathlib.Path(__file__).parents[3]


def environment(connection: str | None, **more: str) -> dict[str, str]:
    """Return an environment that reads no configuration of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")]),
        "OS_PLACEMENT_CONFIG_DIR": "/nonexistent",
        "OS_API__AUTH_STRATEGY": "noauth2",
        # SQLite databases of cells are in temporary folders.
        "OS_CELLS__DIRECTORIES": "/",
        **({"OS_PLACEMENT_DATABASE__CONNECTION": connection} if connection else {}),
        **more,
    }


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(
    *arguments: str, connection: str | None = None, terminal: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in this process.

    :param terminal: whether it prints on one.
    """
    printed, said = _Terminal() if terminal else io.StringIO(), io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        with (
            mock.patch.dict(os.environ, environment(connection, **more), clear=True),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            code = main.main(arguments)
    except SystemExit as exited:
        code = int(exited.code or 0)
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), said.getvalue())


def run_process(
    *arguments: str, connection: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as a process."""
    return subprocess.run(
        [sys.executable, "-m", "placement_core", *arguments],
        env=environment(connection, **more), capture_output=True, text=True,
        check=False, timeout=120, cwd=_ROOT,
    )


def run_on_terminal(*arguments: str, connection: str, **more: str) -> tuple[int, str, str]:
    """Run a command whose stderr is a terminal.

    :returns: exit code, what it printed, and what the terminal got.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "placement_core", *arguments], stdout=subprocess.PIPE,
        stderr=theirs, text=True, cwd=_ROOT,
        env={**environment(connection, **more), "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the other end is closed.
                break
            if not piece:
                break
            shown += piece
        assert process.stdout is not None
        printed = process.stdout.read()
    os.close(ours)
    return process.returncode, printed, shown.decode()
