"""Explains why a request does not fit and what to delete, or how much more would fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.quota import top_consumers
from placement_core.quota.checks import CheckResult, CountCheckResult
from placement_core.quota.queries import Measure, QuotaQueries
from placement_core.quota.records import ExceededLimit, LimitUsage
from placement_core.quota.top_consumers import TopConsumer

#: How many consumers are read to make room; if more, smaller ones would be needed, the
#: answer says that these are not enough.
_MOST = 1000
#: How many consumers a sentence names.
_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """A limit that stops a request, and the consumers whose deletion would make room.

    :ivar holders: the largest consumers that the caller may see, just enough of them.
    :ivar enough: whether their total is at least what the request exceeds the limit by.
    """

    exceeded_limit: ExceededLimit
    holders: Sequence[TopConsumer]
    enough: bool
    sentence: str

    @property
    def named_holders(self) -> Sequence[TopConsumer]:
        """Return the holders that a text names: the largest few."""
        return self.holders[:_NAMED]


@dataclasses.dataclass(frozen=True, slots=True)
class More:
    """How much more of a resource would fit beside a request.

    :ivar amount: how much of the resource; ``UNLIMITED``: no limit binds.
    :ivar bound: the limit that stops more than that.
    """

    resource_name: str
    amount: Amount
    bound: LimitUsage | None
    sentence: str


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaExplanation:
    """An answer with its reasons.

    :ivar stops: the limits that stop the request, or the last of its items.
    :ivar more: one for each resource, sorted by name, if the request fits.
    """

    answer: CheckResult
    stops: Sequence[Stop]
    more: Sequence[More]

    @property
    def sentences(self) -> list[str]:
        """Return the reasons as sentences for users."""
        return [*(stop.sentence for stop in self.stops), *(more.sentence for more in self.more)]


def explain(
    ctx: Context, queries: QuotaQueries, answer: CheckResult, asked: Mapping[str, int],
    *, visible: Collection[str] | None = None,
) -> QuotaExplanation:
    """Return the reasons of an answer.

    :param asked: {resource name: amount} of the whole request, all items together.
    :param visible: the projects whose consumers the caller may see; None: all.
    """
    names = _DisplayNames(ctx, queries)
    exceeded_limits: Sequence[ExceededLimit] = answer.exceeded_limits
    if isinstance(answer, CountCheckResult):
        exceeded_limits = queries.exceeded_limits(answer.measure, asked)
    if exceeded_limits:
        return QuotaExplanation(answer, [
            _explain_stop(ctx, queries, answer.measure, exceeded, names, visible)
            for exceeded in exceeded_limits], [])
    return QuotaExplanation(answer, [], [
        _explain_more(queries, answer.measure, name, amount, names)
        for name, amount in sorted(asked.items())])


def _explain_stop(
    ctx: Context, queries: QuotaQueries, measure: Measure, exceeded: ExceededLimit,
    names: _DisplayNames, visible: Collection[str] | None,
) -> Stop:
    bounds = measure.subject.project_limits
    project_ids = set(bounds.subtrees[exceeded.node_id].project_ids if exceeded.scope == "subtree"
                  else [exceeded.node_id])
    if visible is not None:
        project_ids &= set(visible)
    consumers: list[TopConsumer] = []
    room = 0
    if project_ids:
        for consumer in top_consumers.find_largest(
                ctx, queries.cells, project_ids,
                queries.decisions.resources.units(exceeded.resource_name), most=_MOST,
                moves_once=queries.counting.moves_once, user_id=exceeded.user_id):
            if room >= exceeded.over_by:
                break
            consumers.append(consumer)
            room += consumer.amount
    enough = room >= exceeded.over_by
    return Stop(exceeded, consumers, enough, (
        f"{names.whose(exceeded)} stops it: limit {amounts.to_wire(exceeded.limit)} "
        f"{exceeded.resource_name}, {exceeded.used} used, {exceeded.asked} asked, "
        f"{exceeded.over_by} too many; {_describe_remedy(consumers, enough, names)}"))


def _describe_remedy(consumers: Sequence[TopConsumer], enough: bool, names: _DisplayNames) -> str:
    if not consumers:
        return "what would have to go cannot be seen from here."
    if not enough:
        return f"deleting all {len(consumers)} consumers that can be seen from here would not do."
    named_consumers = ", ".join(
        f"{consumer.uuid} of {names.title(consumer.project_id)} ({consumer.amount})"
        for consumer in consumers[:_NAMED])
    more = len(consumers) - _NAMED
    return f"deleting {named_consumers}{f' and {more} more' if more > 0 else ''} would do."


def _explain_more(
    queries: QuotaQueries, measure: Measure, name: str, asked: int, names: _DisplayNames
) -> More:
    subject = measure.subject
    tightest = min(measure.limit_usages[name], key=lambda usage: usage.free, default=None)
    if tightest is None and subject.unregistered([name]):
        return More(name, amounts.UNLIMITED, None, (
            f"No limit on {name} is registered for {queries.describe_source(subject.key)}: "
            "nothing binds the project."))
    if tightest is None or tightest.limit == amounts.UNLIMITED:
        return More(name, amounts.UNLIMITED, None, f"No limit on {name} binds the project.")
    free = int(tightest.free) - asked
    return More(name, free, tightest, (
        f"It fits; {free} more {name} would, then {names.whose(tightest)} stops it: limit "
        f"{amounts.to_wire(tightest.limit)}, {tightest.used} used."))


class _DisplayNames:
    """The names of projects and domains in sentences."""

    def __init__(self, ctx: Context, queries: QuotaQueries) -> None:
        self._ctx = ctx
        self._catalog = queries.catalog
        self._titles: dict[str, str] = {}

    def whose(self, bound: LimitUsage | ExceededLimit) -> str:
        """Describe whose limit it is."""
        title = self.title(bound.node_id)
        return title if bound.user_id is None else f"the limit of user {bound.user_id} in {title}"

    def title(self, node_id: str) -> str:
        """Return the name and id of a project and its domain, or of a domain."""
        if node_id not in self._titles:
            self._titles[node_id] = self._title(node_id)
        return self._titles[node_id]

    def _title(self, node_id: str) -> str:
        project = self._catalog.project(self._ctx, node_id)
        if project is not None:
            domain = self._catalog.domain(self._ctx, project.domain_id)
            domain_name = domain.name if domain is not None else project.domain_id
            return f"project {project.name} ({node_id}) in domain {domain_name}"
        domain = self._catalog.domain(self._ctx, node_id)
        return f"project {node_id}" if domain is None else f"domain {domain.name} ({node_id})"
