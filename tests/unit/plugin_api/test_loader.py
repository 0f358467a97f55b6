"""Drivers as other distributions register them: real entry points, in a folder."""

from __future__ import annotations

from placement_core import errors
from placement_core.plugin_api import loader
from placement_core.plugin_api.reservations import LONGEST_TYPE, ReservationPlugin
from tests import base, distributions

#: A resource type that is too long by one character.
LONG = "device:".ljust(LONGEST_TYPE + 1, "x")


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


class OfGood(Good):
    """A driver of somebody who built on that one."""


class Unversioned:
    """A base class that has one version only."""


class OfUnversioned(Unversioned):
    """A driver of that kind."""

    api_version = 7


class Untyped(ReservationPlugin):
    """A plugin that does not say what it reserves."""

    api_version = ReservationPlugin.api_version


class Devices(Untyped):
    """A plugin whose entry point has another name."""

    api_version = ReservationPlugin.api_version
    resource_type = "device:any"


class Long(Untyped):
    """A plugin whose resource type is longer than leases can store."""

    api_version = ReservationPlugin.api_version
    resource_type = LONG


HERE = "tests.unit.plugin_api.test_loader"


class TestLoader(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.group = f"placement_core.{self.id().rpartition('.')[2]}"

    def install(self, distribution: str, *points: str) -> None:
        self.useFixture(distributions.Distribution(distribution, {self.group: points}))

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
        """It would have that of the base class, whichever that is."""
        self.install("ours", f"silent = {HERE}:Silent", f"base = {HERE}:Driver",
                     f"built = {HERE}:OfGood")
        for name, target in (("silent", "Silent"), ("base", "Driver")):
            self.assert_refused(
                f"{HERE}:{target} does not say for which version of Driver it was written "
                "(api_version); this is version 2 (ours 1)", name)
        self.assertEqual("OfGood", self.load("built").__name__)

    def test_a_base_class_without_versions(self) -> None:
        self.install("ours", f"any = {HERE}:OfUnversioned")
        found = loader.load(self.group, "any", Unversioned, option="[limits] driver")
        self.assertEqual("OfUnversioned", found.__name__)

    def test_a_resource_type_of_another_name(self) -> None:
        """Leases name the type, and the option names the entry point: both are the same."""
        self.install("ours", f"device:gpu = {HERE}:Devices", f"device:fpga = {HERE}:Untyped",
                     f"{LONG} = {HERE}:Long")
        for name, problem in (
            ("device:gpu", f"{HERE}:Devices has the resource_type 'device:any'; expected "
             "'device:gpu', the name of its entry point"),
            ("device:fpga", f"{HERE}:Untyped has the resource_type None; expected "
             "'device:fpga', the name of its entry point"),
            (LONG, f"{HERE}:Long has a resource_type of 67 characters; expected at most 66"),
        ):
            error = self.assertRaises(
                errors.ConfigurationError, loader.load, self.group, name, ReservationPlugin,
                option="[reservations] plugins")
            self.assertEqual(f"[reservations] plugins = {name}: {problem} (ours 1)", str(error))
