"""Runs suites of tests, and says which of their tests fail."""

from __future__ import annotations

import unittest


def find_failures(suite: type[unittest.TestCase], *names: str) -> set[str]:
    """Return the names of the tests of a suite that fail.

    :param names: the tests to run; none: all of the suite.
    """
    result = unittest.TestResult()
    for name in names or unittest.defaultTestLoader.getTestCaseNames(suite):
        suite(name).run(result)
    tests = (test for test, _ in (*result.failures, *result.errors))
    # What fails in a ``subTest`` counts as a failure of its test.
    return {getattr(test, "test_case", test).id().rpartition(".")[2] for test in tests}
