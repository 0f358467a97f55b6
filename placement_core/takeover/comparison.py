"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

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
    records.HOST_PROPERTY: ("name",),
    records.HOST: ("name",),
}
#: The fields that name a record of another kind.
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    records.PROJECT: {"domain_id": records.DOMAIN, "parent_id": records.PROJECT},
    records.LIMIT: {"project_id": records.PROJECT, "domain_id": records.DOMAIN},
    records.USER_LIMIT: {"project_id": records.PROJECT},
}

#: {kind: {id: fields}}. Ours may have more fields than the source's.
Present = Mapping[str, Mapping[str, Fields]]
#: Says why fields of one of our records cannot be changed so, or "": (ours, changes).
FindObstacle = Callable[[Fields, Fields], str]


def compare(
    contents: Contents, present: Present, copied: Mapping[str, Collection[str]],
    obstacles: Mapping[str, FindObstacle] = MappingProxyType({}),
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours.
    :param copied: what was copied earlier: {kind: ids}.
    :param obstacles: by kind, what says why one of ours cannot be changed.
    """
    wanted_ids: dict[str, set[str]] = {}
    comparison = _Comparison(present, obstacles)
    items = [comparison.compare(record) for record in contents.records]
    for item in (*items, *contents.left):
        if item.outcome is not Outcome.SKIPPED:  # what is refused means something there, too
            wanted_ids.setdefault(item.kind, set()).add(item.id)
    return [*items, *contents.left, *_list_gone(wanted_ids, present, copied)]


class _Comparison:
    """What is found of records so far.

    :ivar refused: {kind: ids} of those that cannot be copied.
    """

    def __init__(self, present: Present, obstacles: Mapping[str, FindObstacle]) -> None:
        self._present = present
        self._obstacles = obstacles
        #: {(kind, values of its unique fields): id}.
        self._taken = {
            (kind, *(fields[name] for name in names)): id_
            for kind, names in _UNIQUE.items()
            for id_, fields in present.get(kind, {}).items()}
        self.refused: dict[str, set[str]] = {}

    def compare(self, record: Record) -> Item:
        ours = self._present.get(record.kind, {}).get(record.id)
        if ours is not None:
            return self._compare_fields(record, ours)
        reason = self._find_obstacle(record)
        if reason:
            self.refused.setdefault(record.kind, set()).add(record.id)
            return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason)
        return Item(record.kind, record.id, record.name, Outcome.CREATE,
                    "; ".join(record.notes), record=record)

    def _compare_fields(self, record: Record, ours: Fields) -> Item:
        differences = {name: (ours[name], value) for name, value in record.fields.items()
                       if ours[name] != value}
        find_obstacle = self._obstacles.get(record.kind)
        if differences and find_obstacle is not None:
            reason = find_obstacle(ours, {name: value for name, (_, value) in differences.items()})
            if reason:
                return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason)
        return Item(
            record.kind, record.id, record.name,
            Outcome.UPDATE if differences else Outcome.EQUAL, "; ".join(record.notes),
            differences=differences, record=record)

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
            if id_ is not None and id_ in self.refused.get(kind, ()):
                return f"its {name.removesuffix('_id')} {id_} is refused"
        for kind, id_ in record.references:
            if id_ in self.refused.get(kind, ()):
                return f"its {kind} {id_} is refused"
        return ""


def _list_gone(
    wanted_ids: Mapping[str, Collection[str]], present: Present,
    copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first."""
    for kind in reversed(list(copied)):
        ours = present.get(kind, {})
        for id_ in sorted(copied[kind]):
            if (id_ in ours and id_ not in wanted_ids.get(kind, ())
                    and not ours[id_].get("deleted")):
                name = ours[id_].get("name") or ours[id_].get("resource_name") or ""
                yield Item(kind, id_, name, Outcome.GONE)
