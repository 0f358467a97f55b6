"""The kinds of objects in the feed: how those that changed are found, and all are listed.

Each function here reads in the caller's transaction, so that an answer is of one snapshot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from placement_core.changes import kinds as log_kinds
from placement_core.changes.errors import InvalidPosition
from placement_core.changes.positions import ChangeRow
from placement_core.context import Context
from placement_core.db import Session
from placement_core.feed.records import Change
from placement_core.limits import limits, queries, registered, users
from placement_core.limits.queries import ListQuery
from placement_core.placement import provider_list, resource_classes, traits
from placement_core.placement.allocations import consumer_list
from placement_core.placement.usage import usage_list
from placement_core.quota import claims
from placement_core.quota.records import Claim
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.store import lease_rows
from placement_core.thresholds import monitor

#: Fits a database key.
_MOST_DIGITS = 18


class Reading(NamedTuple):
    """A transaction that reads."""

    ctx: Context
    session: Session


class Page(NamedTuple):
    """Some of all objects of a kind.

    :ivar marker: continues behind them; None: these were the last.
    """

    changes: list[Change]
    marker: str | None


#: Returns the objects that change rows of the kind are about, each once, in their present state.
Find: TypeAlias = Callable[[Reading, Sequence[ChangeRow]], list[Change]]
#: Lists all objects: (reading, project or None, marker or "", how many at most).
List: TypeAlias = Callable[[Reading, "str | None", str, int], Page]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects.

    :ivar log_kinds: the kinds of change rows that are about it.
    :ivar owned: whether its objects belong to projects.
    """

    name: str
    log_kinds: tuple[str, ...]
    owned: bool
    find: Find
    list: List


# Providers, classes, traits -------------------------------------------------------


