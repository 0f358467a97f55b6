"""What a run was made on: enough to judge its numbers, nothing that names a machine."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import re

#: Packages whose version matters to the speed of our side.
_OURS = ("granian", "numpy", "orjson", "psycopg", "PyMySQL", "pyramid", "SQLAlchemy")


def describe() -> dict[str, object]:
    """Return cores, processor, memory and versions."""
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    model = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": model[1].strip() if model else platform.machine(),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _OURS},
    }


def _read(path: str) -> str:
    return pathlib.Path(path).read_text()
