"""Lists what all projects use, page by page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists, texts
from placement_core.placement import tables
from placement_core.placement.usage import project_usage
from placement_core.plugin_api.counting import CONSUMERS

_projects = tables.projects
_KEYS = sa.select(_projects.c.id, _projects.c.external_id).where(
    lists.among_many(_projects.c.id, "ids"))
_PROJECTS = sa.select(_projects.c.external_id).order_by(_projects.c.external_id)


class ListedUsage(NamedTuple):
    """What a project uses.

    :ivar resources: {resource class: amount}.
    """

    project_id: str
    consumer_count: int
    resources: Mapping[str, int]


class UsagePage(NamedTuple):
    """A page of usages.

    :ivar next_marker: the marker of the next page; None: this is the last one.
    """

    usages: list[ListedUsage]
    next_marker: str | None


@db.retry_writes
def list_(ctx: Context, *, marker: str | None = None, limit: int) -> UsagePage:
    """Return what the next projects use, in the order of their ids.

    Projects that use nothing are left out, so a page may have fewer than ``limit``, and even
    none. A page takes two statements, which see one snapshot.

    :param marker: only projects with a greater id, as the database sorts them.
    :param limit: the number of projects to look at, from 1 on.
    """
    statement = _PROJECTS.limit(limit + 1)
    if marker is not None:
        if not texts.is_storable(marker):
            return UsagePage([], None)
        statement = statement.where(_projects.c.external_id > marker)
    with db.read(ctx) as session:
        project_ids = list(session.execute(statement).scalars())
        has_more = len(project_ids) > limit
        project_ids = project_ids[:limit]
        totals = project_usage.read(ctx, project_ids)
    return UsagePage(
        _make_usages(project_ids, totals), project_ids[-1] if has_more else None)


def read(ctx: Context, project_ids: Collection[str]) -> list[ListedUsage]:
    """Return what projects use, of those that use anything, in the order of their ids."""
    return _make_usages(sorted(project_ids), project_usage.read(ctx, project_ids))


def read_project_ids(session: Session, keys: Collection[int]) -> dict[int, str]:
    """Return {database key: id} of those projects that there are."""
    return {row.id: row.external_id
            for row in session.execute(_KEYS, {"ids": sorted(keys)})} if keys else {}


def _make_usages(
    project_ids: Iterable[str], totals: project_usage.Totals
) -> list[ListedUsage]:
    return [
        ListedUsage(project_id, used.get(CONSUMERS, 0), {
            name: amount for name, amount in sorted(used.items()) if name != CONSUMERS})
        for project_id in project_ids if (used := totals.get(project_id))]
