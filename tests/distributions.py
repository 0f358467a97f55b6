"""Distributions of somebody else's that this process finds, for one test."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Mapping, Sequence

import fixtures


class OnPath(fixtures.Fixture):
    """Lets this process import what is in a folder, and find the entry points there."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__()
        self._folder = folder

    def _setUp(self) -> None:
        self.useFixture(fixtures.MonkeyPatch("sys.path", [str(self._folder), *sys.path]))
        # What stevedore found before it keeps in this process, and in a folder.
        self.useFixture(fixtures.MonkeyPatch(
            "stevedore.extension.ExtensionManager.ENTRY_POINT_CACHE", {}))
        self.useFixture(fixtures.EnvironmentVariable(
            "XDG_CACHE_HOME", self.useFixture(fixtures.TempDir()).path))
        importlib.invalidate_caches()


class Distribution(fixtures.Fixture):
    """Version 1 of a distribution that has nothing but entry points.

    :param entry_points: by group, as ``name = module:attribute``.
    """

    def __init__(self, name: str, entry_points: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self._name = name
        self._entry_points = entry_points

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        information = folder / f"{self._name}-1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Name: {self._name}\nVersion: 1\n")
        (information / "entry_points.txt").write_text("".join(
            "\n".join([f"[{group}]", *points, ""])
            for group, points in self._entry_points.items()))
        self.useFixture(OnPath(folder))
