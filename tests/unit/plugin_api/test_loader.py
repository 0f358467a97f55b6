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

    api_version = 2


class Good(Driver):
    """A driver."""

    api_version = 2


class Silent(Driver):
    """A driver that does not say for which version it was written."""


class Old(Driver):
    """A driver that nobody has looked at since."""

    api_version = 1


class OfOld(Old):
    """A driver of somebody who built on that one."""


class Unversioned:
    """A base class that has one version only."""


class OfUnversioned(Unversioned):
    """A driver of that kind."""

    api_version = 7


HERE = "tests.unit.plugin_api.test_loader"


class TestLoader(base.TestCase):
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
            "No module named 'no_such_module_anywhere' (ours 1)", "bad")

    def test_registered_twice(self) -> None:
        self.install("ours", f"good = {HERE}:Good")
        self.install("theirs", f"good = {HERE}:Driver")
        self.assert_refused(
            f"registered more than once: {HERE}:Driver (theirs 1), {HERE}:Good (ours 1)", "good")

    def test_something_else(self) -> None:
        self.install("ours", f"good = {HERE}:TestLoader")
        self.assert_refused(f"{HERE}:TestLoader is not a Driver (ours 1)", "good")

    def test_another_version(self) -> None:
        self.install("ours", f"old = {HERE}:Old", f"of_old = {HERE}:OfOld")
        for name, target in (("old", "Old"), ("of_old", "OfOld")):
            self.assert_refused(
                f"{HERE}:{target} was written for version 1 of Driver; this is version 2 "
                "(ours 1)", name)

    def test_no_version_of_its_own(self) -> None:
        """It has the base class's, whichever that is."""
        self.install("ours", f"silent = {HERE}:Silent")
        self.assertEqual("Silent", self.load("silent").__name__)

    def test_a_base_class_without_versions(self) -> None:
        self.install("ours", f"any = {HERE}:OfUnversioned")
        found = loader.load(self.group, "any", Unversioned, option="[limits] driver")
        self.assertEqual("OfUnversioned", found.__name__)
