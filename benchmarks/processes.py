"""Processor time and memory of process trees, from /proc."""

from __future__ import annotations

import collections
import os
import pathlib
import re

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = pathlib.Path("/proc")


def tree(pid: int) -> list[int]:
    """Return ``pid`` and its descendants."""
    children = collections.defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                children[int(fields[1])].append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children[found[-1]]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process tree, of its ended processes too.

    A database ends the process of a connection that is closed: its time is then
    in the counters of the parent that waited for it.
    """
    return sum(sum(map(int, fields[11:15])) for fields in map(_stat, tree(pid)) if fields) / _TICKS


def resident_mib(pid: int) -> dict[str, float]:
    """Return the resident set and the proportional set of one process, in MiB."""
    text = (_PROC / str(pid) / "smaps_rollup").read_text()
    sizes = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.MULTILINE))
    return {name.lower(): int(size) / 1024 for name, size in sizes.items()}


def named(*names: str) -> int | None:
    """Return the lowest id of a process whose program is called one of ``names``."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text().strip() in names:
                    found.append(int(entry.name))
            except OSError:
                continue
    return min(found, default=None)


def parent(pid: int) -> int:
    """Return the id of the parent of ``pid``."""
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/pid/stat from the state on; [] when it has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []
