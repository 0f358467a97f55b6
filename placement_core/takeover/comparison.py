"""Compare what a source has with what we have. Pure."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    records.PROVIDER: ("name",),
    records.HOST_PROPERTY: ("name",),
    records.HOST: ("name",),
}
#: Kinds of which those that are renamed make their names free for others.
_RENAMED = frozenset({records.PROVIDER})
_OF_RESOURCE = {"service_id": records.SERVICE, "region_id": records.REGION}
#: The fields that name a record of another kind, or have the ids of several as keys.
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    records.REGION: {"parent_region_id": records.REGION},
    records.ENDPOINT: _OF_RESOURCE,
    records.PROJECT: {"domain_id": records.DOMAIN, "parent_id": records.PROJECT},
    records.REGISTERED_LIMIT: _OF_RESOURCE,
    records.LIMIT: {
        **_OF_RESOURCE, "project_id": records.PROJECT, "domain_id": records.DOMAIN},
    records.USER_LIMIT: {**_OF_RESOURCE, "project_id": records.PROJECT},
    records.INSTANCE: {"cell": records.CELL},
    records.PROVIDER: {"parent": records.PROVIDER},
    records.CONSUMER: {"allocations": records.PROVIDER},
}
#: The field of a kind that names the record above one.
_PARENTS = {
    records.REGION: "parent_region_id", records.PROJECT: "parent_id", records.PROVIDER: "parent"}
#: The fields that may have a value here where the source has none: they are read in the cells.
_FILLED: Mapping[str, Collection[str]] = {records.INSTANCE: ("user_id", "queued_for_delete")}

#: The field that says whether ours of an id is the source's record: ids of hosts are numbers, and
#: one that is registered here gets a number, too.
_IDENTITIES: Mapping[str, str] = {records.HOST: "name"}

#: The fields that a copy brings to what it makes, and that are no difference: what was made here,
#: by a request that the other service has got as well, was made at another moment.
_UNCOMPARED: Mapping[str, Collection[str]] = dict.fromkeys(
    (records.PROVIDER, records.CONSUMER), ("created_at",))

#: {kind: {id: fields}}. Ours may have more fields than the source's.
Present = Mapping[str, Mapping[str, Fields]]
_NONE: Mapping[str, Any] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What a comparison needs to know of ours, besides the records.

    :ivar obstacles: by kind, what says why a record cannot be ours beside others as they will be,
        {id: fields}; "": it can.
    :ivar change_obstacles: by kind, what says why one of ours cannot be changed so, or "":
        (ours, changes).
    :ivar owners: {kind: {id: the source that it was copied from}}, of those of ours that only
        that source may change.
    :ivar pads_texts: whether our database takes texts for equal that differ in nothing but blanks
        at their ends, as MySQL does.
    """

    obstacles: Mapping[str, Callable[[Record, Mapping[str, Fields]], str]] = dataclasses.field(
        default_factory=dict)
    change_obstacles: Mapping[str, Callable[[Fields, Fields], str]] = dataclasses.field(
        default_factory=dict)
    owners: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict)
    pads_texts: bool = False


def compare(
    contents: Contents, present: Present, copied: Mapping[str, Collection[str]],
    rules: Rules = Rules(),
) -> list[Item]:
    """Return each record of the source with what a copy would make of it.

    :param present: ours.
    :param copied: what was copied earlier: {kind: ids}.
    """
    comparison = Comparison(
        present, rules, refused=list_refused(contents.left), wanted=contents.records)
    items = [*map(comparison.compare, contents.records), *contents.left]
    return [*items, *list_gone(items, present, copied)]


