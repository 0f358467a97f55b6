"""Pagination: which page a query string asks for, and the URL of the next one."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from placement_core.http.validation import InvalidQuery

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

    :raises InvalidQuery: the ``limit`` is larger than the largest.
    """
    page = _parse(query)
    if page.size is not None:
        check_size(page.size, largest)
    return page


def check_size(size: int, largest: int) -> None:
    """Check how many items a page is to have.

    :raises InvalidQuery: more than the largest page has.
    """
    if size > largest:
        raise InvalidQuery(
            f"limit {size} is more than a page has here: {largest} (option [api] max_page_size)")


def parse_cut_page(query: Query, largest: int) -> Page:
    """Return the page of a query string; a larger one is cut.

    Source: Keystone's ``list_limit`` and nova's ``max_limit``, which cut it, too.
    """
    page = _parse(query)
    return page if page.size is None else Page(min(page.size, largest), page.marker)


def _parse(query: Query) -> Page:
    limit = get_last(query, "limit")
    return Page(int(limit) if limit is not None else None, get_last(query, "marker") or None)


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