def _find_providers(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    removed = {row.uuid: row.name for row in rows if row.uuid}
    providers = provider_list.read(
        reading.session, ids={row.ref for row in rows}, uuids=removed.keys())
    changes = {provider.uuid: _make_provider(provider) for provider in providers.values()}
    return list({**{uuid: Change("provider", uuid, name) for uuid, name in removed.items()},
                 **changes}.values())


def _list_providers(reading: Reading, _project: str | None, marker: str, most: int) -> Page:
    providers = provider_list.list_(reading.ctx, marker=marker or None, limit=most)
    return _make_page(list(map(_make_provider, providers)), most)


def _make_provider(provider: provider_list.ListedProvider) -> Change:
    return Change("provider", provider.uuid, provider.name, record=provider)


def _make_named(kind: str, read_names: Callable[[Session], Mapping[int, str]]) -> Kind:
    """Build a kind whose objects consist of a name."""

    def make(name: str) -> Change:
        return Change(kind, name, name, record=name)

    def find(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
        names = read_names(reading.session)
        present = set(names.values())
        changed = {names[row.ref] for row in rows if row.ref in names}
        changed |= {row.name for row in rows if row.name}
        return [make(name) if name in present else Change(kind, name, name)
                for name in sorted(changed)]

    def list_(reading: Reading, _project: str | None, marker: str, most: int) -> Page:
        names = sorted(name for name in read_names(reading.session).values() if name > marker)
        return _make_page([make(name) for name in names[:most]], most)

    return Kind(kind, (kind,), False, find, list_)


# What projects own ----------------------------------------------------------------


def _find_consumers(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    consumers = {consumer.uuid: _make_consumer(consumer) for consumer in consumer_list.read(
        reading.session, _collect_uuids(rows))}
    return _complete("consumer", rows, consumers)


def _list_consumers(reading: Reading, project: str | None, marker: str, most: int) -> Page:
    consumers = consumer_list.list_(
        reading.ctx, project_id=project, marker=marker or None, limit=most)
    return _make_page(list(map(_make_consumer, consumers)), most)


def _make_consumer(consumer: consumer_list.Consumer) -> Change:
    return Change("consumer", consumer.uuid, None, consumer.project_id, consumer)


def _find_claims(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    # Rows of consumers, too: a write of a consumer may take its claim over.
    known = claims.read(reading.session, _collect_uuids(rows))
    return _complete(
        "claim",
        [row for row in rows if row.kind == log_kinds.CLAIM or row.uuid in known],
        {uuid: _make_claim(claim) for uuid, claim in known.items() if claim is not None})


def _make_claim(claim: Claim) -> Change:
    return Change("claim", claim.consumer_uuid, None, claim.project_id, claim)


def _list_claims(reading: Reading, project: str | None, marker: str, most: int) -> Page:
    listed, end = claims.list_(
        reading.ctx, project_id=project, after=_parse_key(marker), most=most)
    return Page(list(map(_make_claim, listed)), None if end is None else str(end))


def _find_usages(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    project_ids = {row.project for row in rows if row.project}
    project_ids.update(usage_list.read_project_ids(
        reading.session, {row.ref for row in rows}).values())
    used = {usage.project_id: usage for usage in usage_list.read(reading.ctx, project_ids)}
    return [Change("project_usage", project_id, None, project_id, used.get(project_id))
            for project_id in sorted(project_ids)]


def _list_usages(reading: Reading, project: str | None, marker: str, most: int) -> Page:
    if project is not None:
        page = usage_list.UsagePage(usage_list.read(reading.ctx, [project]), None)
    else:
        page = usage_list.list_(reading.ctx, marker=marker or None, limit=most)
    return Page([Change("project_usage", usage.project_id, None, usage.project_id, usage)
                 for usage in page.usages], page.next_marker)


def _find_leases(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    changes = {row.uuid: Change("lease", row.uuid, row.name, row.project)
               for row in rows if row.uuid and row.project}
    keys = lease_queries.list_keys(
        reading.session, numbers={row.ref for row in rows if row.ref and not row.uuid},
        ids=_collect_uuids(rows))
    present = [row.id for row in keys if row.deleted_at is None]
    records = {lease.id: lease for lease in lease_rows.read(reading.session, present)}
    changes |= {row.id: Change("lease", row.id, row.name, row.project_id, records.get(row.id))
                for row in keys}
    return list(changes.values())


def _list_leases(reading: Reading, project: str | None, marker: str, most: int) -> Page:
    leases = lease_queries.list_after(
        reading.session, _parse_key(marker), project_id=project, limit=most)
    return Page([Change("lease", lease.id, lease.name, lease.project_id, lease)
                 for lease in leases],
                str(leases[-1].number) if len(leases) == most else None)


def _make_limits(
    kind: str, listing: ListQuery, from_row: Callable[[Any], Any], *, owned: bool
) -> Kind:
    """Build a kind of limits."""

    def make(row: Any) -> Change:
        limit = from_row(row)
        return Change(kind, limit.id, limit.resource_name, getattr(limit, "project_id", None),
                      limit)

    def find(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
        present = queries.read(reading.session, listing, ids=_collect_uuids(rows))
        return _complete(kind, rows, {row.uuid: make(row) for row in present})

    def list_(reading: Reading, project: str | None, marker: str, most: int) -> Page:
        rows = queries.read(
            reading.session, listing, after=_parse_key(marker), project_id=project, most=most)
        return Page(list(map(make, rows)), str(rows[-1].id) if len(rows) == most else None)

    return Kind(kind, (kind,), owned, find, list_)


def _find_thresholds(reading: Reading, rows: Sequence[ChangeRow]) -> list[Change]:
    reached = map(_make_threshold, monitor.read(reading.session, _collect_uuids(rows)))
    return _complete("threshold", rows, {change.id: change for change in reached})


def _list_thresholds(reading: Reading, project: str | None, marker: str, most: int) -> Page:
    return _make_page(list(map(_make_threshold, monitor.list_after(
        reading.session, marker, node_id=project, most=most))), most)


def _make_threshold(reached: monitor.ReachedThreshold) -> Change:
    subject = reached.measurement.subject
    return Change("threshold", subject.uuid, subject.resource_name, subject.node_id, reached)


def _collect_uuids(rows: Iterable[ChangeRow]) -> set[str]:
    return {row.uuid for row in rows if row.uuid}


def _complete(
    kind: str, rows: Iterable[ChangeRow], present: Mapping[str, Change]
) -> list[Change]:
    """Return the objects of rows that have their uuids; what is not present is gone."""
    gone = {row.uuid: Change(kind, row.uuid, row.name, row.project) for row in rows if row.uuid}
    return list({**gone, **{uuid: present[uuid] for uuid in gone if uuid in present}}.values())


def _parse_key(marker: str) -> int:
    """Return the database key that a marker is.

    :raises InvalidPosition: it is none.
    """
    if not marker:
        return 0
    if len(marker) > _MOST_DIGITS or not (marker.isascii() and marker.isdecimal()):
        raise InvalidPosition
    return int(marker)


def _make_page(changes: list[Change], most: int) -> Page:
    """Return a page whose marker is the id of its last object."""
    return Page(changes, changes[-1].id if len(changes) == most else None)


#: In the order in which everything is listed: what others refer to comes first.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (
    _make_named("resource_class", resource_classes.read_names),
    _make_named("trait", traits.read_names),
    Kind("provider", (log_kinds.PROVIDER,), False, _find_providers, _list_providers),
    Kind("consumer", (log_kinds.CONSUMER,), True, _find_consumers, _list_consumers),
    Kind("claim", (log_kinds.CLAIM, log_kinds.CONSUMER), True, _find_claims, _list_claims),
    Kind("project_usage", (log_kinds.PROJECT,), True, _find_usages, _list_usages),
    _make_limits(log_kinds.REGISTERED_LIMIT, registered.LIST_QUERY, registered.from_row,
                 owned=False),
    _make_limits(log_kinds.LIMIT, limits.LIST_QUERY, limits.from_row, owned=True),
    _make_limits(log_kinds.USER_LIMIT, users.LIST_QUERY, users.from_row, owned=True),
    Kind("lease", (log_kinds.LEASE,), True, _find_leases, _list_leases),
    Kind("threshold", (log_kinds.THRESHOLD,), True, _find_thresholds, _list_thresholds),
)}
