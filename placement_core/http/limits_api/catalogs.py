"""What the views of the catalog share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from placement_core import errors
from placement_core.http import pages
from placement_core.http.limits_api import queries, representations, visibility
from placement_core.http.operations import Call, Reply
from placement_core.limits.errors import UnknownMarker
from placement_core.plugin_api.catalog import Domain, Project

T = TypeVar("T")
NodeT = TypeVar("NodeT", Domain, Project)

#: Clients send them empty, and they are not stored.
_NOT_STORED = ("tags", "options", "is_domain")


class Missing(errors.NotFound):
    """The catalog does not have what the path names."""

    def __init__(self, what: str, id_: str) -> None:
        super().__init__(f"Could not find {what}: {id_}.")
        self.what = what
        self.id = id_


def require_found(what: str, id_: str, record: T | None) -> T:
    """Return a record of a catalog driver.

    :raises Missing: there is none.
    """
    if record is None:
        raise Missing(what, id_)
    return record


def reply_list(
    call: Call, name: str, records: Sequence[NodeT], find: Callable[[str], NodeT | None],
    render: Callable[[NodeT, str], representations.Document],
) -> Reply:
    """Return a page of domains or projects, of those that the caller sees.

    The filter ``enabled`` of the query is applied; others have to be before.

    :param find: returns one by its id.
    :raises UnknownMarker: the marker of the query is none of them.
    """
    visible = visibility.list_visible(call, visibility.get_visibility_of_lists(call))
    if visible is not None:
        records = [record for record in records if record.id in visible]
    enabled = queries.parse_flag(call.query, "enabled")
    if enabled is not None:
        records = [record for record in records if record.enabled == enabled]
    page = call.parse_cut_page()
    return Reply(body=representations.render_list(
        call, name, _select_page(records, page, find), render, page))


def _select_page(
    records: Sequence[NodeT], page: pages.Page, find: Callable[[str], NodeT | None]
) -> Sequence[NodeT]:
    """Return the records of a page, and one more if there is a next page.

    Pages are in the order of ids, as in Keystone: names may change between two of them.
    """
    if page == pages.WHOLE:
        return records
    marker = page.marker or ""
    if marker and find(marker) is None:
        raise UnknownMarker(marker)
    following = [record for record in records if record.id > marker]
    return sorted(following, key=lambda record: record.id)[:page.size_to_read]


def parse_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a body changes; a description of null is an empty one."""
    return {
        name: "" if name == "description" and value is None else value
        for name, value in body.items() if name not in _NOT_STORED}
