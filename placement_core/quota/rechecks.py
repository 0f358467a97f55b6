"""Does it still fit, now that it is there? Of two rivals, the first claim stays.

What is counted leaves out the rivals that came later (``rivals``): so of several that
fit one by one, and not together, one stays, whoever asks first. That it was accepted is
noted, and it counts for all others from then on, also for those that came before it and
ask late. What came earlier and has not asked yet counts: it may stay.

Counting may take its time and ask other services, so nothing is locked meanwhile: who
has counted takes the limit nodes and looks whether somebody was accepted since; if so,
the count starts again. Each such round is another one's acceptance. And whoever does not
fit looks whether rivals came, or were refused, while they were counted: these may be what
did not fit, so the count starts again without them.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from placement_core import db
from placement_core.context import Context
from placement_core.quota import errors, nodes, rivals
from placement_core.quota.checks import Answer
from placement_core.quota.enforcer import QuotaEnforcer, Standing

#: How long somebody counts again because others were accepted.
_PATIENCE_SECONDS = 30.0


def recheck(
    ctx: Context, enforcer: QuotaEnforcer, *, project_id: str, names: Collection[str],
    uuids: Collection[str], user_id: str | None = None,
) -> Answer:
    """Say whether what a request made may stay.

    Asked after everything that the request makes was committed, and before it is
    handed out. If it does not fit, the caller removes all of it: instances, mappings
    and allocations. Asking again is safe.

    :param names: the resource names to look at.
    :param uuids: the instances (or consumers) that the request made, all of them.
    :raises errors.UnknownConsumers: the project does not have some of them.
    :raises errors.TooManyRivals: there was no time to find out.
    :raises errors.Error: as ``checks.check``.
    """
    enforcer.require_countable(names)
    standing = enforcer.standing(ctx, project_id, user_id)
    first = rivals.place(ctx, enforcer.cells, project_id, uuids)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        row_ids = set(nodes.ensure(ctx, _bound_nodes(enforcer, standing, names)).values())
        seen = rivals.acceptances(ctx, row_ids)
        if seen.keys() != row_ids:
            nodes.forget(ctx)
            continue
        counted = _counted(enforcer, standing, names)
        left_out = rivals.left_out(ctx, enforcer.cells, first, uuids, counted)
        measure = enforcer.measure(ctx, standing, names, without=left_out)
        enforcer.require_cells(measure.missing_cells)
        answer = Answer(enforcer.overruns(measure, dict.fromkeys(names, 0)), measure)
        if answer.fits:
            if _accepted(ctx, seen, uuids):
                return answer
        elif left_out >= rivals.left_out(ctx, enforcer.cells, first, uuids, counted):
            rivals.refuse(ctx, uuids)
            return answer
        if time.monotonic() > deadline:
            raise errors.TooManyRivals
        standing = enforcer.standing(ctx, project_id, user_id)


def _bound_nodes(
    enforcer: QuotaEnforcer, standing: Standing, names: Collection[str]
) -> set[str]:
    """Return the nodes that rivals have in common: those of the bounds, and the project."""
    return {standing.project_id, *(
        binding.node_id for name in names
        for binding in enforcer.decisions.bindings(standing.bounds, name))}


def _counted(
    enforcer: QuotaEnforcer, standing: Standing, names: Collection[str]
) -> set[str]:
    return {standing.project_id, *(
        project_id for name in names
        for binding in enforcer.decisions.bindings(standing.bounds, name)
        for project_id in standing.bounds.counted(binding))}


@db.retry_writes
def _accepted(ctx: Context, seen: dict[int, int], uuids: Collection[str]) -> bool:
    """Accept a request, unless another was accepted meanwhile."""
    with db.write(ctx) as session:
        nodes.hold(ctx, session, seen)
        if not rivals.seen_by(session, seen):
            return False
        rivals.accept(session, seen, uuids)
    rivals.prune_sometimes(ctx)
    return True
