"""Which requests came before another one, and when old answers are removed."""

from unittest import mock

from placement_core import errors
from placement_core.quota import recheck_order
from placement_core.quota.recheck_order import AnswerPruner, ConcurrentClaims, RecentClaim
from tests import base


def claim(uuid, number):
    return RecentClaim(uuid, (0, number), "project", "jane")


class TestEarlierRequests(base.TestCase):

    def earlier(self, claims, first, reservations):
        with mock.patch.object(
                recheck_order.build_requests, "list_reservation_ids", return_value=reservations):
            requests = recheck_order.find_earlier_requests(
                None, None, ConcurrentClaims(frozenset(), claims), (0, first))
        return [sorted(request.uuids) for request in requests]

    def test_each_claim_is_a_request_unless_nova_says_otherwise(self):
        claims = [claim("a", 1), claim("b", 2), claim("c", 3)]
        self.assertEqual([["a"], ["b"], ["c"]], self.earlier(claims, 4, {}))
        self.assertEqual(
            [["a", "c"], ["b"]], self.earlier(claims, 4, {"a": "r-1", "c": "r-1"}))

    def test_a_request_is_as_old_as_its_first_claim(self):
        claims = [claim("a", 1), claim("b", 3), claim("c", 5)]
        self.assertEqual([["a"], ["b"]], self.earlier(claims, 4, {}))
        self.assertEqual(
            [["a", "c"], ["b"]], self.earlier(claims, 4, {"a": "r-1", "c": "r-1"}))
        self.assertEqual(
            [["a"]], self.earlier(claims, 2, {"b": "r-1", "c": "r-1"}))


class TestAnswerPruner(base.TestCase):

    def setUp(self):
        super().setUp()
        self.prune = self._patched("prune")
        self.monotonic = self._patched("time").monotonic
        self.pruner = AnswerPruner()

    def _patched(self, name):
        patcher = mock.patch.object(recheck_order, name)
        self.addCleanup(patcher.stop)
        return patcher.start()

    def prunes(self, seconds):
        """Say whether answers are removed at a time."""
        self.prune.reset_mock()
        self.monotonic.return_value = seconds
        self.pruner.prune_if_due(None)
        return self.prune.called

    def test_once_a_minute(self):
        self.assertEqual([True, False, False, True, False], [
            self.prunes(seconds) for seconds in (5.0, 6.0, 64.9, 65.0, 66.0)])

    def test_what_fails_is_tried_again_a_minute_later(self):
        self.prune.side_effect = errors.Unavailable("the database is away")
        self.assertEqual([True, False, True], [
            self.prunes(seconds) for seconds in (5.0, 6.0, 65.0)])
