"""Which worker runs which modules of tests, so that all workers end at about the same time.

stestr divides tests by how long they took last time. In a fresh clone it knows nothing, and
deals them out one by one: the workers then end minutes apart, and both set up what the tests
of a module share. So ``durations.txt`` has the modules that take long, and what they took.
After a whole run, ``python -m tests.workers`` writes it anew.
"""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import subunit
import yaml
from testtools import StreamToDict

_HERE = pathlib.Path(__file__).parent
_DURATIONS = _HERE / "durations.txt"
#: Seconds. A module that takes less is not in the list, and takes this on average.
_SHORTEST = 5
_SHORT = 1.5
#: A module by which a test's name begins, or a package whose modules share a deployment.
_GROUP = re.compile(r"tests\.nova|tests(\.\w+)*?\.test_\w+")


def write_file(path: pathlib.Path, count: int) -> None:
    """Write a file for ``stestr run --worker-file``: one worker for each part.

    :param count: of workers.
    """
    durations = {name: float(seconds) for seconds, name in (
        line.split() for line in _DURATIONS.read_text().splitlines())}
    groups = {_find_group(module) for module in _list_modules()}
    parts = partition({group: durations.get(group, _SHORT) for group in groups}, count)
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump([{"worker": patterns} for patterns in _make_patterns(parts)]))


def _make_patterns(parts: Sequence[Sequence[str]]) -> Iterable[list[str]]:
    """Yield patterns of tests for each part; the last one takes whatever the others do not."""
    for part in parts[:-1]:
        yield [f"^{re.escape(group)}\\." for group in part]
    others = "|".join(re.escape(group) for part in parts[:-1] for group in part)
    yield [f"^(?!({others})\\.)"] if others else ["."]


def partition(durations: Mapping[str, float], count: int) -> list[list[str]]:
    """Divide what takes so long into ``count`` parts that take about equally long."""
    parts: list[list[str]] = [[] for _ in range(count)]
    totals = [0.0] * count
    # The longest first: what is short fills the gaps at the end.
    for name in sorted(durations, key=lambda name: (-durations[name], name)):
        shortest = totals.index(min(totals))
        parts[shortest].append(name)
        totals[shortest] += durations[name]
    return [sorted(part) for part in parts]


def measure(stream: BinaryIO) -> dict[str, float]:
    """Return how many seconds each module took in a run, with what its classes set up.

    :param stream: subunit v2, with the tags that stestr gives to each worker.
    """
    tests: list[dict[str, Any]] = []
    result = StreamToDict(tests.append)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(stream, non_subunit_name="stdout").run(result)
    result.stopTestRun()
    workers: dict[frozenset[str], list[tuple[Any, Any, str]]] = collections.defaultdict(list)
    for test in tests:
        began, ended = test["timestamps"]
        if began is not None and ended is not None:
            workers[frozenset(test["tags"])].append((ended, began, str(test["id"])))
    seconds: collections.Counter[str] = collections.Counter()
    for ends in workers.values():
        before = min(began for _, began, _ in ends)
        for ended, _, name in sorted(ends):
            seconds[_find_group(name)] += (ended - before).total_seconds()
            before = ended
    return dict(seconds)


def _list_modules() -> Iterable[str]:
    for path in _HERE.rglob("test_*.py"):
        yield ".".join(path.relative_to(_HERE.parent).with_suffix("").parts)


def _find_group(name: str) -> str:
    group = _GROUP.search(name)
    assert group, name
    return group.group()


def main() -> None:
    """Write the list of durations, from the last run."""
    command = [sys.executable, "-m", "stestr", "last", "--subunit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as last:
        assert last.stdout is not None
        seconds = measure(last.stdout)
    _DURATIONS.write_text("".join(
        f"{seconds[module]:.0f} {module}\n" for module in sorted(seconds)
        if seconds[module] >= _SHORTEST))


if __name__ == "__main__":
    sys.exit(main())
