"""What the server of ``fork_server`` has imported before it forks a process."""

from __future__ import annotations

from placement_core.cli import fork_server
from placement_core.collector import freeze_loaded, no_garbage_collection

with no_garbage_collection():
    import granian.server.mp  # noqa: F401

    import placement_core.app
    import placement_core.cli.manager  # noqa: F401
fork_server.survive_failing_forks()
freeze_loaded()
