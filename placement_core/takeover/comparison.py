"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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
    records.PROVIDER: ("name",),
}
#: Kinds of which those that are renamed make their names free for others.
_RENAMED = frozenset({records.PROVIDER})
#: The fields that name a record of another kind, or have the ids of several as keys.
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    records.PROJECT: {"domain_id": records.DOMAIN, "parent_id": records.PROJECT},
    records.LIMIT: {"project_id": records.PROJECT, "domain_id": records.DOMAIN},
    records.USER_LIMIT: {"project_id": records.PROJECT},
    records.PROVIDER: {"parent": records.PROVIDER},
    records.CONSUMER: {"allocations": records.PROVIDER},
}
#: The field of a kind that names the record above one.
_PARENTS = {records.PROVIDER: "parent"}

#: {kind: {id: fields}}.
Present = Mapping[str, Mapping[str, Fields]]
#: {kind: {id: the source that it was copied from}}.
Owners = Mapping[str, Mapping[str, str]]


def compare(
    contents: Contents, present: Present, copied: Mapping[str, Collection[str]],
    owners: Owners = types.MappingProxyType({}),
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours.
    :param copied: what was copied earlier: {kind: ids}.
    :param owners: those of ours that only the source may change that they come from.
    """
    items = compare_records(contents, present, owners)
    return [*items, *list_gone(items, present, copied)]


def compare_records(contents: Contents, present: Present, owners: Owners) -> list[Item]:
    """Return the same without what is gone from the source."""
    comparison = _Comparison(contents, present, owners)
    return [*map(comparison.compare, contents.records), *contents.left]


class _Comparison:
    """What is found of records so far.

    :ivar refused: {kind: ids} of those that cannot be copied.
    """

    def __init__(self, contents: Contents, present: Present, owners: Owners) -> None:
        self._present = present
        self._owners = owners
        self.refused: dict[str, set[str]] = {}
        for item in contents.left:
            if item.outcome is Outcome.REFUSED:
                self.refused.setdefault(item.kind, set()).add(item.id)
        wanted = {(record.kind, record.id): record.fields for record in contents.records
                  if record.kind in _RENAMED}
        #: {(kind, values of its unique fields): id}.
        self._taken = {
            (kind, *(fields[name] for name in names)): id_
            for kind, names in _UNIQUE.items()
            for id_, fields in present.get(kind, {}).items()
            if all(wanted.get((kind, id_), fields)[name] == fields[name] for name in names)}

    def compare(self, record: Record) -> Item:
        ours = self._present.get(record.kind, {}).get(record.id)
        owner = None if ours is None else self._owners.get(record.kind, {}).get(record.id)
        if owner is not None:
            return self._refuse(record, f"it was copied from {owner}, and is never merged")
        if ours is not None:
            differences = {name: (ours[name], value) for name, value in record.fields.items()
                           if ours[name] != value}
            if not differences:
                return Item(record.kind, record.id, record.name, Outcome.EQUAL, record.remark,
                            record=record)
            return Item(
                record.kind, record.id, record.name, Outcome.UPDATE, record.remark,
                differences, record)
        reason = self._find_obstacle(record)
        if reason:
            return self._refuse(record, reason)
        return Item(record.kind, record.id, record.name, Outcome.CREATE, record.remark,
                    record=record)

    def _refuse(self, record: Record, reason: str) -> Item:
        self.refused.setdefault(record.kind, set()).add(record.id)
        return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason)

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
            refused = self.refused.get(kind)
            if not refused or record.fields[name] is None:
                continue
            if not isinstance(record.fields[name], Mapping):
                if record.fields[name] in refused:
                    return f"its {name.removesuffix('_id')} {record.fields[name]} is refused"
                continue
            for id_ in record.fields[name]:
                if id_ in refused:
                    return f"its {kind} {id_} is refused"
        return ""


def list_gone(
    items: Iterable[Item], present: Present, copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first.

    :param items: what became of that which is in the source.
    """
    wanted_ids: dict[str, set[str]] = {}
    for item in items:
        if item.outcome is not Outcome.SKIPPED:  # what is refused means something there, too
            wanted_ids.setdefault(item.kind, set()).add(item.id)
    for kind in reversed(list(copied)):
        ours, wanted = present.get(kind, {}), wanted_ids.get(kind, ())
        gone = [id_ for id_ in copied[kind] if id_ in ours and id_ not in wanted]
        for id_ in sorted(gone, key=lambda id_: (_measure_depth(ours, kind, id_), id_)):
            name = ours[id_].get("name") or ours[id_].get("resource_name") or ""
            yield Item(kind, id_, name, Outcome.GONE)


def _measure_depth(ours: Mapping[str, Fields], kind: str, id_: str) -> int:
    """Return how many of ours are above one."""
    if kind not in _PARENTS:
        return 0
    above: set[str] = set()
    parent = ours[id_][_PARENTS[kind]]
    while parent in ours and parent not in above:
        above.add(parent)
        parent = ours[parent][_PARENTS[kind]]
    return len(above)
