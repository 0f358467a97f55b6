"""The form "I need …", whose fields are the query string of the overview: it can be sent on."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping

from placement_core import errors
from placement_core.http import pages
from placement_core.http.leases_api import dates
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import candidates, values
from placement_core.needs import Need
from placement_core.placement.candidates.requests import TraitFilter

FIELDS = ("count", "vcpu", "memory_mb", "disk_gb", "other", "required", "project", "start",
          "duration")
#: Those of which one has to be filled.
AMOUNTS = ("vcpu", "memory_mb", "disk_gb", "other")
_CLASSES = {"vcpu": "VCPU", "memory_mb": "MEMORY_MB", "disk_gb": "DISK_GB"}
#: As large as an allocation can be.
_LARGEST = 2**31 - 1
_LONGEST_SECONDS = 100 * 366 * 86_400
_NUMBER = re.compile("[0-9]{1,10}")
_DURATION = re.compile("([1-9][0-9]{0,6}) ?(min|h|d|w)")
_SECONDS = {"min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
#: As the field of a browser writes a date.
_DATE = "%Y-%m-%dT%H:%M"


@dataclasses.dataclass(slots=True)
class NeedForm:
    """What was typed.

    :ivar values: {field: text}, of all fields.
    :ivar problems: {field: what is wrong with it}; what reads the answers may add to it.
    :ivar need: None: nothing was typed, or not all of it could be read.
    """

    values: Mapping[str, str]
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    need: Need | None = None

    @property
    def resources(self) -> str:
        """Return what one item takes, as a query for allocation candidates has it."""
        assert self.need is not None
        return ",".join(f"{name}:{amount}" for name, amount in self.need.resources.items())


def parse(query: pages.Query) -> NeedForm:
    """Read the form from a query string, of which it has some parameters."""
    form = NeedForm({
        field: (pages.get_last(query, field) or "").strip() for field in FIELDS})
    if not any(form.values.values()):
        return form
    count = _parse_amount(form, "count")
    resources = _parse_resources(form)
    traits = _parse_traits(form)
    start_at = _parse_start(form)
    seconds = _parse_duration(form)
    if not resources and not form.problems:
        form.problems["vcpu"] = "Please say how much of something one of them takes."
    if not form.problems:
        form.need = Need(
            1 if count is None else count, resources, traits, start_at, seconds)
    return form


def _parse_amount(form: NeedForm, field: str) -> int | None:
    """Return the number in a field; None: it is empty, 0, or has a problem."""
    text = form.values[field]
    if not text or (text == "0" and field != "count"):
        return None
    if not (_NUMBER.fullmatch(text) and 1 <= int(text) <= _LARGEST):
        form.problems[field] = f"This is a whole number from 1 to {_LARGEST:,}."
        return None
    return int(text)


def _parse_resources(form: NeedForm) -> dict[str, int]:
    resources = {
        name: amount for field, name in _CLASSES.items()
        if (amount := _parse_amount(form, field)) is not None}
    if form.values["other"]:
        try:
            others = values.parse_resources(form.values["other"])
        except errors.Invalid as error:
            form.problems["other"] = str(error)
            return resources
        for name, amount in others.items():
            if name in _CLASSES.values():
                form.problems["other"] = f"{name} has a field of its own."
            elif amount > _LARGEST:
                form.problems["other"] = f"{name}: no amount is larger than {_LARGEST:,}."
            resources[name] = amount
    return resources


def _parse_traits(form: NeedForm) -> TraitFilter:
    if not form.values["required"]:
        return TraitFilter()
    try:
        request = candidates.parse(
            {"resources": ["VCPU:1"], "required": [form.values["required"]]},
            microversions.NEWEST)
    except errors.Invalid as error:
        form.problems["required"] = getattr(error, "reason", str(error))
        return TraitFilter()
    return request.groups[0].traits


def _parse_start(form: NeedForm) -> datetime.datetime | None:
    text = form.values["start"]
    if not text:
        return None
    try:
        start_at = dates.parse_or_now(text, "start")
    except errors.Invalid:
        form.problems["start"] = "This is a date and a time in UTC, such as 2027-01-31 09:00."
        return None
    if start_at is None:
        return None
    form.values = {**form.values, "start": start_at.strftime(_DATE)}
    now = datetime.datetime.now(datetime.UTC)
    if start_at < now.replace(second=0, microsecond=0):
        form.problems["start"] = "This time is over."
    return start_at


def _parse_duration(form: NeedForm) -> int | None:
    text = form.values["duration"]
    if not text:
        return None
    match = _DURATION.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match is not None else 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        form.problems["duration"] = (
            "This is a number with min, h, d or w, such as 8h or 14d; a hundred years at most.")
        return None
    return seconds
