"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from placement_core.takeover.records import Contents, Fields, Item, Outcome, Record


def compare(
    contents: Contents, present: Mapping[str, Mapping[str, Fields]],
    copied: Mapping[str, Collection[str]],
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours: {kind: {id: fields}}.
    :param copied: what was copied earlier: {kind: ids}.
    """
    wanted_ids: dict[str, set[str]] = {}
    items: list[Item] = []
    for record in contents.records:
        wanted_ids.setdefault(record.kind, set()).add(record.id)
        items.append(_compare(record, present.get(record.kind, {}).get(record.id)))
    for item in contents.left:
        if item.outcome is Outcome.REFUSED:
            wanted_ids.setdefault(item.kind, set()).add(item.id)  # it still means something there
    return [*items, *contents.left, *_list_gone(wanted_ids, present, copied)]


def _compare(record: Record, ours: Fields | None) -> Item:
    if ours is None:
        return Item(record.kind, record.id, record.name, Outcome.CREATE, record=record)
    differences = find_differences(ours, record.fields)
    return Item(
        record.kind, record.id, record.name, Outcome.UPDATE if differences else Outcome.EQUAL,
        differences=differences, record=record)


def find_differences(ours: Fields, theirs: Fields) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ: {field: (ours, theirs)}."""
    return {name: (ours[name], value) for name, value in theirs.items() if ours[name] != value}


def _list_gone(
    wanted_ids: Mapping[str, Collection[str]], present: Mapping[str, Mapping[str, Fields]],
    copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first."""
    for kind in reversed(list(copied)):
        ours = present.get(kind, {})
        for id_ in sorted(copied[kind]):
            if id_ in ours and id_ not in wanted_ids.get(kind, ()):
                name = ours[id_].get("name") or ours[id_].get("resource_name") or ""
                yield Item(kind, id_, name, Outcome.GONE)
