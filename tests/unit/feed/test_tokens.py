"""Tokens of the feed: what is given out is understood, and nothing else."""

from __future__ import annotations

import base64
import zlib

from hypothesis import given, strategies

from placement_core.changes.errors import InvalidPosition
from placement_core.changes.positions import Position
from placement_core.changes.tables import SLOTS
from placement_core.feed import tokens
from placement_core.feed.tokens import Token
from placement_core.testing import factories
from tests import base

_SERIALS = strategies.lists(
    strategies.integers(0, 2**63 - 1), min_size=SLOTS, max_size=SLOTS).map(tuple)
_POSITIONS = strategies.builds(
    Position, _SERIALS, strategies.integers(0, 2**64 - 1), strategies.integers(0, SLOTS - 1))
_LISTINGS = strategies.none() | strategies.tuples(
    strategies.integers(0, 20), strategies.text(max_size=64))


#: What happened between the position and the last answer: some transactions of each slot.
_PROGRESSES = strategies.none() | strategies.tuples(
    strategies.integers(0, 2**64 - 1),
    strategies.lists(strategies.integers(0, 2**20), min_size=SLOTS, max_size=SLOTS))


class TestTokens(base.TestCase):
    @given(_POSITIONS, _LISTINGS, _PROGRESSES)
    def test_what_is_given_out(
        self, position: Position, listing: tuple[int, str] | None,
        progress: tuple[int, list[int]] | None,
    ) -> None:
        seen = None
        if progress is not None:
            digest, steps = progress
            seen = Position(tuple(
                min(serial + step, 2**63 - 1)
                for serial, step in zip(position.serials, steps, strict=True)), digest)
        token = Token(position, listing, seen)
        text = tokens.encode(token)
        self.assertRegex(text, "^[A-Za-z0-9_-]+$")
        self.assertLessEqual(len(text), tokens.LONGEST)
        self.assertEqual(token, tokens.decode(text))

    @given(strategies.text() | strategies.binary().map(
        lambda data: base64.urlsafe_b64encode(zlib.compress(data)).decode()))
    def test_what_is_not(self, text: str) -> None:
        self.assertRaises(InvalidPosition, tokens.decode, text)

    def test_what_unpacks_to_more_than_it_should(self) -> None:
        text = base64.urlsafe_b64encode(zlib.compress(b"\1" * 10_000_000, 9)).decode()
        self.assertRaises(InvalidPosition, tokens.decode, text[:tokens.LONGEST])
        self.assertRaises(InvalidPosition, tokens.decode, text)

    def test_it_is_short(self) -> None:
        """Where few have written, and where all slots have had thousands of transactions."""
        for serials, longest in (((3, *[0] * (SLOTS - 1)), 60), (tuple(range(SLOTS)), 500),
                                 (tuple(range(99_000, 99_000 + SLOTS)), 1200)):
            position = Position(serials, 2**63)
            self.assertLessEqual(len(tokens.encode(Token(position))), longest)
            seen = Position((serials[0] + 1, *serials[1:]), 2**62)
            self.assertLessEqual(
                len(tokens.encode(Token(position, (3, factories.new_uuid()), seen))),
                longest + 100)