class Comparison:
    """Compares records one by one, in the order in which they are to be copied."""

    def __init__(
        self, present: Present, rules: Rules = Rules(), *,
        refused: Mapping[str, Collection[str]] = _NONE, wanted: Iterable[Record] = (),
    ) -> None:
        """Initialize it.

        :param present: ours.
        :param refused: {kind: ids} of records that were compared before, and cannot be copied.
        :param wanted: all that will be compared, where some may get the names of others.
        """
        self._present = present
        self._rules = rules
        #: Ours as it will be.
        self._planned = {kind: dict(present.get(kind, {})) for kind in rules.obstacles}
        self._refused = {kind: set(ids) for kind, ids in refused.items()}
        #: {service, region and name: id} of registered limits.
        self._refused_resources: dict[tuple[Any, ...], str] = {}
        renamed: dict[tuple[str, str], Fields] = {}
        for record in wanted:
            if record.kind in _RENAMED:
                renamed[record.kind, record.id] = record.fields
            elif (record.kind == records.REGISTERED_LIMIT
                    and record.id in self._refused.get(record.kind, ())):
                self._refused_resources[_get_resource(record)] = record.id
        #: {(kind, values of its unique fields): id}, of ours and of those that will be.
        self._taken = {
            self._make_key(kind, fields, names): id_
            for kind, names in _UNIQUE.items()
            for id_, fields in present.get(kind, {}).items()
            if all(renamed.get((kind, id_), fields)[name] == fields[name] for name in names)}
        self._coming: dict[tuple[Any, ...], str] = {}

    def compare(self, record: Record) -> Item:
        """Return a record with what a copy would make of it; those it refers to come before."""
        ours = self._present.get(record.kind, {}).get(record.id)
        if ours is None:
            reason = self._find_obstacle(record)
            return self._refuse(record, reason) if reason else self._plan(record, Outcome.CREATE)
        owner = self._rules.owners.get(record.kind, {}).get(record.id)
        if owner is not None:
            return self._refuse(record, f"it was copied from {owner}, and is never merged")
        uncompared = _UNCOMPARED.get(record.kind, ())
        differences = {
            name: (ours[name], value) for name, value in record.fields.items()
            if name not in uncompared and ours[name] != value
            and not _is_filled_here(record, name)}
        reason = _find_refused_need(record, self._refused)
        if not (differences or reason):
            return Item(record.kind, record.id, record.name, Outcome.EQUAL,
                        "; ".join(record.notes), record=record)
        reason = (reason or self._find_unfit(record)
                  or self._find_unchangeable(record, ours, differences))
        if reason:
            item = Item(
                record.kind, record.id, record.name, Outcome.REFUSED, reason, differences)
            if _is_another(item):
                self._refused.setdefault(record.kind, set()).add(record.id)
            return item
        return self._plan(record, Outcome.UPDATE, differences)

    def _plan(
        self, record: Record, outcome: Outcome,
        differences: Mapping[str, tuple[Any, Any]] = _NONE,
    ) -> Item:
        if record.kind in self._planned:
            self._planned[record.kind][record.id] = record.fields
        if outcome is Outcome.CREATE and record.kind in _UNIQUE:
            key = self._make_key(record.kind, record.fields, _UNIQUE[record.kind])
            self._coming.setdefault(key, record.id)
        return Item(record.kind, record.id, record.name, outcome, "; ".join(record.notes),
                    differences, record)

    def _make_key(
        self, kind: str, fields: Fields, names: Sequence[str]
    ) -> tuple[Any, ...]:
        """Return what only one of a kind may have, as our database compares it."""
        values = [fields[name] for name in names]
        if self._rules.pads_texts:
            values = [value.rstrip(" ") if isinstance(value, str) else value for value in values]
        return (kind, *values)

    def _refuse(self, record: Record, reason: str) -> Item:
        """Refuse a record that is not here, or not the source's."""
        self._refused.setdefault(record.kind, set()).add(record.id)
        if record.kind == records.REGISTERED_LIMIT:
            self._refused_resources[_get_resource(record)] = record.id
        return Item(record.kind, record.id, record.name, Outcome.REFUSED, reason)

    def _find_obstacle(self, record: Record) -> str:
        """Say why a record cannot be created here; "": it can."""
        names = _UNIQUE.get(record.kind, ())
        if names:
            key = self._make_key(record.kind, record.fields, names)
            values = ", ".join(str(record.fields[name]) for name in names
                               if record.fields[name] is not None)
            if key in self._taken:
                return f"{self._taken[key]} is here already, with the same {values}"
            if key in self._coming:
                return f"{self._coming[key]} comes before it, with the same {values}"
        return (find_refused_reference(record, self._refused) or self._find_unregistered(record)
                or self._find_unfit(record))

    def _find_unregistered(self, record: Record) -> str:
        """Say that the registered limit of a limit is refused, if it is; else ""."""
        if record.kind not in (records.LIMIT, records.USER_LIMIT):
            return ""
        key = _get_resource(record)
        refused_id = self._refused_resources.get(key)
        if refused_id is None or self._make_key(
                records.REGISTERED_LIMIT, record.fields, _RESOURCE) in self._taken:
            return ""
        return f"its registered limit {refused_id} is refused"

    def _find_unfit(self, record: Record) -> str:
        """Say which of a record's values cannot be ours; "": none."""
        find = self._rules.obstacles.get(record.kind)
        return find(record, self._planned[record.kind]) if find else ""

    def _find_unchangeable(
        self, record: Record, ours: Fields, differences: Mapping[str, tuple[Any, Any]]
    ) -> str:
        """Say why one of ours cannot become what the source has; "": it can."""
        find = self._rules.change_obstacles.get(record.kind)
        changes = {name: value for name, (_, value) in differences.items()}
        return find(ours, changes) if find else ""


