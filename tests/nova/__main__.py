"""Play everything against a real nova, on each kind of database: ``make test-nova``.

Arguments are kinds of database, where not all are wanted.
"""

from __future__ import annotations

import sys
import unittest

import testtools

from tests import databases
from tests.nova import deployment, long_plays, test_habits, test_leases


def main(kinds: list[str]) -> int:
    """Run the play; return 0 when nothing failed."""
    missing = deployment.missing()
    if missing is not None:
        print(f"Not played: a real nova needs {missing}.")
        return 1
    failed = False
    for kind in kinds:
        print(f"Our service on {kind}:", flush=True)
        # Clouds may have the setting or not; ours is to work with both.
        with deployment.Cloud(kind=kind, limit_tenants=kind != "sqlite") as cloud:
            deployment.share(cloud)
            load = unittest.defaultTestLoader.loadTestsFromModule
            suite = unittest.TestSuite(map(load, (test_habits, test_leases, long_plays)))
            result = testtools.TextTestResult(sys.stdout)
            result.startTestRun()
            suite.run(result)
            result.stopTestRun()
            failed |= not result.wasSuccessful()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(databases.KINDS)))
