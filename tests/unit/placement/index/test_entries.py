"""Entries of rows, against a list."""

import hypothesis
from hypothesis import strategies as st

from placement_core.placement.index.entries import EntryTable
from tests import base

_GROWTH = st.sampled_from((0, 1, 5, 255, 256, 257, 600))


class TestEntryTable(base.TestCase):

    @hypothesis.given(st.data())
    def test_against_a_list(self, data):
        table, expected, versions = EntryTable(), [], []
        for number in range(data.draw(st.integers(1, 6))):
            expected = [*expected, *[None] * data.draw(_GROWTH)]
            rows = data.draw(st.sets(st.integers(0, len(expected) - 1), max_size=8)
                             ) if expected else set()
            edits = {row: None if row % 3 == 0 else f"{number}-{row}" for row in rows}
            for row, entry in edits.items():
                expected[row] = entry
            table = table.apply_edits(edits, len(expected))
            if versions:
                before, values = versions[-1]
                self.assertEqual(
                    {*edits, *range(len(values), len(expected))},
                    {*table.list_changes(before), *(
                        # The same object as before is no change.
                        row for row in edits if row < len(values)
                        and values[row] is expected[row])})
            versions.append((table, expected))
        # Older versions are as they were.
        for table, expected in versions:
            self.assertEqual(expected, list(table))
            self.assertEqual(len(expected), len(table))
            self.assertEqual(expected, [table[row] for row in range(len(expected))])
            self.assertEqual(expected[::2], table.select(range(0, len(expected), 2)))

    def test_blocks_are_shared(self):
        before = EntryTable().apply_edits({0: "a"}, 10_000)
        after = before.apply_edits({5000: "b"}, 10_000)
        self.assertEqual(1, sum(
            one is not other for one, other in zip(before._blocks, after._blocks, strict=True)))
