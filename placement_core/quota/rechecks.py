"""Re-checks: does a request still fit, now that it exists? Of two rivals, the first stays.

The count leaves out the rivals that came later (``recheck_order``): so of several requests
that fit one by one, and not together, one stays, whichever is re-checked first. That it was
accepted is recorded, and it counts for all others from then on, also for those that came
before it and are re-checked late. An earlier request that was not re-checked yet counts if
it may stay: a request that does not fit beside all of them judges them one by one in their
order, as their own re-checks will, and leaves out those that will have to go.

Counting may take long and ask other services, so nothing is locked meanwhile. Afterwards
the re-check locks the limit nodes and looks whether another was accepted since; if so, it
counts again. Each such round is another request's acceptance. A request that does not fit
locks the nodes, too, before that is recorded, and looks whether rivals came, or were
refused, while they were counted: these may be what did not fit, so it counts again without
them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Set

from placement_core import db
from placement_core.context import Context
from placement_core.quota import errors, recheck_order
from placement_core.quota.checks import CheckResult
from placement_core.quota.nodes import LimitNodes
from placement_core.quota.queries import QuotaQueries, Subject
from placement_core.quota.recheck_order import AnswerPruner, EarlierRequest, Place, Rivals

#: How long a re-check counts again because others were accepted.
_PATIENCE_SECONDS = 30.0
#: So many requests that came earlier are judged, a count or two each; the others stay.
_MOST_JUDGED = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Rechecks:
    """Re-checks what requests created; for any number of threads."""

    queries: QuotaQueries
    nodes: LimitNodes
    pruner: AnswerPruner

    def recheck(
        self, ctx: Context, *, project_id: str, names: Collection[str],
        uuids: Collection[str], user_id: str | None = None,
    ) -> CheckResult:
        """Say whether what a request created may stay.

        To be called after all that the request creates was committed, and before it is
        handed out. If it does not fit, the caller removes all of it: instances, mappings
        and allocations. Asking again is safe.

        :param names: the resource names to look at.
        :param uuids: the instances (or consumers) that the request made, all of them.
        :raises errors.UnknownConsumers: the project does not have some of them.
        :raises errors.TooManyRivals: there was no time to find out.
        :raises errors.Error: as ``checks.check``.
        """
        queries = self.queries
        queries.require_countable(names)
        subject = queries.subject(ctx, project_id, user_id)
        request = _Request(queries, names, uuids, user_id is not None, recheck_order.place(
            ctx, queries.cells, project_id, uuids))
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            node_ids = self.nodes.ensure(ctx, _bound_nodes(queries, subject, names))
            seen = recheck_order.acceptances(ctx, set(node_ids.values()))
            if seen.keys() != set(node_ids.values()):
                self.nodes.forget()
                continue
            rivals = request.find_rivals(ctx, subject)
            answer = request.judge(ctx, subject, rivals)
            if answer.fits:
                if _accept(ctx, self.nodes, node_ids, seen, uuids):
                    self.pruner.prune_if_due(ctx)
                    return answer
            elif _refuse(ctx, self.nodes, node_ids, seen, request, subject, rivals):
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
    first: Place

    def find_rivals(self, ctx: Context, subject: Subject) -> Rivals:
        return recheck_order.find_rivals(
            ctx, self.queries.cells, self.first, self.uuids,
            _counted_projects(self.queries, subject, self.names))

    def judge(self, ctx: Context, subject: Subject, rivals: Rivals) -> CheckResult:
        """Say whether the request may stay, whoever of its rivals has asked.

        It is judged beside all earlier requests, then beside none of them, then beside more
        and more of those that may stay, in their order.
        """
        answer = self._judge(ctx, subject, rivals.left_out)
        if answer.fits:
            return answer
        earlier = recheck_order.earlier_requests(
            ctx, self.queries.cells, rivals, self.first)[:_MOST_JUDGED]
        if not earlier:
            return answer
        left_out = {*rivals.left_out, *(uuid for other in earlier for uuid in other.uuids)}
        answer = self._judge(ctx, subject, left_out)
        for other in earlier:
            if not answer.fits:
                break
            if self._may_stay(ctx, other, {*left_out, *self.uuids} - other.uuids):
                left_out -= other.uuids
                answer = self._judge(ctx, subject, left_out)
        return answer

    def _may_stay(
        self, ctx: Context, rival: EarlierRequest, left_out: Set[str]
    ) -> bool:
        """Say what the re-check of a rival would answer now, about the same resources."""
        try:
            subject = self.queries.subject(
                ctx, rival.project_id, rival.user_id if self.of_user else None)
        except errors.UnknownProject:
            return True  # its own re-check would not refuse it
        return self._judge(ctx, subject, left_out).fits

    def _judge(self, ctx: Context, subject: Subject, left_out: Set[str]) -> CheckResult:
        measure = self.queries.measure(ctx, subject, self.names, without=left_out)
        self.queries.require_cells(measure.missing_cells)
        return CheckResult(
            self.queries.exceeded_limits(measure, dict.fromkeys(self.names, 0)), measure)


def _bound_nodes(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    """Return the nodes that rivals have in common: those of the bounds, and the project."""
    return {subject.project_id, *(
        binding.node_id for name in names
        for binding in queries.decisions.bindings(subject.project_limits, name))}


def _counted_projects(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    return {subject.project_id, *(
        project_id for name in names
        for binding in queries.decisions.bindings(subject.project_limits, name)
        for project_id in subject.project_limits.counted(binding).project_ids)}


@db.retry_writes
def _accept(
    ctx: Context, nodes: LimitNodes, node_ids: Mapping[str, int], seen: Mapping[int, int],
    uuids: Collection[str],
) -> bool:
    """Accept a request; False: another one was accepted meanwhile."""
    with db.write(ctx) as session:
        nodes.lock(session, node_ids)
        if not recheck_order.seen_by(session, seen):
            return False
        recheck_order.accept(session, seen, uuids)
    return True


@db.retry_writes
def _refuse(
    ctx: Context, nodes: LimitNodes, node_ids: Mapping[str, int], seen: Mapping[int, int],
    request: _Request, subject: Subject, rivals: Rivals,
) -> bool:
    """Refuse a request; False: rivals were answered or came while it was judged."""
    with db.write(ctx) as session:
        nodes.lock(session, node_ids)
        if not recheck_order.seen_by(session, seen):
            return False
        if not rivals.left_out >= request.find_rivals(ctx, subject).left_out:
            return False
        recheck_order.refuse(session, request.uuids)
    return True
