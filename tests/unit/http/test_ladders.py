"""Values that change with the microversion, and the published history."""

from placement_core.http.operations import Ladder
from placement_core.http.placement_api import microversions as mv
from tests import base


class TestLadder(base.TestCase):
    def test_the_highest_rung_not_above(self) -> None:
        ladder = Ladder({mv.PROVIDER_IN_BODY: "c", mv.BASE: "a", mv.CANDIDATES: "b"})
        for version, value in (((1, 0), "a"), ((1, 9), "a"), ((1, 10), "b"), ((1, 19), "b"),
                               ((1, 20), "c"), ((1, 39), "c")):
            self.assertEqual(value, ladder.at(version))
        self.assertRaises(KeyError, Ladder({mv.CANDIDATES: 1}).at, mv.BASE)


class TestHistory(base.TestCase):
    def test_every_version_is_told(self) -> None:
        self.assertEqual([(1, minor) for minor in range(40)], [s.version for s in mv.ALL])
        history = mv.render_history()
        for step in mv.ALL:
            self.assertIn(f"\n1.{step.version[1]}: {step.summary}\n", history)
            self.assertTrue(step.change.endswith("."))
