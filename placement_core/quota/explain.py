"""Why a request does not fit, and what would have to go; or how much more would."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.quota import top_consumers
from placement_core.quota.checks import Answer, CountAnswer
from placement_core.quota.queries import Measure, QuotaQueries
from placement_core.quota.records import Bound, Overrun
from placement_core.quota.top_consumers import Holder

#: So many consumers are looked at to make room; who has more small ones sees that it
#: is not enough.
_MOST = 1000
#: So many are named in a sentence.
_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """A limit that stops a request, and what would make room.

    :ivar holders: of those that the caller may see, the largest, just enough of them.
    :ivar enough: their amounts together are at least what is too many.
    """

    overrun: Overrun
    holders: Sequence[Holder]
    enough: bool
    sentence: str


@dataclasses.dataclass(frozen=True, slots=True)
class More:
    """How much more of a resource would fit beside a request.

    :ivar amount: of the resource; ``UNLIMITED``: nothing binds.
    :ivar bound: what stops anything beyond.
    """

    resource_name: str
    amount: Amount
    bound: Bound | None
    sentence: str


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """An answer, and its reasons.

    :ivar stops: the limits that stop the request, or the last of its items.
    :ivar more: by resource name, where all of it fits.
    """

    answer: Answer
    stops: Sequence[Stop]
    more: Sequence[More]

    @property
    def sentences(self) -> list[str]:
        """Say it for people."""
        return [*(each.sentence for each in self.stops), *(each.sentence for each in self.more)]


def explain(
    ctx: Context, queries: QuotaQueries, answer: Answer, asked: Mapping[str, int],
    *, visible: Collection[str] | None = None,
) -> Explanation:
    """Return the reasons of an answer.

    :param asked: {resource name: amount} of all that was asked for, every item.
    :param visible: the projects whose consumers the caller may see; None: all.
    """
    names = _Names(ctx, queries)
    overruns: Sequence[Overrun] = answer.overruns
    if isinstance(answer, CountAnswer):
        overruns = queries.overruns(answer.measure, asked)
    if overruns:
        return Explanation(answer, [
            _stop(ctx, queries, answer.measure, each, names, visible) for each in overruns], [])
    return Explanation(answer, [], [
        _more(queries, answer.measure, name, amount, names)
        for name, amount in sorted(asked.items())])


def _stop(
    ctx: Context, queries: QuotaQueries, measure: Measure, overrun: Overrun, names: _Names,
    visible: Collection[str] | None,
) -> Stop:
    bounds = measure.subject.bounds
    counted = set(bounds.subtrees[overrun.node_id].project_ids if overrun.scope == "subtree"
                  else [overrun.node_id])
    if visible is not None:
        counted &= set(visible)
    chosen: list[Holder] = []
    room = 0
    if counted:
        for holder in top_consumers.largest(
                ctx, queries.cells, counted,
                queries.decisions.resources.units(overrun.resource_name), most=_MOST,
                user_id=overrun.user_id):
            if room >= overrun.over_by:
                break
            chosen.append(holder)
            room += holder.amount
    enough = room >= overrun.over_by
    return Stop(overrun, chosen, enough, (
        f"{names.whose(overrun)} stops it: limit {amounts.to_wire(overrun.limit)} "
        f"{overrun.resource_name}, {overrun.used} used, {overrun.asked} asked, "
        f"{overrun.over_by} too many; {_remedy(chosen, enough, names)}"))


def _remedy(chosen: Sequence[Holder], enough: bool, names: _Names) -> str:
    if not chosen:
        return "what would have to go cannot be seen from here."
    if not enough:
        return f"deleting all {len(chosen)} consumers that can be seen from here would not do."
    said = ", ".join(
        f"{each.uuid} of {names.title(each.project_id)} ({each.amount})"
        for each in chosen[:_NAMED])
    more = len(chosen) - _NAMED
    return f"deleting {said}{f' and {more} more' if more > 0 else ''} would do."


def _more(
    queries: QuotaQueries, measure: Measure, name: str, asked: int, names: _Names
) -> More:
    subject = measure.subject
    bound = min(measure.bounds[name], key=lambda each: each.free, default=None)
    if bound is None and subject.unregistered([name]):
        return More(name, amounts.UNLIMITED, None, (
            f"No limit on {name} is registered for {queries.describe_source(subject.key)}: "
            "nothing binds the project."))
    if bound is None or bound.limit == amounts.UNLIMITED:
        return More(name, amounts.UNLIMITED, None, f"No limit on {name} binds the project.")
    left = int(bound.free) - asked
    return More(name, left, bound, (
        f"It fits; {left} more {name} would, then {names.whose(bound)} stops it: limit "
        f"{amounts.to_wire(bound.limit)}, {bound.used} used."))


class _Names:
    """What people call projects and domains."""

    def __init__(self, ctx: Context, queries: QuotaQueries) -> None:
        self._ctx = ctx
        self._catalog = queries.catalog
        self._titles: dict[str, str] = {}

    def whose(self, bound: Bound | Overrun) -> str:
        """Return whose limit it is."""
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
            named = domain.name if domain is not None else project.domain_id
            return f"project {project.name} ({node_id}) in domain {named}"
        domain = self._catalog.domain(self._ctx, node_id)
        return f"project {node_id}" if domain is None else f"domain {domain.name} ({node_id})"
