"""How much more a write uses: what quota judges.

What moves counts once (``moves``), and what does not use more than before is no
growth: so no shrink, move or revert is ever judged.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa

from placement_core.db import Session
from placement_core.placement import records, tables
from placement_core.placement.allocations.loaded import Facts
from placement_core.placement.allocations.plan import Plan
from placement_core.placement.usage.usage_index import CONSUMERS

Key = TypeVar("Key")

_classes = tables.resource_classes
_NAMES = sa.select(_classes.c.id, _classes.c.name).where(
    _classes.c.id.in_(sa.bindparam("ids", expanding=True)))

#: {resource class or CONSUMERS: change}
Amounts = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """What projects, and users in them, use more than before.

    :ivar projects: {project id: amounts}, of those that use more of something.
        Where they use less of something else, that is negative.
    :ivar users: {(project id, user id): amounts}, likewise.
    """

    projects: Mapping[str, Amounts]
    users: Mapping[tuple[str, str], Amounts]


def measure(
    session: Session, writes: Sequence[records.AllocationWrite], known: Facts, planned: Plan
) -> Growth:
    """Return how much more a write uses.

    :param planned: the plan of ``writes``.
    """
    projects, users = _names_of_owners(writes, planned)
    counted: dict[tuple[int, int, int], int] = collections.Counter()
    for (project, user, _, resource_class), change in planned.counters.items():
        counted[project, user, resource_class] += change
    raw = dict(counted)
    for before, after in planned.pairs:
        for pair, sign in ((before, 1), (after, -1)):
            if pair is not None:
                for resource_class, used in pair.used.items():
                    counted[pair.project_id, pair.user_id, resource_class] += sign * used
    # Who gives back a second holding does not grow by counting the first one again.
    judged = {key: min(change, raw.get(key, 0)) for key, change in counted.items()}
    if max(judged.values(), default=0) <= 0:
        return Growth({}, {})
    names = _class_names(session, known, {key[2] for key, change in judged.items() if change})
    by_project: dict[str, dict[str, int]] = {}
    by_user: dict[tuple[str, str], dict[str, int]] = {}
    for (project, user, resource_class), change in judged.items():
        if project not in projects or not change:
            continue  # what shrinks altogether was not asked for by anybody here
        name, whose = names[resource_class], projects[project]
        of_project = by_project.setdefault(whose, collections.defaultdict(int))
        of_project[name] += change
        if user in users:
            of_user = by_user.setdefault((whose, users[user]), collections.defaultdict(int))
            of_user[name] += change
    return Growth(_growing(by_project), _growing(by_user))


def _names_of_owners(
    writes: Sequence[records.AllocationWrite], planned: Plan
) -> tuple[dict[int, str], dict[int, str]]:
    projects, users = {}, {}
    for write in writes:
        owner = planned.owners.get(write.consumer_uuid)
        if owner is not None:
            projects[owner[0]] = write.project_id
            users[owner[1]] = write.user_id
    return projects, users


def _class_names(session: Session, known: Facts, wanted: set[int]) -> dict[int, str]:
    names = {number: name for name, number in known.classes.items()}
    names[tables.CONSUMERS] = CONSUMERS
    missing = wanted - names.keys()
    if missing:
        # Of classes that somebody gives up while growing in others.
        names |= {row.id: row.name
                  for row in session.execute(_NAMES, {"ids": sorted(missing)})}
    return names


def _growing(found: Mapping[Key, dict[str, int]]) -> dict[Key, Amounts]:
    return {key: dict(amounts) for key, amounts in found.items()
            if any(change > 0 for change in amounts.values())}
