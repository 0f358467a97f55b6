"""``placement-core`` as a process of its own, on a database of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[3]


def environment(connection: str | None, **more: str) -> dict[str, str]:
    """Return an environment that reads no configuration of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")]),
        "OS_PLACEMENT_CONFIG_DIR": "/nonexistent",
        "OS_API__AUTH_STRATEGY": "noauth2",
        **({"OS_PLACEMENT_DATABASE__CONNECTION": connection} if connection else {}),
        **more,
    }


def run(
    *arguments: str, connection: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "placement_core", *arguments],
        env=environment(connection, **more), capture_output=True, text=True,
        check=False, timeout=120, cwd=_ROOT,
    )
