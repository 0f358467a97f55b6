"""Drivers as other distributions register them: real entry points, in a folder."""

from __future__ import annotations

import pathlib
import sys

import fixtures

from placement_core import errors
from placement_core.plugin_api import loader
from tests import base


class Driver:
    """What drivers of this test derive from."""


class Good(Driver):
    """A driver."""


HERE = "tests.unit.plugin_api.test_loader"


class LoaderTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # Look-ups are remembered: in the process by group, on disk by sys.path.
        self.group = f"placement_core.{self.id().rpartition('.')[2]}"
        self.useFixture(fixtures.EnvironmentVariable("XDG_CACHE_HOME", str(self.folder / "c")))
        self.useFixture(fixtures.MonkeyPatch("sys.path", [str(self.folder), *sys.path]))

    def install(self, distribution: str, *points: str) -> None:
        folder = self.folder / f"{distribution}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {distribution}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text("\n".join([f"[{self.group}]", *points, ""]))

    def load(self, name: str) -> type[Driver]:
        return loader.load(self.group, name, Driver, option="[limits] driver")

    def assert_refused(self, expected: str, name: str) -> None:
        error = self.assertRaises(errors.ConfigurationError, self.load, name)
        self.assertEqual(f"[limits] driver = {name}: {expected}", str(error))

    def test_the_one_that_is_named(self) -> None:
        self.install("ours", f"good = {HERE}:Good", "other = no.such.module:Thing")
        self.assertEqual((HERE, "Good"), (self.load("good").__module__,
                                          self.load("good").__name__))

    def test_missing(self) -> None:
        self.install("ours", f"good = {HERE}:Good", f"better = {HERE}:Good")
        self.assert_refused("no such driver; installed: better, good", "bad")

    def test_none_installed(self) -> None:
        self.assert_refused("no such driver; installed: none", "bad")

    def test_broken(self) -> None:
        self.install("ours", "bad = no_such_module_anywhere:Thing")
        self.assert_refused(
            "the driver cannot be loaded: ModuleNotFoundError: "
            "No module named 'no_such_module_anywhere'", "bad")

    def test_registered_twice(self) -> None:
        self.install("ours", f"good = {HERE}:Good")
        self.install("theirs", f"good = {HERE}:Driver")
        self.assert_refused(
            f"registered more than once: {HERE}:Driver, {HERE}:Good", "good")

    def test_something_else(self) -> None:
        self.install("ours", f"good = {HERE}:LoaderTest")
        self.assert_refused(f"{HERE}:LoaderTest is not a Driver", "good")
