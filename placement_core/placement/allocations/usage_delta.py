"""Compute by how much a write increases usage; quota decides by it.

Instances that are moved count once (``moves``), and decreases do not count. So quota never refuses
to shrink, move or revert.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import sqlalchemy as sa

from placement_core.db import Session
from placement_core.placement import tables
from placement_core.placement.allocations.gates import PlannedWrite
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.plan import WritePlan
from placement_core.plugin_api.counting import CONSUMERS

Key = TypeVar("Key")
#: (project id, user id, resource class id or ``tables.CONSUMERS_ID``)
OwnerClass: TypeAlias = tuple[int, int, int]

_classes = tables.resource_classes
_NAMES = sa.select(_classes.c.id, _classes.c.name).where(
    _classes.c.id.in_(sa.bindparam("ids", expanding=True)))

_PROJECT_NAMES = sa.select(tables.projects.c.id, tables.projects.c.external_id).where(
    tables.projects.c.id.in_(sa.bindparam("ids", expanding=True)))

#: {resource class or CONSUMERS: change}
Amounts = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class UsageDelta:
    """By how much projects, and users in them, use more than before.

    :ivar projects: {project id: amounts}, of projects that use more of at least one resource;
        amounts of which they use less are negative.
    :ivar users: {(project id, user id): amounts}, likewise.
    :ivar changes: {project id: amounts}, of all projects that use more or less.
    """

    projects: Mapping[str, Amounts]
    users: Mapping[tuple[str, str], Amounts]
    changes: Mapping[str, Amounts]


def measure(write: PlannedWrite) -> UsageDelta:
    """Return by how much a write increases usage."""
    changes = find_judged_changes(write.plan)
    if max(changes.values(), default=0) <= 0:
        return UsageDelta({}, {}, {})
    names = _read_class_names(
        write.session, write.rows, {key[2] for key, change in changes.items() if change})
    projects, users = _read_owner_names(write)
    return _name_changes(changes, names, {**_list_former_projects(write), **projects}, users)


def find_key(write: PlannedWrite, classes: Hashable) -> Hashable | None:
    """Return what determines the result of ``measure``; None: more than a key can contain.

    Every claim asks for it, so it is made of what is there already.

    :param classes: names the resource classes of ``write.rows``, which the writes of a
        transaction share.
    """
    plan = write.plan
    if plan.pairs or _gives_back_others(write):
        return None
    owners = tuple([
        (plan.owners.get(each.consumer_uuid), each.project_id, each.user_id)
        for each in write.writes])
    return (owners, tuple(_list_former_projects(write).items()), tuple(plan.counters.items()),
            classes)


def _gives_back_others(write: PlannedWrite) -> bool:
    """Say whether usage of classes changes that the write does not name."""
    rows = write.rows
    return (any(each.consumer_uuid in rows.held for each in write.writes)
            and not {key[-1] for key in write.plan.counters} <= {
                *rows.classes.values(), tables.CONSUMERS_ID})


def find_judged_changes(plan: WritePlan) -> collections.Counter[OwnerClass]:
    """Return the changes of the usage of users by which quota decides.

    As ``find_changes``, without what grows because an instance moves again.
    """
    changes = find_changes(plan)
    for pair_change in plan.pairs:
        pair = pair_change.pair
        for resource_class, amount in pair_change.uncovered.items():
            changes[pair.project_id, pair.user_id, resource_class] -= amount
    return changes


def grows_unjudged(plan: WritePlan) -> bool:
    """Say whether usage grows by which quota does not decide (``find_judged_changes``)."""
    return any(pair_change.uncovered for pair_change in plan.pairs)


def find_changes(plan: WritePlan) -> collections.Counter[OwnerClass]:
    """Return the changes of the usage of users, where moved instances count once."""
    counted = _sum_by_user(plan)
    for before, after, _ in plan.pairs:
        for pair, sign in ((before, 1), (after, -1)):
            if pair is not None:
                for resource_class, used in pair.used.items():
                    counted[pair.project_id, pair.user_id, resource_class] += sign * used
    return counted


def _sum_by_user(plan: WritePlan) -> collections.Counter[OwnerClass]:
    counted: collections.Counter[OwnerClass] = collections.Counter()
    for (project, user, _, resource_class), change in plan.counters.items():
        counted[project, user, resource_class] += change
    return counted


def _name_changes(
    changes: Mapping[OwnerClass, int], names: Mapping[int, str], projects: Mapping[int, str],
    users: Mapping[int, str],
) -> UsageDelta:
    by_project: dict[str, dict[str, int]] = {}
    by_user: dict[tuple[str, str], dict[str, int]] = {}
    for (project, user, resource_class), change in changes.items():
        if project not in projects or not change:
            continue  # of adopted data, where a consumer's project has no row
        name, project_name = names[resource_class], projects[project]
        of_project = by_project.setdefault(project_name, collections.defaultdict(int))
        of_project[name] += change
        if user in users:
            of_user = by_user.setdefault(
                (project_name, users[user]), collections.defaultdict(int))
            of_user[name] += change
    return UsageDelta(_keep_growing(by_project), _keep_growing(by_user), by_project)


class NamedChanges:
    """The changes of usage by several writes of one transaction, moved instances counted once.

    :ivar projects: the projects whose usage any of the writes changes.
    """

    def __init__(self, writes: Sequence[PlannedWrite]) -> None:
        """Compute the changes of each write, of which none is added yet."""
        #: For each write, {(project id, user id, resource class id or CONSUMERS_ID): change}.
        self._changes = [find_changes(write.plan) for write in writes]
        #: {resource class or CONSUMERS: {(project, user id): change}}
        self._of_users: dict[str, collections.Counter[tuple[str, int]]] = (
            collections.defaultdict(collections.Counter))
        #: The same of all users: {resource class or CONSUMERS: {project: change}}
        self._of_projects: dict[str, collections.Counter[str]] = (
            collections.defaultdict(collections.Counter))
        self._projects: dict[int, str] = {}
        self._classes: dict[int, str] = {}
        if writes:
            self._read_names(writes)
        self.projects = frozenset(self._projects.values())

    def _read_names(self, writes: Sequence[PlannedWrite]) -> None:
        session = writes[0].session
        keys = [key for changes in self._changes for key in changes]
        for write in writes:
            self._projects |= _read_owner_names(write)[0]
        missing = {project for project, *_ in keys} - self._projects.keys()
        if missing:
            # Of consumers that have nothing afterwards.
            self._projects |= {row.id: row.external_id for row in session.execute(
                _PROJECT_NAMES, {"ids": sorted(missing)})}
        self._classes = _read_class_names(
            session, writes[0].rows, {resource_class for *_, resource_class in keys})

    def add(self, position: int) -> None:
        """Add the changes of one of the writes."""
        for (project, user, resource_class), change in self._changes[position].items():
            # A consumer without a row has no project.
            if project in self._projects:
                unit, name = self._classes[resource_class], self._projects[project]
                self._of_users[unit][name, user] += change
                self._of_projects[unit][name] += change

    def sum_of_projects(self, projects: Collection[str], unit: str) -> int:
        """Return by how much projects use more of a unit together."""
        changes = self._of_projects.get(unit)
        return sum(map(changes.__getitem__, projects)) if changes else 0

    def sum_of_growths(self, projects: Collection[str], unit: str) -> int:
        """Return the same of those projects only that use more."""
        changes = self._of_projects.get(unit)
        return sum(change for project in projects
                   if (change := changes[project]) > 0) if changes else 0

    def sum_of_user(
        self, write: PlannedWrite, project_id: str, user_id: str, units: Collection[str]
    ) -> int:
        """Return by how much an owner of the consumers of a write uses more of the units."""
        users = _read_owner_names(write)[1]
        return sum(change for unit in units
                   for (project, user), change in self._of_users.get(unit, {}).items()
                   if (project, users.get(user)) == (project_id, user_id))


def _read_owner_names(write: PlannedWrite) -> tuple[dict[int, str], dict[int, str]]:
    projects, users = {}, {}
    for allocation_write in write.writes:
        owner = write.plan.owners.get(allocation_write.consumer_uuid)
        if owner is not None:
            projects[owner[0]] = allocation_write.project_id
            users[owner[1]] = allocation_write.user_id
    return projects, users


def _list_former_projects(write: PlannedWrite) -> dict[int, str]:
    """Return {id: name} of the projects that owned the consumers of a write before it."""
    rows = write.rows
    if not rows.project_names:
        return {}
    projects = {}
    for each in write.writes:
        owner = rows.owners.get(each.consumer_uuid)
        name = None if owner is None else rows.project_names.get(owner[0])
        if owner is not None and name is not None:
            projects[owner[0]] = name
    return projects


def _read_class_names(session: Session, rows: LoadedRows, class_ids: set[int]) -> dict[int, str]:
    names = {number: name for name, number in rows.classes.items()}
    names[tables.CONSUMERS_ID] = CONSUMERS
    missing = class_ids - names.keys()
    if missing:
        # Classes of which a project uses less while it uses more of others.
        names |= {row.id: row.name
                  for row in session.execute(_NAMES, {"ids": sorted(missing)})}
    return names


def _keep_growing(changes: Mapping[Key, dict[str, int]]) -> dict[Key, Amounts]:
    return {key: dict(amounts) for key, amounts in changes.items()
            if any(change > 0 for change in amounts.values())}
