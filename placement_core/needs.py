"""What somebody needs, and three answers: is there room, may they have it, and when does it fit.

Each answer is read by itself, since who may ask one question may not ask another.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from placement_core import amounts, errors
from placement_core.context import Context
from placement_core.placement.candidates import explain as candidates, search
from placement_core.placement.candidates.explain import TreesExplanation
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import copies, fits
from placement_core.placement.room.fits import Fits
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.quota import checks, explain
from placement_core.quota.checks import CountCheckResult
from placement_core.quota.explain import QuotaExplanation
from placement_core.quota.records import LimitUsage
from placement_core.reservations.errors import PolicyRefused
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.reservations.scheduling.availability import FittingWindow
from placement_core.services import Services

#: How many hosts an answer lists.
_HOSTS = 10
#: How many traits are left out, one at a time, to find what would help.
_MOST_TRAITS = 10
#: Of how many classes smaller amounts are tried, and how many of each: as many as find one of a
#: million exactly.
_MOST_CLASSES, _MOST_AMOUNTS = 5, 21
_ANY = TraitFilter()
_SLOTS = "virtual:instance"
#: The fields of a reservation of slots, and whether it must have them.
_SLOT_FIELDS = {"VCPU": ("vcpus", True), "MEMORY_MB": ("memory_mb", True),
                "DISK_GB": ("disk_gb", False)}
#: A lease that begins so soon begins now.
_NOW = datetime.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
    """Several equal items, such as servers, for some time.

    :ivar count: how many items, 1 or more.
    :ivar resources: {resource class: amount of one item}, at least one.
    :ivar start_at: aware UTC; None: now.
    :ivar seconds: for how long; None: without an end.
    """

    count: int
    resources: Mapping[str, int]
    traits: TraitFilter = _ANY
    start_at: datetime.datetime | None = None
    seconds: int | None = None

    def as_request(self) -> CandidatesRequest:
        """Return the request for candidates of one item."""
        return CandidatesRequest((RequestGroup("", self.resources, self.traits),))

    def as_reservation(self) -> NewReservation:
        """Return the reservation of slots for all items; see ``find_obstacle``."""
        return NewReservation(_SLOTS, {
            **{field: self.resources.get(name, 0) for name, (field, _) in _SLOT_FIELDS.items()},
            "amount": self.count, "affinity": None})


class Verdict(enum.Enum):
    """An answer in a word."""

    YES = "yes"
    NO = "no"
    LATER = "later"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """What would help: without ``leaving_out``, ``fits`` items fit."""

    leaving_out: str
    fits: int


@dataclasses.dataclass(frozen=True, slots=True)
class SmallerAmount:
    """What would help: with ``amount`` of a class in each, all items fit."""

    resource_class: str
    amount: int


@dataclasses.dataclass(frozen=True, slots=True)
class RoomAnswer:
    """Whether there is room now.

    :ivar funnel: how many hosts are left by each part of the need.
    :ivar remedies: what would help if there is no room, the most helpful first.
    :ivar smaller_amounts: what would help, too: of each class the largest amount, if a smaller
        one of it alone is enough.
    """

    verdict: Verdict
    fits: Fits
    funnel: TreesExplanation
    remedies: Sequence[Remedy]
    smaller_amounts: Sequence[SmallerAmount]


@dataclasses.dataclass(frozen=True, slots=True)
class BindingLimit:
    """A limit that binds the need.

    :ivar asked: what all items need of it.
    :ivar items: how many items fit into it.
    :ivar binds_first: no other limit has room for fewer items.
    """

    usage: LimitUsage
    asked: int
    items: int
    binds_first: bool


@dataclasses.dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """Whether a project may have it.

    :ivar result: has the number of items that it may have.
    :ivar explanation: what stops it, or how much more it might have.
    :ivar limits: of each resource, the project's own first, then upwards.
    :ivar deltas: {resource name: what all items need}.
    :ivar names: {id: name} of the projects and domains whose limits or consumers the answer has;
        without those that the catalog does not know.
    """

    verdict: Verdict
    result: CountCheckResult
    explanation: QuotaExplanation
    limits: Sequence[BindingLimit]
    deltas: Mapping[str, int]
    names: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class TimeAnswer:
    """When a lease of it fits into the freepool, and whether the rules of the site allow it.

    :ivar fit: None: at no time that was tried, or not known.
    :ivar obstacle: why it is not known; None: it is.
    :ivar refusal: why a rule of the site refuses a lease at that time; None: none does.
    :ivar unchecked: why no rule was checked; None: they were.
    :ivar leaves_out_external: whether the external service of the site judges leases, too: it was
        not asked.
    """

    verdict: Verdict
    fit: FittingWindow | None
    obstacle: str | None = None
    refusal: str | None = None
    unchecked: str | None = None
    leaves_out_external: bool = False


def find_room(parts: Services, ctx: Context, need: Need) -> RoomAnswer:
    """Say whether there is room for a need now, and what would help if there is none.

    :raises errors.UnknownRequestedClass, errors.UnknownRequestedTraits: there is no such name.
    """
    snapshot, request = parts.index.snapshot(ctx), need.as_request()
    excluding = parts.host_access is not None
    fitting = fits.find(snapshot, request, most_hosts=_HOSTS, exclude_reserved=excluding)
    verdict = Verdict.YES if fitting.fits >= need.count else (
        Verdict.NO if fitting.exact else Verdict.UNKNOWN)
    remedies: list[Remedy] = []
    if verdict is not Verdict.YES:
        remedies = [
            Remedy(name, fits.find(
                snapshot, dataclasses.replace(need, traits=traits).as_request(), most_hosts=0,
                exclude_reserved=excluding).fits)
            for name, traits in _leave_out_traits(need.traits)]
    return RoomAnswer(
        verdict, fitting,
        candidates.explain_trees(snapshot, request, exclude_reserved=excluding),
        sorted((remedy for remedy in remedies if remedy.fits > fitting.fits),
               key=lambda remedy: (-remedy.fits, remedy.leaving_out)),
        # What is too hard to count once is not counted again and again.
        _find_smaller_amounts(snapshot, need, excluding) if verdict is Verdict.NO else [])


def check_permission(
    parts: Services, ctx: Context, need: Need, project_id: str, *,
    visible: Collection[str] | None = None,
) -> PermissionAnswer:
    """Say whether the limits let a project have what it needs.

    :param visible: the projects whose consumers the caller may see; None: all.
    :raises errors.Invalid, errors.Unavailable: as ``checks.check_many``.
    """
    per_item = _count_items(parts, ctx, need, project_id)
    result = checks.check_many(
        ctx, parts.quota, project_id=project_id, per_item=per_item, min_count=need.count,
        max_count=need.count)
    deltas = {name: amount * need.count for name, amount in per_item.items()}
    explanation = explain.explain(ctx, parts.quota, result, deltas, visible=visible)
    limits = _list_limits(result, per_item, deltas)
    return PermissionAnswer(
        Verdict.YES if result.fits else Verdict.NO, result, explanation, limits, deltas,
        _find_names(parts, ctx, _list_nodes(explanation, limits)))


def find_time(
    parts: Services, ctx: Context, need: Need, project_id: str, *, unchecked: str | None = None,
) -> TimeAnswer:
    """Say when a lease of a need fits into the freepool, its traits left aside.

    The rules of the site are checked for a lease of the project at that time, as for one that is
    created. Only its external service is not asked: who looks at the answer reads it again and
    again.

    :param unchecked: why the rules are not to be checked; None: they are.
    :raises errors.Invalid: no lease can be so long or so large.
    :raises errors.Unavailable: limits or the catalog are not known now, or bookings changed.
    """
    obstacle = _find_obstacle(parts, need)
    if obstacle is not None:
        return TimeAnswer(Verdict.UNKNOWN, None, obstacle)
    assert need.seconds is not None
    fit = parts.leases.next_fit(
        ctx, project_id, [need.as_reservation()], since=need.start_at, seconds=need.seconds)
    if fit is None:
        return TimeAnswer(Verdict.NO, None)
    if unchecked is None:
        refusal = _find_refusal(parts, ctx, need, project_id, fit)
        if refusal is not None:
            return TimeAnswer(Verdict.NO, fit, refusal=refusal)
    start_at = need.start_at or datetime.datetime.now(datetime.UTC)
    return TimeAnswer(
        Verdict.YES if fit.window.start_at <= start_at + _NOW else Verdict.LATER, fit,
        unchecked=unchecked, leaves_out_external=parts.leases.asks_external_service)


def _find_refusal(
    parts: Services, ctx: Context, need: Need, project_id: str, fit: FittingWindow
) -> str | None:
    """Return why a rule of the site refuses a lease in a window that fits; None: none does."""
    start_at = fit.window.start_at
    is_now = start_at <= datetime.datetime.now(datetime.UTC)
    try:
        parts.leases.what_if(ctx, NewLease(
            "what if", project_id, ctx.identity.user_id or "", None if is_now else start_at,
            fit.window.end_at, [need.as_reservation()]), ask_external=False)
    except PolicyRefused as refusal:
        return str(refusal)
    except DoesNotFit:
        # Somebody else has just got it.
        raise errors.Unavailable("The leases of others changed while this was read.") from None
    return None


def _find_smaller_amounts(
    snapshot: CapacitySnapshot, need: Need, excluding: bool
) -> list[SmallerAmount]:
    """Return with how much less of one class, and of the others as asked, all items fit."""
    smaller_amounts = []
    for name in list(need.resources)[:_MOST_CLASSES]:
        amount = _find_largest_amount(snapshot, need, name, excluding)
        if amount is not None:
            smaller_amounts.append(SmallerAmount(name, amount))
    return smaller_amounts


def _find_largest_amount(
    snapshot: CapacitySnapshot, need: Need, name: str, excluding: bool
) -> int | None:
    """Return the largest amount of a class, less than asked, with which all items fit.

    It is looked for by halves, in the smallest step that a host has; after ``_MOST_AMOUNTS`` tries
    it is the largest that was found to fit.

    :returns: None: not even the smallest amount fits.
    """
    column = snapshot.column(snapshot.names.class_ids[name])
    if not len(column.rows):
        return None
    step = int(column.step_size.min())
    largest_piece = max(0, int(np.minimum(column.free, column.max_unit).max()))
    # In steps: ``low`` fits, ``high`` does not, or is not smaller than what is asked.
    low = max(1, -(-int(column.min_unit.min()) // step))
    high = min(need.resources[name] - 1, largest_piece) // step + 1
    if low >= high or not _fits_with(snapshot, need, name, low * step, excluding):
        return None
    for _ in range(_MOST_AMOUNTS - 1):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        if _fits_with(snapshot, need, name, middle * step, excluding):
            low = middle
        else:
            high = middle
    return low * step


def _fits_with(
    snapshot: CapacitySnapshot, need: Need, name: str, amount: int, excluding: bool
) -> bool:
    """Say whether all items fit if each has another amount of one class."""
    request = dataclasses.replace(
        need, resources={**need.resources, name: amount}).as_request()
    choices = search.choose(snapshot, request, exclude_reserved=excluding)
    return copies.count(snapshot, request, choices).total >= need.count


def _leave_out_traits(traits: TraitFilter) -> Iterator[tuple[str, TraitFilter]]:
    """Yield the conditions on traits one at a time, each with the others."""
    for names in traits.required[:_MOST_TRAITS]:
        others = tuple(other for other in traits.required if other != names)
        yield " or ".join(sorted(names)), dataclasses.replace(traits, required=others)
    for name in sorted(traits.forbidden)[:_MOST_TRAITS]:
        yield f"!{name}", dataclasses.replace(traits, forbidden=traits.forbidden - {name})


def _count_items(
    parts: Services, ctx: Context, need: Need, project_id: str
) -> dict[str, int]:
    """Return {resource name: what one item counts}, of the names that have limits."""
    quota = parts.quota
    units = {**need.resources, CONSUMERS: 1, INSTANCES: 1}
    names = quota.decisions.limit_names(
        quota.subject(ctx, project_id).project_limits, units)
    amounts_of = {
        name: sum(units.get(unit, 0) for unit in quota.decisions.resources.units(name))
        for name in names if quota.is_countable(name)}
    return {name: amount for name, amount in amounts_of.items() if amount}


def _list_limits(
    result: CountCheckResult, per_item: Mapping[str, int], deltas: Mapping[str, int],
) -> list[BindingLimit]:
    usages = [usage for name in sorted(deltas) for usage in result.measure.limit_usages[name]
              if usage.limit != amounts.UNLIMITED]
    items = [max(0, int(usage.free) // per_item[usage.resource_name]) for usage in usages]
    fewest = min(items, default=0)
    return [
        BindingLimit(usage, deltas[usage.resource_name], fitting, fitting == fewest)
        for usage, fitting in zip(usages, items, strict=True)]


def _list_nodes(explanation: QuotaExplanation, limits: Sequence[BindingLimit]) -> set[str]:
    """Return the ids of the projects and domains whose limits or consumers an answer has."""
    stops = explanation.stops
    return {
        *(limit.usage.node_id for limit in limits),
        *(stop.exceeded_limit.node_id for stop in stops),
        *(holder.project_id for stop in stops for holder in stop.named_holders)}


def _find_names(parts: Services, ctx: Context, node_ids: Collection[str]) -> dict[str, str]:
    nodes = {id_: parts.catalog.project(ctx, id_) or parts.catalog.domain(ctx, id_)
             for id_ in node_ids}
    return {id_: node.name for id_, node in nodes.items() if node is not None}


def _find_obstacle(parts: Services, need: Need) -> str | None:
    """Return why no lease can be asked for; None: one can."""
    if _SLOTS not in parts.reservation_plugins:
        return "This service leases no slots for servers."
    if need.seconds is None:
        return "A lease has an end: say for how long it is needed."
    lacking = [name for name, (_, required) in _SLOT_FIELDS.items()
               if required and name not in need.resources]
    if lacking:
        return f"A lease needs {' and '.join(lacking)}, too."
    others = sorted(need.resources.keys() - _SLOT_FIELDS.keys())
    if others:
        return f"Leases promise VCPU, MEMORY_MB and DISK_GB, not {', '.join(others)}."
    return None
