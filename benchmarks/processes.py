"""Processor time and memory of process trees, from /proc."""

from __future__ import annotations

import collections
import os
import pathlib
import re

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = pathlib.Path("/proc")


def children(*pids: int) -> list[int]:
    """Return the processes that some have started, and that live."""
    by_parent = _read_children()
    return [child for pid in pids for child in by_parent[pid]]


def is_alive(pid: int) -> bool:
    """Say whether a process is there, and not only waits until its end is noticed."""
    fields = _stat(pid)
    return bool(fields) and fields[0] != "Z"


def tree(pid: int) -> list[int]:
    """Return ``pid`` and its descendants."""
    by_parent = _read_children()
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += by_parent[found[-1]]
    return found


def _read_children() -> collections.defaultdict[int, list[int]]:
    by_parent = collections.defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                by_parent[int(fields[1])].append(int(entry.name))
    return by_parent


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
