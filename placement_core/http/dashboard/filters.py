"""Filters of the templates: numbers, moments and durations as people read them."""

from __future__ import annotations

import datetime

from markupsafe import Markup

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def format_number(number: float | None) -> str:
    """Return a number with commas between thousands; a dash for None."""
    return "–" if number is None else f"{number:,}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration in the largest unit that it has two of; a dash for None."""
    if seconds is None:
        return "–"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def format_moment(moment: datetime.datetime | None) -> Markup:
    """Return a moment as HTML, in UTC to the minute; a dash for None."""
    if moment is None:
        return Markup("–")
    utc = moment.astimezone(datetime.UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        utc.isoformat(timespec="seconds"), utc.strftime("%Y-%m-%d %H:%M UTC"))
