"""Pagination: which page a query string asks for, and the URL of the next one."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Query = Mapping[str, list[str]]
T = TypeVar("T")

#: The schema of ``limit``: an integer from 1 on.
LIMIT = {"pattern": "^[1-9][0-9]{0,17}$"}


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    :ivar size: None for all items that follow.
    :ivar marker: the id of the last item of the page before.
    """

    size: int | None
    marker: str | None

    @property
    def size_to_read(self) -> int | None:
        """How many items to read: one more tells whether there is a next page."""
        return None if self.size is None else self.size + 1


#: All of a list.
WHOLE = Page(None, None)


def parse_page(query: Query, largest: int) -> Page:
    """Return the page of a query string.

    :param largest: what a larger ``limit`` gets.
    """
    limit = get_last(query, "limit")
    size = min(int(limit), largest) if limit is not None else None
    return Page(size, get_last(query, "marker") or None)


def get_last(query: Query, key: str) -> str | None:
    """Return the last value of a key, if it has one."""
    return query[key][-1] if key in query else None


def make_next_url(address: str, query: Query, marker: str) -> str:
    """Return the URL of the next page.

    :param address: of the list, without a query string.
    """
    return add_query(address, {**query, "marker": [marker]})


def split_page(
    address: str, query: Query, records: Sequence[T], size: int, get_marker: Callable[[T], str]
) -> tuple[Sequence[T], dict[str, str | None]]:
    """Return a page, and its links.

    :param address: of the list, without a query string.
    :param records: of the page, and one more if there is a next page.
    """
    if len(records) <= size:
        return records, {"next": None}
    page = records[:size]
    return page, {"next": make_next_url(address, query, get_marker(page[-1]))}


def add_query(address: str, query: Query) -> str:
    """Return an address with a query string."""
    return f"{address}?{urllib.parse.urlencode(query, doseq=True)}"
