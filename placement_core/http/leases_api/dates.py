"""Dates as the reservation API reads and writes them; all of them are UTC.

Source: spec blazar §2; differs: seconds are taken, too.
"""

from __future__ import annotations

import datetime
import functools
import re

from placement_core.reservations.errors import InvalidLease

#: The keyword for the present.
NOW = "now"

# As strptime reads ``%Y-%m-%d %H:%M``: months and so on need no leading zero. Dates with seconds,
# and in the output format of this module, are accepted as well.
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})[ T]([0-9]{1,2}):([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.0{1,6})?)?")

#: The last year: some time can be added to any date.
_LAST_YEAR = 9998


def parse(text: str, field: str) -> datetime.datetime:
    """Return the time that a text stands for.

    :raises InvalidLease: the text is no date.
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
    """Return the time that a text stands for; None: now.

    :raises InvalidLease: the text is no date.
    """
    return None if text == NOW else parse(text, field)


# In long lists most times occur several times, close to each other.
@functools.lru_cache(1024)
def format_lease_date(at: datetime.datetime) -> str:
    """Format a start, an end or the time of an event; clients parse exactly this format."""
    # Without the offset, which is +00:00.
    return at.isoformat(timespec="microseconds")[:26]


@functools.lru_cache(1024)
def format_record_date(at: datetime.datetime | None) -> str | None:
    """Format the time at which a record was created or updated."""
    return None if at is None else at.isoformat(" ")[:-6]