def find_refused_reference(record: Record, refused: Mapping[str, Collection[str]]) -> str:
    """Say which record that one needs is refused; "": none.

    :param refused: {kind: ids}.
    """
    for name, kind in _REFERENCES.get(record.kind, {}).items():
        ids = refused.get(kind)
        if not ids or (value := record.fields[name]) is None:
            continue
        if isinstance(value, Mapping):
            for id_ in value:
                if id_ in ids:
                    return f"its {kind} {id_} is refused"
        elif value in ids:
            return f"its {name.removesuffix('_id')} {value} is refused"
    return _find_refused_need(record, refused)


def _find_refused_need(record: Record, refused: Mapping[str, Collection[str]]) -> str:
    """Say which record is refused that one needs although no field names it; "": none."""
    for kind, id_ in record.references:
        if id_ in refused.get(kind, ()):
            return f"its {kind} {id_} is refused"
    return ""


def _get_resource(record: Record) -> tuple[Any, ...]:
    """Return what a limit is on."""
    return tuple(record.fields[name] for name in _RESOURCE)


def _is_filled_here(record: Record, name: str) -> bool:
    """Return whether a field is one that ours fills where the source has no value."""
    return record.fields[name] is None and name in _FILLED.get(record.kind, ())


def _is_another(item: Item) -> bool:
    """Return whether ours of the same id is not what the source means."""
    return _IDENTITIES.get(item.kind) in item.differences


def as_difference(item: Item) -> Item:
    """Return what differs: a record that must not change here differs all the same."""
    if item.outcome is Outcome.REFUSED and item.differences:
        return dataclasses.replace(item, outcome=Outcome.UPDATE)
    return item


def list_refused(items: Iterable[Item]) -> dict[str, set[str]]:
    """Return the ids of what is refused, and not here or another thing here: {kind: ids}."""
    refused: dict[str, set[str]] = {}
    for item in items:
        if _is_another(item) or (item.outcome is Outcome.REFUSED and not item.differences):
            refused.setdefault(item.kind, set()).add(item.id)
    return refused


def list_gone(
    items: Iterable[Item], present: Present, copied: Mapping[str, Collection[str]],
) -> Iterator[Item]:
    """Yield what was copied and is here, but not in the source; dependents first.

    Of kinds that are refused as a whole nothing is gone: nobody can say what the source has.

    :param items: what became of that which is in the source.
    """
    wanted_ids: dict[str, set[str]] = {}
    unclear: set[str] = set()
    for item in items:
        if is_of_whole_kind(item):
            unclear.add(item.kind)
        elif is_in_source(item):
            wanted_ids.setdefault(item.kind, set()).add(item.id)
    for kind in reversed([kind for kind in copied if kind not in unclear]):
        ours, wanted = present.get(kind, {}), wanted_ids.get(kind, ())
        gone = [id_ for id_ in copied[kind]
                if id_ in ours and id_ not in wanted and not ours[id_].get("deleted")]
        for id_ in sorted(gone, key=lambda id_: (_measure_depth(ours, kind, id_), id_)):
            yield make_gone(kind, id_, ours[id_])


def is_of_whole_kind(item: Item) -> bool:
    """Return whether a kind is refused as a whole, because nobody can say what the source has."""
    return item.outcome is Outcome.REFUSED and not item.id


def is_in_source(item: Item) -> bool:
    """Return whether a record means something in the source, although it may not be copied."""
    return item.outcome is not Outcome.SKIPPED or item.has_no_place


def is_left_out(item: Item) -> bool:
    """Return whether a record means something in the source, and cannot be copied."""
    return item.outcome is Outcome.REFUSED or item.has_no_place


def make_gone(kind: str, id_: str, fields: Fields) -> Item:
    """Return a record of ours that no source has."""
    return Item(
        kind, id_, fields.get("name") or fields.get("resource_name") or "", Outcome.GONE)


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
