"""Bring our records to what a source has, or say what that would change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from placement_core.context import Context
from placement_core.takeover import origins, spooled
from placement_core.takeover.comparison import (
    Rules,
    compare,
    find_refused_reference,
    list_refused,
)
from placement_core.takeover.copier import Copier
from placement_core.takeover.records import (
    Contents,
    Fields,
    Item,
    Outcome,
    Record,
    pluralize,
)
from placement_core.takeover.sources import Source
from placement_core.takeover.spools import Spool
from placement_core.takeover.targets import SpoolTarget, Target

#: Called with (what is copied, how much is done, how much there is).
Report = Callable[[str, int, int], None]

#: Sources, with what was read of them.
Read = Sequence[tuple[Source, Contents]]


def check(
    ctx: Context, source: Source, contents: Contents, targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (), earlier: Read = (),
) -> list[Item]:
    """Return each record of a source, with what a copy would make of it.

    :param earlier: other sources, which are to be copied before.
    """
    kinds = [target.kind for target in targets]
    present = {kind: dict(ours) for kind, ours in _read(ctx, targets).items()}
    for _, before in earlier:
        for record in before.records:
            if record.kind in present:
                present[record.kind].setdefault(record.id, record.fields)
    items = compare(
        _choose(contents, kinds), present, origins.list_copied(ctx, source.origin, kinds),
        make_rules(ctx, targets, list_owners(ctx, source.origin, source.own_kinds, [
            (other.origin, other.own_kinds, before) for other, before in earlier])))
    items = _refuse_clashes(ctx, targets, items, [
        record for _, before in earlier for record in before.records])
    refused = list_refused(items)
    for spool, target in match_spools(contents, spool_targets):
        items += spooled.check(ctx, source.origin, spool, target, refused)
    return items


def _refuse_clashes(
    ctx: Context, targets: Sequence[Target], items: Sequence[Item], earlier: Sequence[Record]
) -> list[Item]:
    """Refuse what cannot be ours beside all others that will be, as a copy would.

    :param earlier: what is to be copied before.
    """
    planned = [*earlier, *(
        item.record for item in items if item.record is not None
        and item.outcome in (Outcome.CREATE, Outcome.UPDATE, Outcome.EQUAL))]
    reasons = {}
    for target in targets:
        new = {item.id for item in items if item.kind == target.kind
               and item.outcome in (Outcome.CREATE, Outcome.UPDATE)}
        reasons.update({(target.kind, id_): reason for id_, reason in target.find_clashes(
            ctx, planned, new).items()})
    return [
        dataclasses.replace(item, outcome=Outcome.REFUSED, reason=reasons[item.kind, item.id])
        if (item.kind, item.id) in reasons else item for item in items]


def copy(
    ctx: Context, source: Source, contents: Contents, targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (), *,
    prune: bool = False, pace: float | None = None, report: Report,
) -> list[Item]:
    """Create and update our records; return what became of each.

    :param prune: delete what was copied earlier and is gone from the source: first of all, and
        what could not be deleted then, because others depended on it, at the end.
    :param pace: how many records a second at most; None: no bound.
    :returns: as ``check``; what could not be copied is refused, with the reason.
    """
    kinds = [target.kind for target in targets]
    contents_here = _choose(contents, kinds)
    copied = origins.list_copied(ctx, source.origin, kinds)
    rules = make_rules(ctx, targets, list_owners(ctx, source.origin, source.own_kinds, ()))
    copier = Copier(ctx, source.origin, pace, copied)
    spools = match_spools(contents, spool_targets)
    gone_of_spools = {
        target.kind: spooled.prune(ctx, source.origin, spool, target, pace) if prune
        else spooled.list_gone(ctx, source.origin, spool, target)
        for spool, target in reversed(spools)}
    done: dict[str, list[Item]] = {kind: [] for kind in kinds}
    items = compare(contents_here, _read(ctx, targets), copied, rules)
    if prune and copier.prune(targets, items, done):
        # What is deleted may have been in the way of others.
        items = compare(contents_here, _read(ctx, targets), copied, rules)
    by_kind: dict[str, list[Item]] = {kind: [] for kind in kinds}
    others: list[Item] = []
    for item in items:
        if not (prune and item.outcome is Outcome.GONE):
            by_kind.get(item.kind, others).append(item)
    for target in targets:
        of_kind = _refuse_dependents(by_kind[target.kind], list_refused(
            item for results in done.values() for item in results))
        results = done[target.kind]
        for number, item in enumerate(copier.copy_all(target, of_kind), 1):
            results.append(item)
            report(pluralize(target.kind), number, len(of_kind))
        copier.adopt(target, of_kind)
    if prune:
        copier.prune(targets, [item for item in items if item.outcome is Outcome.GONE], done,
                     final=True)
    results = [item for kind in kinds for item in done[kind]] + others
    refused = list_refused(results)
    for spool, spool_target in spools:
        results += spooled.copy(
            ctx, source.origin, spool, spool_target, refused, pace=pace, report=report)
        results += gone_of_spools[spool.kind]
    return results


def _refuse_dependents(
    items: Sequence[Item], refused: Mapping[str, Collection[str]]
) -> list[Item]:
    """Refuse what needs a record that was refused when it was written.

    :param refused: {kind: ids}.
    """
    return [
        dataclasses.replace(item, outcome=Outcome.REFUSED, reason=reason, record=None)
        if item.record is not None and item.outcome in (Outcome.CREATE, Outcome.UPDATE)
        and (reason := find_refused_reference(item.record, refused)) else item
        for item in items]


def list_owners(
    ctx: Context, origin: str, own_kinds: Sequence[str],
    earlier: Iterable[tuple[str, Collection[str], Contents]],
) -> dict[str, dict[str, str]]:
    """Return what belongs to other sources of which each has its own records.

    :param own_kinds: the kinds of which no other source may have the same record.
    :param earlier: (origin, own kinds, contents) of those that come before.
    """
    owners = origins.list_owners(ctx, origin, own_kinds)
    for other, kinds, contents in earlier:
        if other != origin:
            for record in contents.records:
                if record.kind in owners and record.kind in kinds:
                    owners[record.kind].setdefault(record.id, other)
    return owners


def make_rules(
    ctx: Context, targets: Iterable[Target | SpoolTarget],
    owners: Mapping[str, Mapping[str, str]],
) -> Rules:
    """Return the rules of comparing with what is where records go."""
    targets = list(targets)
    return Rules(
        {target.kind: target.find_obstacle for target in targets},
        {target.kind: target.find_change_obstacle for target in targets}, owners,
        pads_texts=ctx.database.dialect == "mysql")


def match_spools(
    contents: Contents, targets: Sequence[SpoolTarget]
) -> list[tuple[Spool, SpoolTarget]]:
    """Return spools with where their records go, in the order of the targets."""
    return [(spool, target) for target in targets for spool in contents.spools
            if spool.kind == target.kind]


def _choose(contents: Contents, kinds: Collection[str]) -> Contents:
    """Return what is of some kinds; and what is said of a kind as a whole."""
    return Contents([record for record in contents.records if record.kind in kinds],
                    [item for item in contents.left if item.kind in kinds or not item.id])


def _read(ctx: Context, targets: Iterable[Target]) -> dict[str, Mapping[str, Fields]]:
    return {target.kind: target.read(ctx) for target in targets}


def count_outcomes(items: Iterable[Item]) -> Mapping[str, Mapping[Outcome, int]]:
    """Return how many records of each kind have which outcome, in the order of the items."""
    counts: dict[str, dict[Outcome, int]] = {}
    for item in items:
        of_kind = counts.setdefault(item.kind, dict.fromkeys(Outcome, 0))
        of_kind[item.outcome] += item.count
    return counts
