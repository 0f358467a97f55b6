"""Query strings of the pages. Unknown keys are refused, as in the capacity API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.http.json_schemas import Schema, record
from placement_core.http.operations import ONLY, Ladder
from placement_core.reservations import records

_TEXT: Schema = {"maxLength": 255}
#: Keys of several aggregates or traits.
_LONG_TEXT: Schema = {"maxLength": 10_000}
_NUMBER: Schema = {"pattern": "^[0-9]{1,9}$"}


def _make_schema(**properties: Schema) -> Ladder[dict[str, Any]]:
    return Ladder({ONLY: record({}, properties)})


_GROUPING: Mapping[str, Schema] = {"by": {"enum": ["aggregate", "trait"]}}
HOSTS = _make_schema(**_GROUPING, group=_LONG_TEXT, resource_class=_TEXT, after=_TEXT)
HOST = _make_schema(after=_TEXT)
LEASES = _make_schema(
    by={"enum": ["time", "host", "project"]}, project=_TEXT, host=_TEXT, start=_TEXT, end=_TEXT,
    status={"enum": [
        "", records.PENDING, records.ACTIVE, records.TERMINATED, records.ERROR]}, after=_TEXT)
NOTHING = _make_schema()
PROJECT = Ladder({ONLY: record({"id": _TEXT})})
PROJECTS = _make_schema(resource=_TEXT, after=_NUMBER)
