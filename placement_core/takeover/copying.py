"""Bring our records to what a source has, or say what that would change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from placement_core.context import Context
from placement_core.takeover import origins, spooled
from placement_core.takeover.comparison import Obstacles, compare
from placement_core.takeover.copier import Copier
from placement_core.takeover.records import Contents, Fields, Item, Outcome, Record
from placement_core.takeover.spools import Spool
from placement_core.takeover.targets import SpoolTarget, Target

#: Called with (what is copied, how much is done, how much there is).
Report = Callable[[str, int, int], None]


def check(
    ctx: Context, source: str, contents: Contents, targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (), earlier: Sequence[Record] = (),
) -> list[Item]:
    """Return each record of a source, with what a copy would make of it.

    :param earlier: records of other sources, which are to be copied before.
    """
    kinds = [target.kind for target in targets]
    present = {kind: dict(ours) for kind, ours in _read(ctx, targets).items()}
    for record in earlier:
        if record.kind in present:
            present[record.kind].setdefault(record.id, record.fields)
    items = compare(
        _choose(contents, kinds), present, origins.list_copied(ctx, source, kinds),
        _list_obstacles(targets))
    refused = _list_refused(items)
    for spool, target in _match(contents, spool_targets):
        items += spooled.check(ctx, source, spool, target, refused)
    return items


def diff(
    ctx: Context, contents: Contents, targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (),
) -> list[Item]:
    """Return what differs: to be created, to be updated, and what only we have ("gone")."""
    present = _read(ctx, targets)
    items = compare(
        _choose(contents, list(present)), present,
        {kind: records.keys() for kind, records in present.items()}, _list_obstacles(targets))
    refused = _list_refused(items)
    for spool, target in _match(contents, spool_targets):
        items += spooled.diff(ctx, spool, target, refused)
    return [item for item in items
            if item.outcome in (Outcome.CREATE, Outcome.UPDATE, Outcome.GONE)]


def copy(
    ctx: Context, source: str, contents: Contents, targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (), *,
    prune: bool = False, pace: float | None = None, report: Report,
) -> list[Item]:
    """Create and update our records; return what became of each.

    :param prune: delete what was copied earlier and is gone from the source, first of all.
    :param pace: how many records a second at most; None: no bound.
    :returns: as ``check``; what could not be copied is refused, with the reason.
    """
    by_kind: dict[str, list[Item]] = {target.kind: [] for target in targets}
    copied = origins.list_copied(ctx, source, list(by_kind))
    others: list[Item] = []
    for item in compare(_choose(contents, list(by_kind)), _read(ctx, targets), copied,
                        _list_obstacles(targets)):
        by_kind.get(item.kind, others).append(item)
    copier = Copier(ctx, source, pace, copied)
    spools = _match(contents, spool_targets)
    pruned = {
        target.kind: spooled.prune(ctx, source, spool, target, pace) if prune
        else spooled.list_gone(ctx, source, spool, target)
        for spool, target in reversed(spools)}
    done: dict[str, list[Item]] = {}
    if prune:
        for target in reversed(targets):
            items = by_kind[target.kind]
            done[target.kind] = [
                copier.delete(target, item) for item in reversed(items)
                if item.outcome is Outcome.GONE]
            by_kind[target.kind] = [item for item in items if item.outcome is not Outcome.GONE]
    for target in targets:
        items = by_kind[target.kind]
        results = done.setdefault(target.kind, [])
        for number, item in enumerate(copier.copy_all(target, items), 1):
            results.append(item)
            report(f"{target.kind}s", number, len(items))
        copier.adopt(target, items)
    copied_items = [item for target in targets for item in done[target.kind]] + others
    refused = _list_refused(copied_items)
    for spool, spool_target in spools:
        copied_items += spooled.copy(
            ctx, source, spool, spool_target, refused, pace=pace, report=report)
        copied_items += pruned[spool.kind]
    return copied_items


def _choose(contents: Contents, kinds: Collection[str]) -> Contents:
    """Return what is of some kinds; and what is said of a kind as a whole."""
    return Contents([record for record in contents.records if record.kind in kinds],
                    [item for item in contents.left if item.kind in kinds or not item.id])


def _read(ctx: Context, targets: Iterable[Target]) -> dict[str, Mapping[str, Fields]]:
    return {target.kind: target.read(ctx) for target in targets}


def _match(
    contents: Contents, targets: Sequence[SpoolTarget]
) -> list[tuple[Spool, SpoolTarget]]:
    """Return spools with where their records go, in the order of the targets."""
    return [(spool, target) for target in targets for spool in contents.spools
            if spool.kind == target.kind]


def _list_obstacles(targets: Iterable[Target]) -> Obstacles:
    return {target.kind: target.find_obstacle for target in targets}


def _list_refused(items: Iterable[Item]) -> Mapping[str, Collection[str]]:
    """Return the ids of what is refused and not here: {kind: ids}."""
    refused: dict[str, set[str]] = {}
    for item in items:
        if item.outcome is Outcome.REFUSED and not item.differences:
            refused.setdefault(item.kind, set()).add(item.id)
    return refused


def count_outcomes(items: Iterable[Item]) -> Mapping[str, Mapping[Outcome, int]]:
    """Return how many records of each kind have which outcome, in the order of the items."""
    counts: dict[str, dict[Outcome, int]] = {}
    for item in items:
        of_kind = counts.setdefault(item.kind, dict.fromkeys(Outcome, 0))
        of_kind[item.outcome] += item.count
    return counts
