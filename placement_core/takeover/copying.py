"""Bring our records to what a source has, in batches.

Each batch is a transaction, which also remembers where its records came from. So a copy can be
killed at any time: the next one compares again, and goes on with what is not equal.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from placement_core import db, errors
from placement_core.context import Context
from placement_core.takeover import origins
from placement_core.takeover.comparison import FindObstacle, compare
from placement_core.takeover.records import (
    Contents,
    Fields,
    Item,
    Outcome,
    Record,
    name_many,
)
from placement_core.takeover.targets import Target

#: Called with (what is copied, how much is done, how much there is).
Report = Callable[[str, int, int], None]

#: How many records a transaction creates.
_BATCH = 100


def check(
    ctx: Context, source: str, contents: Contents, targets: Sequence[Target],
    earlier: Sequence[Record] = (),
) -> list[Item]:
    """Return each record of a source, with what a copy would make of it.

    :param earlier: records of other sources, which are to be copied before.
    """
    kinds = [target.kind for target in targets]
    present = {kind: dict(ours) for kind, ours in _read(ctx, targets).items()}
    for record in earlier:
        if record.kind in present:
            present[record.kind].setdefault(record.id, record.fields)
    return compare(
        _choose(contents, kinds), present, origins.list_copied(ctx, source, kinds),
        _find_obstacles(targets))


def diff(ctx: Context, contents: Contents, targets: Sequence[Target]) -> list[Item]:
    """Return what differs: to be created, to be updated, and what only we have ("gone")."""
    present = _read(ctx, targets)
    items = compare(
        _choose(contents, list(present)), present,
        {kind: records.keys() for kind, records in present.items()})
    return [item for item in items
            if item.outcome in (Outcome.CREATE, Outcome.UPDATE, Outcome.GONE)]


def _find_obstacles(targets: Iterable[Target]) -> dict[str, FindObstacle]:
    return {target.kind: target.find_obstacle for target in targets}


def _choose(contents: Contents, kinds: Collection[str]) -> Contents:
    return Contents([record for record in contents.records if record.kind in kinds],
                    [item for item in contents.left if item.kind in kinds])


def _read(ctx: Context, targets: Iterable[Target]) -> dict[str, Mapping[str, Fields]]:
    return {target.kind: target.read(ctx) for target in targets}


def copy(
    ctx: Context, source: str, contents: Contents, targets: Sequence[Target], *,
    prune: bool = False, pace: float | None = None, report: Report,
) -> list[Item]:
    """Create and update our records; return what became of each.

    :param prune: delete what was copied earlier and is gone from the source, first of all.
    :param pace: how many records a second at most; None: no bound.
    :returns: as ``check``; what could not be copied is refused, with the reason.
    """
    by_kind: dict[str, list[Item]] = {target.kind: [] for target in targets}
    copied = origins.list_copied(ctx, source, list(by_kind))
    for item in compare(_choose(contents, list(by_kind)), _read(ctx, targets), copied,
                        _find_obstacles(targets)):
        by_kind[item.kind].append(item)
    copier = _Copier(ctx, source, pace, copied)
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
            report(name_many(target.kind), number, len(items))
        copier.adopt(target, items)
    return [item for target in targets for item in done[target.kind]]


class _Copier:
    """Writes records of a source, no faster than told."""

    def __init__(
        self, ctx: Context, source: str, pace: float | None,
        copied: Mapping[str, Collection[str]],
    ) -> None:
        self._ctx = ctx
        self._source = source
        self._copied = copied
        self._pause_seconds = 0.0 if pace is None else 1 / pace

    def copy_all(self, target: Target, items: Iterable[Item]) -> Iterator[Item]:
        """Create and update records of a kind; yield what became of each."""
        batch: list[Item] = []
        for item in items:
            if item.outcome is Outcome.CREATE:
                batch.append(item)
                if len(batch) == _BATCH:
                    yield from self._create(target, batch)
                    batch = []
            elif item.outcome is Outcome.UPDATE:
                yield self._update(target, item)
            else:
                yield item
        yield from self._create(target, batch)

    def adopt(self, target: Target, items: Iterable[Item]) -> None:
        """Remember the source of what was here before it was copied."""
        present = [item for item in items if item.outcome in (Outcome.EQUAL, Outcome.UPDATE)]
        if any(item.id not in self._copied[target.kind] for item in present):
            self._write(target, present, lambda: None)

    def _create(self, target: Target, items: Sequence[Item]) -> list[Item]:
        """Create records together, or else one by one, so that one that is refused is alone."""
        if not items:
            return []
        try:
            self._write(target, items, lambda: target.create(
                self._ctx, [item.record for item in items if item.record is not None]))
        except errors.Unavailable:
            raise
        except errors.Error as error:
            if len(items) == 1:
                return [_refuse(items[0], error)]
            return [result for item in items for result in self._create(target, [item])]
        return list(items)

    def _update(self, target: Target, item: Item) -> Item:
        changes = {name: value for name, (_, value) in item.differences.items()}
        try:
            self._write(target, [], lambda: target.update(self._ctx, item.id, changes))
        except errors.Unavailable:
            raise
        except errors.Error as error:
            return _refuse(item, error)
        return item

    def delete(self, target: Target, item: Item) -> Item:
        """Delete a record that is gone from the source."""
        @db.retry_writes
        def delete(ctx: Context) -> None:
            with db.write(ctx) as session:
                target.delete(ctx, item.id)
                origins.forget(session, self._source, target.kind, item.id)

        try:
            delete(self._ctx)
        except errors.Unavailable:
            raise
        except errors.Error as error:
            return _refuse(item, error)
        return dataclasses.replace(item, outcome=Outcome.PRUNED)

    def _write(
        self, target: Target, items: Sequence[Item], work: Callable[[], None]
    ) -> None:
        @db.retry_writes
        def write(ctx: Context) -> None:
            with db.write(ctx) as session:
                work()
                origins.remember(session, self._source, target.kind, [
                    item.id for item in items if item.id not in self._copied[target.kind]])

        write(self._ctx)
        time.sleep(self._pause_seconds * max(len(items), 1))


def _refuse(item: Item, error: errors.Error) -> Item:
    return dataclasses.replace(item, outcome=Outcome.REFUSED, reason=str(error))


def count_outcomes(items: Iterable[Item]) -> Mapping[str, Mapping[Outcome, int]]:
    """Return how many records of each kind have which outcome, in the order of the items."""
    counts: dict[str, dict[Outcome, int]] = {}
    for item in items:
        of_kind = counts.setdefault(item.kind, dict.fromkeys(Outcome, 0))
        of_kind[item.outcome] += 1
    return counts
