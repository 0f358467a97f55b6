"""The gabbi suite of the installed ``openstack-placement``, one suite for each file."""

from __future__ import annotations

import importlib.resources
import pathlib
import unittest

from gabbi import driver

from tests.conformance import deliberate, gabbi_fixtures

#: How many tests the release named in setup.cfg has: fewer would mean that part
#: of the suite silently did not load.
COUNT = 1316


def suite_path() -> pathlib.Path:
    """Return the folder with the YAML files; the package is not imported."""
    # Importing a subpackage would run upstream's __init__ modules: harmless and
    # empty, while its test modules stay unimported.
    package = importlib.resources.files("placement.tests.functional")
    return pathlib.Path(str(package / "gabbits"))


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """Give unittest's discovery the gabbi tests and the test of their number."""
    built = driver.build_tests(
        str(suite_path()),
        loader,
        intercept=gabbi_fixtures.application,
        test_loader_name=__name__,
        fixture_module=gabbi_fixtures,
    )
    for test in _flatten(built):
        if reason := deliberate.FAILURES.get(_name(test)):
            test.run = unittest.skip(reason)(test.run)
    suite = unittest.TestSuite([built])
    suite.addTests(TestTheSuite.of(_flatten(built)))
    return suite


def _flatten(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for test in suite:
        found.extend(_flatten(test) if isinstance(test, unittest.TestSuite) else [test])
    return found


def _name(test: unittest.TestCase) -> str:
    return test.id().removeprefix(f"{__name__}.").removesuffix(".test_request")


class TestTheSuite(unittest.TestCase):
    """The suite is whole, and the list of exceptions speaks of tests that exist."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tests: list[unittest.TestCase]) -> list[unittest.TestCase]:
        """Return the tests of this class, knowing ``tests``."""
        cls.names = frozenset(_name(test) for test in tests)
        cls.number = len(tests)
        return [cls("test_is_whole"), cls("test_exceptions_exist")]

    def test_is_whole(self) -> None:
        """As many tests as the release has."""
        self.assertEqual(COUNT, self.number)

    def test_exceptions_exist(self) -> None:
        """No exception outlives its test."""
        self.assertEqual(set(), set(deliberate.FAILURES) - self.names)
