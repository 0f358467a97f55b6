"""A driver that fails is named, whether it is made or called."""

from __future__ import annotations

import inspect

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import errors
from placement_core.plugin_api import choices, drivers, loader
from placement_core.plugin_api.choices import DriverChoice
from placement_core.plugin_api.limits import LimitDriver
from tests import base, distributions

_HERE = "tests.unit.plugin_api.test_drivers"


class Plain(LimitDriver):
    """A driver without a constructor, whose answers fail in every way."""

    api_version = 1

    def effective(self, ctx, service_id, region_id, node_ids):
        raise RuntimeError("boom\nand more")

    def user_limits(self, ctx, *arguments, **keywords):
        raise errors.Unavailable("its server is away")

    def registered(self, ctx, *arguments, **keywords):
        raise sa.exc.OperationalError("SELECT 1", {}, Exception("deadlock"))


class Loose(LimitDriver):
    """A driver whose methods are bound in other ways than usual."""

    api_version = 1

    def __init__(self, conf):
        self.registered = lambda ctx: [ctx, "of the instance"]

    @staticmethod
    def effective(ctx, node_ids, *, service_id, region_id=None):
        return [ctx, node_ids, service_id]

    @classmethod
    def user_limits(cls, ctx):
        raise KeyError(cls.__name__)


class Fixed(Plain):
    """A driver with a method that cannot be replaced."""

    @property
    def registered(self):
        return lambda ctx: []


class Failing(LimitDriver):
    """A driver that cannot be made."""

    api_version = 1

    def __init__(self, conf):
        raise KeyError("boom")

    effective = user_limits = registered = Plain.effective


class Refusing(Failing):
    """A driver that says itself what it lacks."""

    def __init__(self, conf):
        raise errors.ConfigurationError("[its] option: expected something")


class DriversTestCase(base.TestCase):
    """With a distribution of somebody else's."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(distributions.Distribution("theirs", {"placement_core.limits": [
            f"plain = {_HERE}:Plain", f"failing = {_HERE}:Failing",
            f"refusing = {_HERE}:Refusing", "broken = no_such_module:Driver",
            f"other = {_HERE}:DriversTestCase", f"local = {_HERE}:Plain",
            f"loose = {_HERE}:Loose", f"fixed = {_HERE}:Fixed"]}))

    def make(self, name: str) -> LimitDriver:
        return drivers.make(
            cfg.ConfigOpts(), DriverChoice("limits", name, "[limits] driver"), LimitDriver)


class TestMaking(DriversTestCase):
    """One line says which driver, of which distribution, for which option."""

    def test_constructors(self) -> None:
        """The exception's type is named: 'boom' alone says nothing."""
        error = self.assertRaises(errors.ConfigurationError, self.make, "failing")
        self.assertEqual(
            "[limits] driver = failing: the limits driver failing of theirs 1 cannot be made: "
            "KeyError: 'boom'", str(error))

    def test_what_they_say_themselves(self) -> None:
        """A driver that knows what it lacks is not interrupted."""
        error = self.assertRaises(errors.ConfigurationError, self.make, "refusing")
        self.assertEqual("[its] option: expected something", str(error))

    def test_what_cannot_be_replaced(self) -> None:
        """A driver whose failures would not be named is refused."""
        error = self.assertRaises(errors.ConfigurationError, self.make, "fixed")
        self.assertIn("fixed of theirs 1 cannot be made: AttributeError: ", str(error))

    def test_without_a_constructor(self) -> None:
        """The base class has one."""
        self.assertIsInstance(self.make("plain"), Plain)


class TestCalls(DriversTestCase):
    """What a driver raises by mistake names it; what it raises on purpose passes."""

    def test_mistakes(self) -> None:
        """One line, and the cause for the log."""
        error = self.assertRaises(
            drivers.DriverFailed, self.make("plain").effective, None, "s", None, [])
        self.assertEqual(
            "the limits driver plain of theirs 1 ([limits] driver) failed in effective: "
            "RuntimeError: boom", str(error))
        self.assertIsInstance(error.__cause__, RuntimeError)

    def test_what_passes(self) -> None:
        """Errors of the service, and of the database, which are repeated where they can be."""
        driver = self.make("plain")
        self.assertRaises(errors.Unavailable, driver.user_limits, None)
        self.assertRaises(sa.exc.OperationalError, driver.registered, None)

    def test_how_methods_are_bound(self) -> None:
        """As the contract calls them: static ones, those of the class, and those of the driver."""
        driver = self.make("loose")
        self.assertEqual(["ctx", [], "s"], driver.effective("ctx", [], service_id="s"))
        self.assertEqual(["ctx", "of the instance"], driver.registered("ctx"))
        error = self.assertRaises(drivers.DriverFailed, driver.user_limits, "ctx")
        self.assertIn("failed in user_limits: KeyError: 'Loose'", str(error))

    def test_signatures(self) -> None:
        """They are the driver's own: what it does not take it is not called with."""
        self.assertEqual(
            ["ctx", "service_id", "region_id", "node_ids"],
            list(inspect.signature(self.make("plain").effective).parameters))


class TestListing(DriversTestCase):
    """Every entry point with what is wrong with it."""

    def test_states(self) -> None:
        """Nothing is raised for the sake of a broken one."""
        problems = {
            (driver.name, driver.distribution): driver.problem
            for driver in loader.list_installed({"limits": choices.KINDS["limits"]})}
        self.assertIsNone(problems["plain", "theirs 1"])
        self.assertEqual(
            "it cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
            problems["broken", "theirs 1"])
        self.assertEqual(
            f"{_HERE}:DriversTestCase is not a LimitDriver", problems["other", "theirs 1"])
        self.assertEqual("registered more than once", problems["local", "theirs 1"])
        self.assertIn("registered more than once", [
            problem for (name, origin), problem in problems.items()
            if name == "local" and origin != "theirs 1"])
