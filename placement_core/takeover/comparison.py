"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

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
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    records.PROJECT: {"domain_id": records.DOMAIN, "parent_id": records.PROJECT},
    records.LIMIT: {"project_id": records.PROJECT, "domain_id": records.DOMAIN},
    records.USER_LIMIT: {"project_id": records.PROJECT},
}

#: {kind: {id: fields}}.
Present = Mapping[str, Mapping[str, Fields]]


def compare(
    contents: Contents, present: Present, copied: Mapping[str, Collection[str]]
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours.
    :param copied: what was copied earlier: {kind: ids}.
    """
    wanted_ids: dict[str, set[str]] = {}
    comparison = Comparison(present)
    items = [comparison.compare(record) for record in contents.records]
    for item in (*items, *contents.left):
        if item.outcome is not Outcome.SKIPPED:  # what is refused means something there, too
            wanted_ids.setdefault(item.kind, set()).add(item.id)
    return [*items, *contents.left, *_list_gone(wanted_ids, present, copied)]


class Comparison:
    """What is found of records so far.

    :param present: ours.
    :param refused: {kind: ids} of records compared before that cannot be copied.
    """

    def __init__(
        self, present: Present, refused: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self._present = present
        #: {(kind, values of its unique fields): id}.
        self._taken = {
            (kind, *(fields[name] for name in names)): id_
            for kind, names in _UNIQUE.items()
            for id_, fields in present.get(kind, {}).items()}
        self._refused = {kind: set(ids) for kind, ids in (refused or {}).items()}

    def compare(self, record: Record) -> Item:
        """Return a record with what a copy would make of it; those it refers to come before."""
        ours = self._present.get(record.kind, {}).get(record.id)
        if ours is not None:
            differences = {name: (ours[name], value) for name, value in record.fields.items()
                           if ours[name] != value}
            return Item(
                record.kind, record.id, record.name,
                Outcome.UPDATE if differences else Outcome.EQUAL, differences=differences,
                record=record)
        reason = self._find_obstacle(record)
        if reason:
            self._refused.setdefault(record.kind, set()).add(record.id)
            return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason)
        return Item(record.kind, record.id, record.name, Outcome.CREATE, record=record)

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
        return ""


def _list_gone(
    wanted_ids: Mapping[str, Collection[str]], present: Present,
    copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first."""
    for kind in reversed(list(copied)):
        ours = present.get(kind, {})
        for id_ in sorted(copied[kind]):
            if id_ in ours and id_ not in wanted_ids.get(kind, ()):
                yield make_gone(kind, id_, ours[id_])


def make_gone(kind: str, id_: str, fields: Fields) -> Item:
    """Return a record of ours that no source has."""
    return Item(
        kind, id_, fields.get("name") or fields.get("resource_name") or "", Outcome.GONE)
