"""Links to the same page with another choice, such as another resource, and to its next part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from placement_core.http.dashboard import rendering
from placement_core.http.operations import Call

#: Where a list goes on; another choice begins at its beginning.
AFTER = "after"


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A choice; ``is_current``: the page has it already."""

    text: str
    href: str
    is_current: bool


def make_choices(
    call: Call, path: str, key: str, texts: Mapping[str, str], current: str | None
) -> list[Choice]:
    """Return a choice for each value of a parameter; other parameters stay.

    :param path: of the page, below the dashboard.
    :param texts: {value: how it reads}.
    """
    return [Choice(text, _make_url(call, path, {key: value, AFTER: None}), value == current)
            for value, text in texts.items()]


def make_next_url(call: Call, path: str, marker: str | None) -> str | None:
    """Return the URL of the next part of a list; None: this is the last one."""
    return None if marker is None else _make_url(call, path, {AFTER: marker})


def _make_url(call: Call, path: str, changes: Mapping[str, str | None]) -> str:
    return rendering.make_url(rendering.get_mount(call), path, {**call.query, **changes})
