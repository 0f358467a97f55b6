"""Does it still fit, now that it is there? Of two rivals, the first claim stays.

What is counted leaves out the rivals that came later (``recheck_order``): so of several that
fit one by one, and not together, one stays, whoever asks first. That it was accepted is
noted, and it counts for all others from then on, also for those that came before it and
ask late. What came earlier and has not asked yet counts if it may stay: who does not fit
beside all of them judges them one by one in their order, as they will be judged when they
ask, and leaves those out that will have to go.

Counting may take its time and ask other services, so nothing is locked meanwhile: who
has counted takes the limit nodes and looks whether somebody was accepted since; if so,
the count starts again. Each such round is another one's acceptance. Whoever does not fit
takes the nodes, too, before that is noted, and looks whether rivals came, or were refused,
while they were counted: these may be what did not fit, so the count starts again without
them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Set

from placement_core import db
from placement_core.context import Context
from placement_core.quota import errors, nodes, recheck_order
from placement_core.quota.checks import Answer
from placement_core.quota.queries import QuotaQueries, Subject

#: How long somebody counts again because others were accepted.
_PATIENCE_SECONDS = 30.0
#: So many requests that came earlier are judged, a count or two each; the others stay.
_MOST_JUDGED = 32


def recheck(
    ctx: Context, queries: QuotaQueries, *, project_id: str, names: Collection[str],
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
    queries.require_countable(names)
    subject = queries.subject(ctx, project_id, user_id)
    request = _Request(queries, names, uuids, user_id is not None, recheck_order.place(
        ctx, queries.cells, project_id, uuids))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        bound = nodes.ensure(ctx, _bound_nodes(queries, subject, names))
        seen = recheck_order.acceptances(ctx, set(bound.values()))
        if seen.keys() != set(bound.values()):
            nodes.forget(ctx)
            continue
        others = request.find_rivals(ctx, subject)
        answer = request.judge(ctx, subject, others)
        if answer.fits:
            if _accepted(ctx, bound, seen, uuids):
                return answer
        elif _refused(ctx, bound, seen, request, subject, others):
            return answer
        if time.monotonic() > deadline:
            raise errors.TooManyRivals
        subject = queries.subject(ctx, project_id, user_id)


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """What a re-check is about.

    :ivar of_user: limits of the user bind, too.
    :ivar first: where the request stands.
    """

    queries: QuotaQueries
    names: Collection[str]
    uuids: Collection[str]
    of_user: bool
    first: recheck_order.Place

    def find_rivals(self, ctx: Context, subject: Subject) -> recheck_order.Rivals:
        return recheck_order.of_request(
            ctx, self.queries.cells, self.first, self.uuids,
            _counted(self.queries, subject, self.names))

    def judge(self, ctx: Context, subject: Subject, others: recheck_order.Rivals) -> Answer:
        """Say whether the request may stay, whoever of its rivals has asked.

        It is judged beside everybody that came earlier, then beside nobody of them, then
        beside more and more of those that may stay, in their order.
        """
        answer = self._judge(ctx, subject, others.left_out)
        if answer.fits:
            return answer
        earlier = recheck_order.earlier_requests(
            ctx, self.queries.cells, others, self.first)[:_MOST_JUDGED]
        if not earlier:
            return answer
        left_out = {*others.left_out, *(uuid for rival in earlier for uuid in rival.uuids)}
        answer = self._judge(ctx, subject, left_out)
        for rival in earlier:
            if not answer.fits:
                break
            if self._may_stay(ctx, rival, {*left_out, *self.uuids} - rival.uuids):
                left_out -= rival.uuids
                answer = self._judge(ctx, subject, left_out)
        return answer

    def _may_stay(
        self, ctx: Context, rival: recheck_order.EarlierRequest, left_out: Set[str]
    ) -> bool:
        """Say what a rival would be told if it asked now, about the same resources."""
        try:
            subject = self.queries.subject(
                ctx, rival.project_id, rival.user_id if self.of_user else None)
        except errors.UnknownProject:
            return True  # nobody would tell it to go
        return self._judge(ctx, subject, left_out).fits

    def _judge(self, ctx: Context, subject: Subject, left_out: Set[str]) -> Answer:
        measure = self.queries.measure(ctx, subject, self.names, without=left_out)
        self.queries.require_cells(measure.missing_cells)
        return Answer(
            self.queries.overruns(measure, dict.fromkeys(self.names, 0)), measure)


def _bound_nodes(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    """Return the nodes that rivals have in common: those of the bounds, and the project."""
    return {subject.project_id, *(
        binding.node_id for name in names
        for binding in queries.decisions.bindings(subject.bounds, name))}


def _counted(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    return {subject.project_id, *(
        project_id for name in names
        for binding in queries.decisions.bindings(subject.bounds, name)
        for project_id in subject.bounds.counted(binding).project_ids)}


@db.retry_writes
def _accepted(
    ctx: Context, bound: Mapping[str, int], seen: dict[int, int], uuids: Collection[str]
) -> bool:
    """Accept a request, unless another was accepted meanwhile."""
    with db.write(ctx) as session:
        nodes.hold(ctx, session, bound)
        if not recheck_order.seen_by(session, seen):
            return False
        recheck_order.accept(session, seen, uuids)
    recheck_order.prune_sometimes(ctx)
    return True


@db.retry_writes
def _refused(
    ctx: Context, bound: Mapping[str, int], seen: dict[int, int], request: _Request,
    subject: Subject, others: recheck_order.Rivals,
) -> bool:
    """Refuse a request, unless others were answered or came while it was judged."""
    with db.write(ctx) as session:
        nodes.hold(ctx, session, bound)
        if not recheck_order.seen_by(session, seen):
            return False
        if not others.left_out >= request.find_rivals(ctx, subject).left_out:
            return False
        recheck_order.refuse(session, request.uuids)
    return True
