"""Compare and copy kinds that have very many records: some at a time, and counted.

What is to be done, or is done, with most of them is the same, and is said once with their number;
what people may want to look at is said of the first ones, too.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from placement_core.context import Context
from placement_core.takeover import origins
from placement_core.takeover.comparison import Comparison, Rules, as_difference, make_gone
from placement_core.takeover.copier import Copier
from placement_core.takeover.records import Item, Outcome, Record, pluralize
from placement_core.takeover.spools import Spool
from placement_core.takeover.targets import SpoolTarget

#: How many records with one outcome are named; the others are counted.
_MOST_NAMED = 100


class Tally:
    """What became of the records of a kind.

    :param unnamed: the outcomes of which records are only counted.
    """

    def __init__(self, unnamed: Collection[Outcome] = ()) -> None:
        self._unnamed = unnamed
        self._named: dict[Outcome, list[Item]] = collections.defaultdict(list)
        #: {(outcome, reason): (the first, how many)}.
        self._counted: dict[tuple[Outcome, str], tuple[Item, int]] = {}

    def add(self, items: Iterable[Item]) -> list[Item]:
        """Add what became of some records; or what another tally returned of some.

        :returns: those that are named; and of those that are counted the first one with each
            outcome and reason, with their number. Another tally that these are added to, one call
            after the other, is the same as this one.
        """
        new_named: list[Item] = []
        new_counted: dict[tuple[Outcome, str], tuple[Item, int]] = {}
        for item in items:
            named = self._named[item.outcome]
            if item.outcome in self._unnamed or item.reason or len(named) == _MOST_NAMED:
                for counted in (self._counted, new_counted):
                    first, count = counted.get((item.outcome, item.reason), (item, 0))
                    counted[item.outcome, item.reason] = first, count + item.count
            else:
                named.append(item)
                new_named.append(item)
        return [*new_named, *(dataclasses.replace(first, count=count)
                              for first, count in new_counted.values())]

    def list_items(self) -> list[Item]:
        """Return an item for each record that is named, and for each number of others."""
        items = [item for named in self._named.values() for item in named]
        for (outcome, reason), (first, count) in self._counted.items():
            if count == 1:
                items.append(first)
                continue
            if reason:
                reason = f"{reason} (the first is {first.id})"
            elif outcome not in self._unnamed:
                reason = f"beyond the {_MOST_NAMED} that are named"
            items.append(Item(first.kind, "", "", outcome, reason, count=count))
        return items


def check(
    ctx: Context, source: str, spool: Spool, target: SpoolTarget,
    refused: Mapping[str, Collection[str]],
) -> list[Item]:
    """Return what a copy would make of the records of a source.

    :param refused: {kind: ids} of what cannot be copied.
    """
    tally = Tally((Outcome.CREATE, Outcome.EQUAL))
    for items in _compare(ctx, spool, target, refused, spool.read_chunks()):
        tally.add(items)
    tally.add(_find_gone(ctx, spool, target, origins.read_pages(ctx, source, spool.kind)))
    return tally.list_items()


def compare_sorted(
    ctx: Context, spool: Spool, target: SpoolTarget, refused: Mapping[str, Collection[str]], *,
    after: str, size: int,
) -> Iterator[list[Item]]:
    """Yield the records of a source as they compare with ours, in the order of their ids.

    :param refused: {kind: ids} of what cannot be copied.
    :param after: the id from which on; "": all.
    :param size: how many at a time.
    """
    for items in _compare(ctx, spool, target, refused, spool.read_sorted(after, size)):
        yield [as_difference(item) for item in items]


def find_extra(ctx: Context, spool: Spool, target: SpoolTarget) -> Iterator[Item]:
    """Yield what only we have."""
    return _find_gone(ctx, spool, target, target.read_id_pages(ctx))


def summarize(items: Iterable[Item]) -> list[Item]:
    """Return what tallies returned of all records of a kind, as people read it."""
    tally = Tally()
    tally.add(items)
    return tally.list_items()


def copy(
    ctx: Context, source: str, spool: Spool, target: SpoolTarget,
    refused: Mapping[str, Collection[str]], *, pace: float | None,
    report: Callable[[str, int, int], None],
) -> list[Item]:
    """Create and update our records; return what became of them."""
    tally = Tally((Outcome.CREATE, Outcome.EQUAL))
    done = 0
    for items in _compare(ctx, spool, target, refused, spool.read_chunks()):
        copier = Copier(ctx, source, pace, {spool.kind: origins.filter_copied(
            ctx, source, spool.kind, [item.id for item in items])})
        tally.add(copier.copy_all(target, items))
        copier.adopt(target, items)
        done += len(items)
        report(pluralize(spool.kind), done, len(spool))
    return tally.list_items()


def list_gone(ctx: Context, source: str, spool: Spool, target: SpoolTarget) -> list[Item]:
    """Return what was copied earlier and is here, but not in the source any more."""
    tally = Tally()
    tally.add(_find_gone(ctx, spool, target, origins.read_pages(ctx, source, spool.kind)))
    return tally.list_items()


def prune(
    ctx: Context, source: str, spool: Spool, target: SpoolTarget, pace: float | None
) -> list[Item]:
    """Delete what was copied earlier and is gone from the source; return what became of it."""
    tally = Tally()
    copier = Copier(ctx, source, pace, {})
    pages = origins.read_pages(ctx, source, spool.kind)
    tally.add(copier.delete(target, item) for item in _find_gone(ctx, spool, target, pages))
    return tally.list_items()


def _compare(
    ctx: Context, spool: Spool, target: SpoolTarget, refused: Mapping[str, Collection[str]],
    chunks: Iterable[Sequence[tuple[Record, str]]],
) -> Iterator[list[Item]]:
    """Yield records of a source as they compare with ours, a chunk at a time."""
    rules = Rules({spool.kind: target.find_obstacle})
    for chunk in chunks:
        ours = target.read_some(ctx, [record.id for record, _ in chunk])
        comparison = Comparison({spool.kind: ours}, rules, refused=refused)
        yield [
            Item(record.kind, record.id, record.name, Outcome.REFUSED, obstacle) if obstacle
            else comparison.compare(record) for record, obstacle in chunk]


def _find_gone(
    ctx: Context, spool: Spool, target: SpoolTarget, pages: Iterable[Sequence[str]]
) -> Iterator[Item]:
    for ids in pages:
        ours = target.read_some(ctx, spool.list_missing(ids))
        for id_ in sorted(ours):
            yield make_gone(spool.kind, id_, ours[id_])
