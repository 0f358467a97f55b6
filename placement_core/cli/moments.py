"""Dates on command lines: ISO dates, times from now on such as ``+2d``, and ``now``."""

from __future__ import annotations

import argparse
import datetime
import re

#: What the options of dates say about them.
HELP = "such as '2027-06-01 09:00' (UTC where no offset is given), +2d, +90m or now"

_BLAZAR = "%Y-%m-%d %H:%M"
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_RELATIVE = re.compile(
    r"\+(?=[0-9])" + "".join(f"(?:([0-9]{{1,9}}){unit[0]})?" for unit in _UNITS))
#: A year can be added to any date.
_LAST_YEAR = 9998


def parse_moment(text: str) -> datetime.datetime:
    """Return the moment that a text means, aware UTC in whole seconds.

    :raises argparse.ArgumentTypeError: it means none.
    """
    try:
        moment = _parse(text)
        if moment.year <= _LAST_YEAR:
            return moment
    except (OverflowError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: expected a date {HELP}")


def parse_start(text: str) -> datetime.datetime | None:
    """Return the same; None for the present, which is the database's."""
    return None if text == "now" else parse_moment(text)


def _parse(text: str) -> datetime.datetime:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    if text == "now":
        return now
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        return now + datetime.timedelta(**{
            unit: int(count or 0) for unit, count in zip(_UNITS, relative.groups(), strict=True)})
    try:
        moment = datetime.datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError:
        # As Blazar's client has it: months and the like need no leading zero.
        moment = datetime.datetime.strptime(text, _BLAZAR)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC)
