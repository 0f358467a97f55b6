"""Re-checks: does a request still fit, now that it exists? Of two concurrent ones, one stays.

The count excludes concurrent claims that came later (``recheck_order``). So of several
requests that fit one by one, but not together, one stays, whichever is re-checked first. Its
acceptance is recorded, and it counts for all others from then on, also for earlier ones that
are re-checked late. An earlier request whose re-check is pending counts if it may stay: a
request that does not fit beside all of them judges them one by one in their order, as their
own re-checks will, and excludes those that will have to go.

Counting may take long and query other services, so nothing is locked meanwhile. Afterwards
the re-check locks the limit nodes and compares the acceptances; if another request was
accepted since, it counts again. Each such round is another request's acceptance. A request
that does not fit locks the nodes, too, before its refusal is recorded, and checks whether
concurrent claims were created or refused while it counted: these may be what did not fit, so
it counts again without them.
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
from placement_core.quota.recheck_order import (
    AnswerPruner,
    ConcurrentClaims,
    EarlierRequest,
    Position,
)

#: For how long a re-check counts again because others were accepted.
_PATIENCE_SECONDS = 30.0
#: How many earlier requests are judged, a count or two each; the others stay.
_MOST_JUDGED = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Rechecks:
    """Re-checks what requests created. Thread-safe."""

    queries: QuotaQueries
    nodes: LimitNodes
    pruner: AnswerPruner

    def recheck(
        self, ctx: Context, *, project_id: str, names: Collection[str],
        uuids: Collection[str], user_id: str | None = None,
    ) -> CheckResult:
        """Say whether what a request created may stay.

        Call it after everything that the request creates was committed, and before it is
        handed out. If it does not fit, the caller deletes all of it: instances, mappings
        and allocations. The call is idempotent.

        :param names: the resource names to check.
        :param uuids: all instances (or consumers) that the request created.
        :raises errors.UnknownConsumers: the project does not have some of them.
        :raises errors.RecheckBusy: others were accepted for 30 s while this one counted.
        :raises errors.Error: as ``checks.check``.
        """
        queries = self.queries
        queries.require_countable(names)
        subject = queries.subject(ctx, project_id, user_id)
        request = _Request(queries, names, uuids, user_id is not None, recheck_order.find_position(
            ctx, queries.cells, project_id, uuids))
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            node_ids = self.nodes.ensure(ctx, _bound_nodes(queries, subject, names))
            seen = recheck_order.read_acceptances(ctx, set(node_ids.values()))
            if seen.keys() != set(node_ids.values()):
                self.nodes.forget()
                continue
            concurrent = request.find_concurrent_claims(ctx, subject)
            answer = request.judge(ctx, subject, concurrent)
            if answer.fits:
                if _accept(ctx, self.nodes, node_ids, seen, uuids):
                    self.pruner.prune_if_due(ctx)
                    return answer
            elif _refuse(ctx, self.nodes, node_ids, seen, request, subject, concurrent):
                return answer
            if time.monotonic() > deadline:
                raise errors.RecheckBusy
            subject = queries.subject(ctx, project_id, user_id)


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """What a re-check is about.

    :ivar of_user: whether limits of the user bind, too.
    :ivar first: the position of the request.
    """

    queries: QuotaQueries
    names: Collection[str]
    uuids: Collection[str]
    of_user: bool
    first: Position

    def find_concurrent_claims(self, ctx: Context, subject: Subject) -> ConcurrentClaims:
        return recheck_order.find_concurrent_claims(
            ctx, self.queries.cells, self.first, self.uuids,
            _counted_projects(self.queries, subject, self.names))

    def judge(self, ctx: Context, subject: Subject, concurrent: ConcurrentClaims) -> CheckResult:
        """Say whether the request may stay, whichever concurrent requests were re-checked.

        It is judged beside all earlier requests, then beside none of them, then beside more
        and more of those that may stay, in their order.
        """
        answer = self._judge(ctx, subject, concurrent.excluded)
        if answer.fits:
            return answer
        earlier = recheck_order.find_earlier_requests(
            ctx, self.queries.cells, concurrent, self.first)[:_MOST_JUDGED]
        if not earlier:
            return answer
        excluded = {*concurrent.excluded, *(uuid for other in earlier for uuid in other.uuids)}
        answer = self._judge(ctx, subject, excluded)
        for other in earlier:
            if not answer.fits:
                break
            if self._may_stay(ctx, other, {*excluded, *self.uuids} - other.uuids):
                excluded -= other.uuids
                answer = self._judge(ctx, subject, excluded)
        return answer

    def _may_stay(
        self, ctx: Context, other: EarlierRequest, excluded: Set[str]
    ) -> bool:
        """Say what the re-check of another request would answer now, for the same resources."""
        try:
            subject = self.queries.subject(
                ctx, other.project_id, other.user_id if self.of_user else None)
        except errors.UnknownProject:
            return True  # its own re-check would not refuse it
        return self._judge(ctx, subject, excluded).fits

    def _judge(self, ctx: Context, subject: Subject, excluded: Set[str]) -> CheckResult:
        measure = self.queries.measure(ctx, subject, self.names, without=excluded)
        self.queries.require_cells(measure.missing_cells)
        return CheckResult(
            self.queries.exceeded_limits(measure, dict.fromkeys(self.names, 0)), measure)


def _bound_nodes(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    """Return the nodes to lock: those whose limits bind the subject, and its project."""
    return {subject.project_id, *(
        binding.node_id for name in names
        for binding in queries.decisions.bindings(subject.project_limits, name))}


def _counted_projects(
    queries: QuotaQueries, subject: Subject, names: Collection[str]
) -> set[str]:
    return {subject.project_id, *(
        project_id for name in names
        for binding in queries.decisions.bindings(subject.project_limits, name)
        for project_id in subject.project_limits.counted_projects(binding).project_ids)}


@db.retry_writes
def _accept(
    ctx: Context, nodes: LimitNodes, node_ids: Mapping[str, int], seen: Mapping[int, int],
    uuids: Collection[str],
) -> bool:
    """Record that a request was accepted; False: another one was accepted meanwhile."""
    with db.write(ctx) as session:
        nodes.lock(session, node_ids)
        if not recheck_order.is_unchanged(session, seen):
            return False
        recheck_order.record_acceptance(session, seen, uuids)
    return True


@db.retry_writes
def _refuse(
    ctx: Context, nodes: LimitNodes, node_ids: Mapping[str, int], seen: Mapping[int, int],
    request: _Request, subject: Subject, concurrent: ConcurrentClaims,
) -> bool:
    """Record that a request was refused.

    :returns: False: concurrent claims were created or answered while it was judged.
    """
    with db.write(ctx) as session:
        nodes.lock(session, node_ids)
        if not recheck_order.is_unchanged(session, seen):
            return False
        if not concurrent.excluded >= request.find_concurrent_claims(ctx, subject).excluded:
            return False
        recheck_order.record_refusal(session, request.uuids)
    return True
