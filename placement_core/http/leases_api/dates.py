"""Dates as the reservation API reads and writes them; all of them are UTC.

Source: spec blazar §2; differs: seconds are taken, too.
"""

from __future__ import annotations

import datetime
import functools
import re

from placement_core.reservations.errors import InvalidLease

#: What a client sends for the present.
NOW = "now"

# As strptime reads ``%Y-%m-%d %H:%M``: months and the like need no leading zero. With
# seconds, and as dates are written here, they are read as well.
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})[ T]([0-9]{1,2}):([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.0{1,6})?)?")

#: One more can be added to any date.
_LAST_YEAR = 9998


def parse(text: str, field: str) -> datetime.datetime:
    """Return the moment that a client means.

    :raises InvalidLease: it is none.
    """
    match = _DATE.fullmatch(text)
    if match is not None:
        numbers = [int(part or 0) for part in match.groups()]
        try:
            if numbers[0] <= _LAST_YEAR:
                return datetime.datetime(*numbers).replace(  # type: ignore[arg-type]
                    tzinfo=datetime.UTC)
        except ValueError:
            pass
    raise InvalidLease(
        f"{text[:40]} is an invalid date. Required format: %Y-%m-%d %H:%M", field)


def parse_or_now(text: str, field: str) -> datetime.datetime | None:
    """Return the moment that a client means; None: now.

    :raises InvalidLease: it is none.
    """
    return None if text == NOW else parse(text, field)


# Long lists have most of their times several times, one soon after the other.
@functools.lru_cache(1024)
def format_lease_date(at: datetime.datetime) -> str:
    """Write when a lease begins, ends, or has an event; clients parse exactly this."""
    # Without the offset, which is +00:00.
    return at.isoformat(timespec="microseconds")[:26]


@functools.lru_cache(1024)
def format_record_date(at: datetime.datetime | None) -> str | None:
    """Write when something was made or changed."""
    return None if at is None else at.isoformat(" ")[:-6]
