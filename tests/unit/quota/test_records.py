"""A limit with its usage: what is free, what would exceed it, and how that is said."""

from placement_core import amounts
from placement_core.quota.records import LimitUsage
from tests import base


def usage(limit, used, scope="own", user_id=None):
    return LimitUsage("node", "cores", scope, "set", limit, used, user_id)


class TestLimitUsage(base.TestCase):

    def test_free(self):
        self.assertEqual([3, 0, -2], [usage(5, used).free for used in (2, 5, 7)])
        self.assertEqual(amounts.UNLIMITED, usage(amounts.UNLIMITED, 7).free)

    def test_exceeded(self):
        self.assertEqual([False, False, True], [
            usage(5, 2).is_exceeded_by(delta) for delta in (0, 3, 4)])
        self.assertTrue(usage(5, 6).is_exceeded_by(0))
        self.assertFalse(usage(amounts.UNLIMITED, 6).is_exceeded_by(10**9))

    def test_by_how_much(self):
        exceeded = usage(5, 4, user_id="jane").as_exceeded(3)
        self.assertEqual((2, "jane"), (exceeded.over_by, exceeded.user_id))

    def test_sentences(self):
        for scope, user_id, whose in (
            ("own", None, "project node"), ("subtree", None, "node and what is below it"),
            ("user", "jane", "user jane in project node"),
        ):
            self.assertEqual(
                f"cores: {whose} may use 5, 4 is used, 3 more was asked for",
                usage(5, 4, scope, user_id).as_exceeded(3).sentence())
