"""Gangs and ``room.fits`` agree on how often a request fits."""

import hypothesis

from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.gangs import errors, search
from placement_core.placement.gangs.requests import GangRequest
from placement_core.placement.room import fits
from tests import base, examples, snapshots
from tests.unit.placement.candidates import strategies

_MOST = 40


class TestAgreement(base.TestCase):

    @examples.draw(400)
    @hypothesis.given(strategies.provider_lists(), strategies.requests(groups=2))
    def test_as_many_members_as_copies(self, rows, request):
        snapshot = snapshots.build(*rows)
        found = fits.find(snapshot, request, most_hosts=5)
        hypothesis.assume(found.exact and found.fits <= _MOST)
        self.assertEqual(found.fits, self.count_members(snapshot, request))

    def test_more_free_than_fits_32_bits(self):
        """Where providers leave a choice, and where they leave none."""
        inventory = snapshots.inventory("CUSTOM_GPU", 16 * (2**31 - 1))
        rows = [snapshots.provider(1, inventory), snapshots.provider(2, inventory, parent=1)]
        request = CandidatesRequest((RequestGroup("", {"CUSTOM_GPU": 2_000_000_000}),))
        for count, copies in ((1, 17), (2, 34)):
            snapshot = snapshots.build(*rows[:count])
            self.assertEqual(copies, fits.find(snapshot, request, most_hosts=5).fits)
            self.assertEqual(copies, self.count_members(snapshot, request))

    def count_members(self, snapshot, request):
        try:
            return len(search.find_members(snapshot, GangRequest(request, _MOST + 1, 1)))
        except errors.NoRoomForGang as refusal:
            self.assertEqual(0, refusal.holds)
            return 0
