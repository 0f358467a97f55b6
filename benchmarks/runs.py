"""A run while it is made: each row is a file as soon as it is measured, so nothing is lost.

A run has a folder of its own, ``runs/<kind of database>-<when it began>``: ``run.json`` says under
which conditions it measures, and every other file is a row. A run that ended early is
continued under the same conditions only: the same commit, machine, database and options.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.servers import ROOT

_CONDITIONS = "run.json"
_BAR = 30

Document = dict[str, Any]


class NothingToResume(Exception):
    """There is no run under these conditions."""


class Run:
    """One run on one kind of database, as far as it has come.

    :ivar folder: has a file for each row.
    :ivar started: when it began.
    :ivar conditions: under which it measures.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Open a run that has begun."""
        self.folder = folder
        begun = json.loads((folder / _CONDITIONS).read_text())
        self.started: str = begun["started"]
        self.conditions: Document = begun["conditions"]

    @classmethod
    def begin(cls, build: pathlib.Path, kind: str, conditions: Document) -> Run:
        """Begin a run in a folder of its own."""
        now = datetime.datetime.now()
        folder = build / "runs" / f"{kind}-{now:%Y%m%d-%H%M%S-%f}"
        folder.mkdir(parents=True)
        write(folder / _CONDITIONS, {"started": f"{now:%Y-%m-%d %H:%M}", "conditions": conditions})
        return cls(folder)

    @classmethod
    def resume(cls, build: pathlib.Path, kind: str, conditions: Document) -> Run:
        """Open the last run under these conditions.

        :raises NothingToResume: there is none; it says in what the last run differs.
        """
        begun = [cls(path.parent) for path in sorted(
            (build / "runs").glob(f"{kind}-*/{_CONDITIONS}"), reverse=True)]
        for run in begun:
            if run.conditions == conditions:
                return run
        if not begun:
            raise NothingToResume(f"{kind}: no run has begun")
        differing = sorted(
            name for name in {*conditions, *begun[0].conditions}
            if conditions.get(name) != begun[0].conditions.get(name))
        raise NothingToResume(
            f"{kind}: the last run, of {begun[0].started}, differs in {', '.join(differing)}")

    def save(self, name: str, row: Document) -> None:
        """Save what a row measured."""
        write(self.folder / f"{name}.json", row)

    def read(self, name: str) -> Document | None:
        """Return what a row measured; None: it has not yet."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def assemble(self, names: Iterable[str]) -> Document:
        """Return everything that some rows measured, in their order."""
        parts = {name: part for name in names if (part := self.read(name)) is not None}
        return {
            "started": self.started,
            **self.conditions,
            # What else the machine had to do.
            "load_average": {name: part["load_average"] for name, part in parts.items()},
            "seconds": {name: part["seconds"] for name, part in parts.items()},
            "loading": [text for part in parts.values() for text in part["loading"]],
            "rows": [row for part in parts.values() for row in part["rows"]],
            "growth": [row for part in parts.values() for row in part["growth"]],
        }


def describe_code() -> str:
    """Return the commit that is measured, and a digest of what was changed since.

    Documents and results do not count: a run on one database writes those of it before the next.
    """
    commit = _git("rev-parse", "HEAD").decode().strip()
    changes = _git("diff", "HEAD", "--", ".", ":!doc", ":!benchmarks/results")
    if not changes:
        return commit
    return f"{commit} with changes {hashlib.sha256(changes).hexdigest()[:12]}"


def describe_progress(
    names: Sequence[str], seconds: Mapping[str, float], before: Mapping[str, float]
) -> str:
    """Return a bar, how many rows are done, and how long the others will take.

    :param names: of all rows.
    :param seconds: how long those took that are done.
    :param before: how long rows took in an earlier run, under whatever conditions.
    """
    done = [name for name in names if name in seconds]
    bar = "#" * (_BAR * len(done) // len(names))
    text = f"[{bar:{_BAR}s}] {len(done)} of {len(names)} rows"
    if seconds or before:
        text += f", about {_expect_seconds(names, seconds, before) / 60:.0f} min left"
    return text


def _expect_seconds(
    names: Sequence[str], seconds: Mapping[str, float], before: Mapping[str, float]
) -> float:
    """Return how long rows will take that are not done."""
    # Rows of both runs say how much faster this one is.
    common = [name for name in seconds if name in before]
    pace = (sum(seconds[name] for name in common) / sum(before[name] for name in common)
            if common else 1.0)
    expected = {**{name: pace * before[name] for name in before}, **seconds}
    usual = statistics.mean(expected.values())
    return sum(expected.get(name, usual) for name in names if name not in seconds)


def write(path: pathlib.Path, document: Document) -> None:
    """Write a file as a whole, or not at all."""
    with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(json.dumps(document, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def _git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
