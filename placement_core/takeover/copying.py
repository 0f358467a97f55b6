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
from placement_core.takeover.comparison import compare, compare_records, list_gone
from placement_core.takeover.records import Contents, Fields, Item, Outcome, pluralize
from placement_core.takeover.sources import Source
from placement_core.takeover.targets import Target

#: Called with (what is copied, how much is done, how much there is).
Report = Callable[[str, int, int], None]

def check(
    ctx: Context, source: Source, contents: Contents, targets: Sequence[Target],
    earlier: Sequence[tuple[Source, Contents]] = (),
) -> list[Item]:
    """Return each record of a source, with what a copy would make of it.

    :param earlier: other sources, which are to be copied before.
    """
    kinds = [target.kind for target in targets]
    present, owners = _look_at_ours(ctx, source, targets, earlier)
    return compare(_choose(contents, kinds), present,
                   origins.list_copied(ctx, source.origin, kinds), owners)


def diff(
    ctx: Context, read: Sequence[tuple[Source, Contents]], targets: Sequence[Target]
) -> list[Item]:
    """Return what differs: to be created, to be updated, and what only we have ("gone").

    What was copied from sources of the same services that are not compared is left out.
    """
    present = _read(ctx, targets)
    items: list[Item] = []
    ours = {kind: set(records) for kind, records in present.items()}
    read_origins = {source.origin for source, _ in read}
    for place, (source, contents) in enumerate(read):
        owners = _list_owners(ctx, source, read[:place])
        items += compare_records(_choose(contents, present), present, owners)
        for kind, of_kind in owners.items():
            ours[kind] -= {id_ for id_, origin in of_kind.items() if origin not in read_origins}
    items += list_gone(items, present, ours)
    return [item for item in items
            if item.outcome in (Outcome.CREATE, Outcome.UPDATE, Outcome.GONE)]


def _look_at_ours(
    ctx: Context, source: Source, targets: Sequence[Target],
    earlier: Sequence[tuple[Source, Contents]],
) -> tuple[dict[str, dict[str, Fields]], dict[str, dict[str, str]]]:
    """Return what will be here when a source is copied, and from which sources it is."""
    present = {kind: dict(ours) for kind, ours in _read(ctx, targets).items()}
    for _, contents in earlier:
        for record in contents.records:
            if record.kind in present:
                present[record.kind].setdefault(record.id, record.fields)
    return present, _list_owners(ctx, source, earlier)


def _list_owners(
    ctx: Context, source: Source, earlier: Sequence[tuple[Source, Contents]]
) -> dict[str, dict[str, str]]:
    """Return what belongs to other sources of which each has its own records."""
    owners = origins.list_owners(ctx, source.origin, source.own_kinds)
    for other, contents in earlier:
        if other.origin != source.origin:
            for record in contents.records:
                if record.kind in owners and record.kind in other.own_kinds:
                    owners[record.kind].setdefault(record.id, other.origin)
    return owners


def _choose(contents: Contents, kinds: Collection[str]) -> Contents:
    return Contents([record for record in contents.records if record.kind in kinds],
                    [item for item in contents.left if item.kind in kinds])


def _read(ctx: Context, targets: Iterable[Target]) -> dict[str, Mapping[str, Fields]]:
    return {target.kind: target.read(ctx) for target in targets}


def copy(
    ctx: Context, source: Source, contents: Contents, targets: Sequence[Target], *,
    prune: bool = False, pace: float | None = None, report: Report,
) -> list[Item]:
    """Create and update our records; return what became of each.

    :param prune: delete what was copied earlier and is gone from the source: first of all, and
        what could not be deleted then, because others depended on it, at the end.
    :param pace: how many records a second at most; None: no bound.
    :returns: as ``check``; what could not be copied is refused, with the reason.
    """
    kinds = [target.kind for target in targets]
    contents = _choose(contents, kinds)
    copied = origins.list_copied(ctx, source.origin, kinds)
    owners = origins.list_owners(ctx, source.origin, source.own_kinds)
    copier = _Copier(ctx, source.origin, pace, copied)
    done: dict[str, list[Item]] = {kind: [] for kind in kinds}
    items = compare(contents, _read(ctx, targets), copied, owners)
    if prune and copier.prune(targets, items, done):
        # What is deleted may have been in the way of others.
        items = compare(contents, _read(ctx, targets), copied, owners)
    by_kind: dict[str, list[Item]] = {kind: [] for kind in kinds}
    for item in items:
        if not (prune and item.outcome is Outcome.GONE):
            by_kind[item.kind].append(item)
    for target in targets:
        of_kind = by_kind[target.kind]
        results = done[target.kind]
        for number, item in enumerate(copier.copy_all(target, of_kind), 1):
            results.append(item)
            report(pluralize(target.kind), number, len(of_kind))
        copier.adopt(target, of_kind)
    if prune:
        copier.prune(targets, [item for item in items if item.outcome is Outcome.GONE], done,
                     final=True)
    return [item for kind in kinds for item in done[kind]]


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

    def prune(
        self, targets: Sequence[Target], items: Sequence[Item], done: Mapping[str, list[Item]],
        *, final: bool = False,
    ) -> int:
        """Delete what is gone; return how much was deleted.

        :param done: is told what was deleted and, if it is ``final``, what could not be.
        """
        deleted = 0
        for target in reversed(targets):
            for item in reversed(items):
                if item.kind != target.kind or item.outcome is not Outcome.GONE:
                    continue
                result = self._delete(target, item)
                deleted += result.outcome is Outcome.PRUNED
                if final or result.outcome is Outcome.PRUNED:
                    done[target.kind].append(result)
        return deleted

    def copy_all(self, target: Target, items: Iterable[Item]) -> Iterator[Item]:
        """Create and update records of a kind; yield what became of each.

        Those that are refused together with others are tried once more when these are done.
        """
        batch: list[Item] = []
        refused: list[Item] = []
        for item in items:
            if item.outcome is Outcome.CREATE or (
                    target.replaces and item.outcome is Outcome.UPDATE):
                batch.append(item)
                if len(batch) == target.batch:
                    yield from self._create(target, batch, refused)
                    batch = []
            elif item.outcome is Outcome.UPDATE:
                yield self._update(target, item)
            else:
                yield item
        yield from self._create(target, batch, refused)
        for item in refused:
            yield from self._create(target, [item])

    def adopt(self, target: Target, items: Iterable[Item]) -> None:
        """Remember the source of what was here before it was copied."""
        present = [item for item in items if item.outcome in (Outcome.EQUAL, Outcome.UPDATE)]
        if any(item.id not in self._copied[target.kind] for item in present):
            self._write(target, present, lambda: None)

    def _create(
        self, target: Target, items: Sequence[Item], refused: list[Item] | None = None
    ) -> list[Item]:
        """Create records together, or else one by one, so that one that is refused is alone.

        :param refused: gets those of several that may be accepted later.
        """
        if not items:
            return []
        try:
            self._write(target, items, lambda: target.create(
                self._ctx, [item.record for item in items if item.record is not None]))
        except errors.Unavailable:
            raise
        except errors.Error as error:
            if len(items) > 1:
                return [result for item in items
                        for result in self._create(target, [item], refused)]
            if refused is not None and target.replaces:
                refused.append(items[0])
                return []
            return [_refuse(items[0], error)]
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

    def _delete(self, target: Target, item: Item) -> Item:
        """Delete a record that is gone from the source, unless another source has it."""
        @db.retry_writes
        def delete(ctx: Context) -> None:
            with db.write(ctx) as session:
                if not origins.is_shared(session, self._source, target.kind, item.id):
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
