"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from placement_core.takeover import records
from placement_core.takeover.records import Contents, Fields, Item, Outcome, Record

_RESOURCE = ("service_id", "region_id", "resource_name")
#: What only one of our records of a kind may have.
_UNIQUE: Mapping[str, Sequence[str]] = {
    records.DOMAIN: ("name",),
    records.PROJECT: ("domain_id", "name"),
    records.REGISTERED_LIMIT: _RESOURCE,
    records.LIMIT: (*_RESOURCE, "project_id", "domain_id"),
    records.USER_LIMIT: (*_RESOURCE, "project_id", "user_id"),
}
#: The fields that name a record of another kind.
_OF_RESOURCE = {"service_id": records.SERVICE, "region_id": records.REGION}
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    records.REGION: {"parent_region_id": records.REGION},
    records.ENDPOINT: _OF_RESOURCE,
    records.PROJECT: {"domain_id": records.DOMAIN, "parent_id": records.PROJECT},
    records.REGISTERED_LIMIT: _OF_RESOURCE,
    records.LIMIT: {
        **_OF_RESOURCE, "project_id": records.PROJECT, "domain_id": records.DOMAIN},
    records.USER_LIMIT: {**_OF_RESOURCE, "project_id": records.PROJECT},
    records.INSTANCE: {"cell": records.CELL},
}
#: The fields that may have a value here where the source has none: they are read in the cells.
_FILLED: Mapping[str, Collection[str]] = {records.INSTANCE: ("user_id", "queued_for_delete")}

#: {kind: {id: fields}}.
Present = Mapping[str, Mapping[str, Fields]]
#: By kind: says why a record cannot be ours beside others, {id: fields}; "": it can.
Obstacles = Mapping[str, Callable[[Record, Mapping[str, Fields]], str]]


def compare(
    contents: Contents, present: Present, copied: Mapping[str, Collection[str]],
    obstacles: Obstacles | None = None,
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours.
    :param copied: what was copied earlier: {kind: ids}.
    """
    wanted_ids: dict[str, set[str]] = {}
    comparison = Comparison(present, obstacles or {})
    items = [comparison.compare(record) for record in contents.records]
    for item in (*items, *contents.left):
        if item.outcome is not Outcome.SKIPPED:  # what is refused means something there, too
            wanted_ids.setdefault(item.kind, set()).add(item.id)
    return [*items, *contents.left, *_list_gone(wanted_ids, present, copied)]


class Comparison:
    """Compares records one by one, in the order in which they are to be copied."""

    def __init__(
        self, present: Present, obstacles: Obstacles,
        refused: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Initialize it.

        :param refused: {kind: ids} of records that were compared before, and cannot be copied.
        """
        self._present = present
        self._obstacles = obstacles
        #: Ours as it will be.
        self._planned = {kind: dict(ours) for kind, ours in present.items()}
        #: {(kind, values of its unique fields): id}.
        self._taken = {
            (kind, *(fields[name] for name in names)): id_
            for kind, names in _UNIQUE.items()
            for id_, fields in present.get(kind, {}).items()}
        #: {service, region and name: id} of registered limits.
        self._refused_resources: dict[tuple[Any, ...], str] = {}
        self._refused = {kind: set(ids) for kind, ids in (refused or {}).items()}

    def compare(self, record: Record) -> Item:
        """Return a record with what a copy would make of it."""
        ours = self._present.get(record.kind, {}).get(record.id)
        if ours is not None:
            differences = {name: (ours[name], value) for name, value in record.fields.items()
                           if ours[name] != value and not _is_filled_here(record, name)}
            if not differences:
                return Item(
                    record.kind, record.id, record.name, Outcome.EQUAL, record=record)
            outcome, reason = Outcome.UPDATE, self._find_unfit(record)
        else:
            differences = {}
            outcome, reason = Outcome.CREATE, self._find_obstacle(record)
        if reason:
            if ours is None:
                self._refused.setdefault(record.kind, set()).add(record.id)
                if record.kind == records.REGISTERED_LIMIT:
                    key = tuple(record.fields[name] for name in _RESOURCE)
                    self._refused_resources[key] = record.id
            return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason,
                        differences=differences)
        self._planned.setdefault(record.kind, {})[record.id] = record.fields
        return Item(record.kind, record.id, record.name, outcome, differences=differences,
                    record=record)

    def _find_obstacle(self, record: Record) -> str:
        """Say why a record cannot be created here; "": it can."""
        names = _UNIQUE.get(record.kind, ())
        if names:
            id_ = self._taken.get((record.kind, *(record.fields[name] for name in names)))
            if id_ is not None:
                values = ", ".join(str(record.fields[name]) for name in names
                                   if record.fields[name] is not None)
                return f"{id_} is here already, with the same {values}"
        for name, kind in _REFERENCES.get(record.kind, {}).items():
            id_ = record.fields[name]
            if id_ is not None and id_ in self._refused.get(kind, ()):
                return f"its {name.removesuffix('_id')} {id_} is refused"
        return self._find_unregistered(record) or self._find_unfit(record)

    def _find_unregistered(self, record: Record) -> str:
        """Say that the registered limit of a limit is refused, if it is; else ""."""
        if record.kind not in (records.LIMIT, records.USER_LIMIT):
            return ""
        key = tuple(record.fields[name] for name in _RESOURCE)
        refused_id = self._refused_resources.get(key)
        if refused_id is None or (records.REGISTERED_LIMIT, *key) in self._taken:
            return ""
        return f"its registered limit {refused_id} is refused"

    def _find_unfit(self, record: Record) -> str:
        """Say which of a record's values cannot be ours; "": none."""
        find = self._obstacles.get(record.kind)
        return find(record, self._planned.get(record.kind, {})) if find else ""


def _is_filled_here(record: Record, name: str) -> bool:
    """Return whether a field is one that ours fills where the source has no value."""
    return record.fields[name] is None and name in _FILLED.get(record.kind, ())


def _list_gone(
    wanted_ids: Mapping[str, Collection[str]], present: Present,
    copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first."""
    for kind in reversed(list(copied)):
        ours = present.get(kind, {})
        for id_ in sorted(copied[kind]):
            if id_ in ours and id_ not in wanted_ids.get(kind, ()):
                name = ours[id_].get("name") or ours[id_].get("resource_name") or ""
                yield Item(kind, id_, name, Outcome.GONE)
