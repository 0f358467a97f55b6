"""Tokens: what a reader of the feed has seen, as a text.

A token is compact and opaque: base64url of zlib of a version, a position (``changes.positions``)
and, while there is more to read, the position of the moment of the last answer and where a reader
of everything is.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import operator
import zlib
from collections.abc import Sequence

from placement_core.changes import tables
from placement_core.changes.errors import InvalidPosition
from placement_core.changes.positions import Position

#: The longest that a token may be; those that are given out have up to some 1,500 characters.
LONGEST = 8192
_VERSION = 1
#: Of a token with the moment of the last answer.
_WITH_SEEN = 2
#: The largest number in a token that is given out has 64 bits.
_LONGEST_NUMBER = 10
_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """What a reader has seen.

    :ivar position: that of the changes that it has seen; while it reads everything, the one
        before its first page.
    :ivar listing: the number of the kind that is being listed, and the marker of the last object;
        None: everything was listed.
    :ivar seen: the position of the moment of the last answer, if that is behind ``position``:
        objects are as they were then, so the database must have everything up to there.
    """

    position: Position
    listing: tuple[int, str] | None = None
    seen: Position | None = None


def encode(token: Token) -> str:
    """Return the text of a token, which needs no quoting in a URL."""
    position, seen = token.position, token.seen
    data = bytearray([_VERSION if seen is None else _WITH_SEEN])
    numbers = [position.next_slot, position.digest, *position.serials]
    if seen is not None:
        # Most are zero, and take no room.
        numbers += [seen.digest, *map(operator.sub, seen.serials, position.serials)]
    for number in numbers:
        _append_number(data, number)
    if token.listing is not None:
        place, marker = token.listing
        _append_number(data, place)
        data += marker.encode()
    return base64.urlsafe_b64encode(zlib.compress(bytes(data), 9)).decode().rstrip("=")


def decode(text: str) -> Token:
    """Return the token of a text.

    :raises InvalidPosition: it is none that ``encode`` returned.
    """
    try:
        if len(text) > LONGEST:
            raise ValueError(text)
        inflate = zlib.decompressobj()
        packed = base64.b64decode(
            text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        data = inflate.decompress(packed, LONGEST)
        if not inflate.eof or inflate.unused_data or data[0] not in (_VERSION, _WITH_SEEN):
            raise ValueError(text)
        [next_slot], rest = _read_numbers(data, 1, 1)
        if next_slot >= tables.SLOTS:
            raise ValueError(text)
        position, rest = _read_position(data, rest, [0] * tables.SLOTS, next_slot)
        seen = None
        if data[0] == _WITH_SEEN:
            seen, rest = _read_position(data, rest, position.serials)
        if rest == len(data):
            return Token(position, seen=seen)
        [place], rest = _read_numbers(data, rest, 1)
        return Token(position, (place, data[rest:].decode()), seen)
    except (ValueError, IndexError, binascii.Error, zlib.error):
        raise InvalidPosition from None


def _read_position(
    data: bytes, start: int, base: Sequence[int], next_slot: int = 0
) -> tuple[Position, int]:
    """Return a position, and where it ends.

    :param base: what is to be added to its serials.
    """
    [digest, *differences], rest = _read_numbers(data, start, tables.SLOTS + 1)
    serials = tuple(map(operator.add, base, differences))
    if digest >= 2**64 or max(serials) > _LARGEST:
        raise ValueError(data)
    return Position(serials, digest, next_slot), rest


def _append_number(data: bytearray, number: int) -> None:
    """Append seven bits in each byte; the highest bit says that more follow."""
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)


def _read_numbers(data: bytes, start: int, count: int) -> tuple[list[int], int]:
    """Return numbers, and where they end.

    :raises IndexError: there are fewer.
    """
    numbers = []
    for _ in range(count):
        number = shift = 0
        while data[start] & 128:
            number |= (data[start] & 127) << shift
            shift, start = shift + 7, start + 1
            if shift > 7 * _LONGEST_NUMBER:
                raise ValueError(data)
        numbers.append(number | data[start] << shift)
        start += 1
    return numbers, start
