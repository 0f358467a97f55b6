"""Lists in parts: which part a query string asks for, and where the next one is."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

Query = Mapping[str, list[str]]

#: The most items of a page that can be asked for; more is as much.
_LARGEST_PAGE = 10_000

#: How many items a page has: an integer from 1 on.
LIMIT = {"pattern": "^[1-9][0-9]{0,17}$"}


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for.

    :ivar size: None for all that follows.
    :ivar marker: the id of the last item of the page before.
    """

    size: int | None
    marker: str | None

    @property
    def wanted(self) -> int | None:
        """How many items to look for: one more tells whether there is a next page."""
        return None if self.size is None else self.size + 1


def parse_page(query: Query) -> Page:
    """Return which page is asked for."""
    asked = get_last(query, "limit")
    size = min(int(asked), _LARGEST_PAGE) if asked is not None else None
    return Page(size, get_last(query, "marker") or None)


def get_last(query: Query, key: str) -> str | None:
    """Return what a key was given last, if it was."""
    return query[key][-1] if key in query else None


def make_next_url(address: str, query: Query, marker: str) -> str:
    """Return where the next page is.

    :param address: of the list, without a query string.
    """
    return add_query(address, {**query, "marker": [marker]})


def add_query(address: str, query: Query) -> str:
    """Return an address with a query string."""
    return f"{address}?{urllib.parse.urlencode(query, doseq=True)}"
