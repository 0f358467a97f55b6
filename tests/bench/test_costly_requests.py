"""What one request costs at most: the program that measures it, on a few hosts."""

import contextlib
import io
import shutil
import unittest

from tests import base, costly_requests
from tests.costly_requests import Cost, Question


class TestCost(base.TestCase):
    def test_too_much(self):
        question = Question("/", "GET", "/")
        self.assertFalse(Cost(question, 200, 2.0, 100.0).is_too_much)
        for status, seconds, mib in ((500, 0, 0), (200, 2.1, 0), (200, 0, 101)):
            cost = Cost(question, status, seconds, mib)
            self.assertTrue(cost.is_too_much)
            self.assertIn("TOO MUCH", str(cost))
        self.assertFalse(Cost(question, 200, 59.0, 0, most_seconds=60).is_too_much)


@unittest.skipUnless(shutil.which("cc"), "plload needs a C compiler")
class TestProgram(base.TestCase):
    def test_some(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            # How fast the processor is that runs the tests, nobody knows.
            code = costly_requests.main(["--hosts", "10", "--random", "20", "--seconds", "60"])
        *lines, last = said.getvalue().splitlines()
        self.assertEqual(0, code, said.getvalue())
        self.assertGreater(len(lines), 80)
        # Each kind of request is understood, and most are answered.
        statuses = [int(line.split()[0]) for line in lines]
        self.assertLessEqual(set(statuses), {200, 400, 409})
        self.assertGreater(statuses.count(200), len(lines) / 2)
        self.assertIn("none too much", last)
