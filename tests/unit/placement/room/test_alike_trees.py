"""How many copies fit into trees that are built alike, many at once."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.candidates import search
from placement_core.placement.candidates.anchor_batches import AnchorBatch
from placement_core.placement.candidates.filters import Trace
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.room import alike_trees, tree_packing
from placement_core.placement.room.packing_bounds import Bounds
from tests import base, examples, snapshots

_AMOUNTS = st.fixed_dictionaries({"VCPU": st.integers(1, 9), "MEMORY_MB": st.integers(1, 9)})


@st.composite
def _requests(draw):
    groups = tuple(RequestGroup(suffix, draw(_AMOUNTS)) for suffix in ("_A", "_B"))
    return CandidatesRequest(groups, isolate=draw(st.booleans()))


@st.composite
def _hosts(draw, most):
    """Draw hosts of two cells each, of which all have the same inventories."""
    total = draw(st.integers(9, most))
    rows = []
    for number in range(draw(st.integers(1, 8))):
        root = 1 + 3 * number
        rows.append(snapshots.provider(root))
        rows.extend(snapshots.provider(
            root + cell, *(snapshots.inventory(name, total, used=draw(st.integers(0, total)))
                           for name in ("VCPU", "MEMORY_MB")), parent=root)
            for cell in (1, 2))
    return rows


def _choose(rows, request):
    snapshot = snapshots.build(*rows)
    choices = search.choose(snapshot, request, Trace())
    hypothesis.assume(len(choices.anchors))
    return AnchorBatch(choices.plan, choices.anchors, choices.rows, choices.roots,
                       shared=None, shuffled=False)


class TestAlikeTrees(base.TestCase):
    @examples.draw(150)
    @hypothesis.given(_hosts(60), _requests())
    def test_as_one_by_one(self, rows, request):
        batch = _choose(rows, request)
        copies, exact = alike_trees.pack(batch)
        packer = tree_packing.TreePacker(batch.plan)
        packed = [packer.pack(tree) for tree in batch.trees()]
        if exact:
            self.assertEqual(
                [(count, True) for count in copies.tolist()],
                [(each.copies, each.exact) for each in packed])
        else:
            self.assertFalse(all(each.exact for each in packed))

    def test_most_need_no_search(self):
        """A search costs as much for one tree as arrays for hundreds."""
        searched = []
        pack = tree_packing.TreePacker.pack
        self.patch(tree_packing.TreePacker, "pack",
                   lambda packer, tree: searched.append(tree) or pack(packer, tree))
        rows = []
        for number in range(100):
            root = 1 + 3 * number
            rows += [snapshots.provider(root), *(
                snapshots.provider(
                    root + cell, snapshots.inventory("VCPU", 64, used=number * cell % 61),
                    snapshots.inventory("MEMORY_MB", 99, used=number % 13), parent=root)
                for cell in (1, 2))]
        request = CandidatesRequest(tuple(
            RequestGroup(suffix, {"VCPU": 2, "MEMORY_MB": 3}) for suffix in ("_A", "_B")))
        batch = _choose(rows, request)
        self.assertEqual(100, len(batch.anchors))
        self.assertTrue(alike_trees.pack(batch)[1])
        self.assertLess(len(searched), 20)


class TestBounds(base.TestCase):
    @examples.draw(150)
    @hypothesis.given(
        st.lists(st.tuples(*[st.sampled_from([0, 1])] * 4), min_size=1, max_size=4, unique=True),
        st.tuples(_AMOUNTS, _AMOUNTS),
        st.lists(st.tuples(*[st.integers(0, 40)] * 4), min_size=1, max_size=5),
        st.integers(1, 20))
    def test_as_for_one_tree(self, choices, parts, free, copies):
        """Parts are placed on one of two providers each, in the ways that ``choices`` say."""
        uses = []
        for choice in choices:
            use = {}
            for provider, part in zip(choice, parts, strict=False):
                for class_id, amount in enumerate(part.values()):
                    use[provider, class_id] = use.get((provider, class_id), 0) + amount
            uses.append(use)
        slots = sorted({slot for use in uses for slot in use})
        amounts = np.array([[use.get(slot, 0) for slot in slots] for use in uses])
        lines = np.array([line[:len(slots)] for line in free])
        allowed = alike_trees.may_fit(slots, amounts, lines, np.full(len(lines), copies))
        bounds = Bounds(uses)
        for line, may in zip(lines.tolist(), allowed.tolist(), strict=True):
            self.assertEqual(bounds.allow(dict(zip(slots, line, strict=True)), copies), may)
