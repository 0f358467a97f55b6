"""Moments in query strings."""

from __future__ import annotations

import datetime

from placement_core.http import pages, validation

#: The years that every database takes, and whose moments have another one before and after.
_FIRST_YEAR, _LAST_YEAR = 1970, 9998


def parse_moment(query: pages.Query, name: str) -> datetime.datetime | None:
    """Return the moment of a parameter, aware UTC; None: the query does not have it.

    :raises InvalidQuery: it is no date of ISO 8601; without an offset, it is UTC.
    """
    text = pages.get_last(query, name)
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
        if _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            if moment.tzinfo is None:
                return moment.replace(tzinfo=datetime.UTC)
            return moment.astimezone(datetime.UTC)
    except ValueError:
        pass
    raise validation.InvalidQuery(
        f"{name} is {text[:40]!r}; expected a date such as 2027-06-01T09:00:00Z")
