"""Writes records of a source, in batches.

Each batch is a transaction, which also remembers where its records came from. So a copy can be
killed at any time: the next one compares again, and goes on with what is not equal.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.context import Context
from placement_core.takeover import origins
from placement_core.takeover.comparison import Comparison
from placement_core.takeover.errors import KeyTaken
from placement_core.takeover.records import Item, Outcome
from placement_core.takeover.targets import Writer


class Copier:
    """Writes records of a source, no faster than told."""

    def __init__(
        self, ctx: Context, source: str, pace: float | None,
        copied: Mapping[str, Collection[str]],
    ) -> None:
        """Initialize it.

        :param pace: how many records a second at most; None: no bound.
        :param copied: what was copied earlier: {kind: ids}.
        """
        self._ctx = ctx
        self._source = source
        self._copied = {kind: set(ids) for kind, ids in copied.items()}
        self._pause_seconds = 0.0 if pace is None else 1 / pace

    def prune(
        self, targets: Sequence[Writer], items: Sequence[Item], done: Mapping[str, list[Item]],
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
                result = self.delete(target, item)
                deleted += result.outcome is Outcome.PRUNED
                if final or result.outcome is Outcome.PRUNED:
                    done[target.kind].append(result)
        return deleted

    def copy_all(self, target: Writer, items: Iterable[Item]) -> Iterator[Item]:
        """Create and update records of a kind; yield what became of each.

        Those that are refused together with others are tried once more when these are done. What
        is refused then is compared once more: another copy may have written it meanwhile, or this
        one, in a transaction whose COMMIT was lost.
        """
        refused: list[Item] = []
        for item in self._write_all(target, items):
            # What the comparison refused has no record.
            if item.outcome is Outcome.REFUSED and item.record is not None:
                refused.append(item)
            else:
                yield item
        yield from self._compare_again(target, refused)

    def _write_all(self, target: Writer, items: Iterable[Item]) -> Iterator[Item]:
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

    def _compare_again(self, target: Writer, refused: Sequence[Item]) -> Iterator[Item]:
        """Yield what was refused, or as equal what is here as it is to be all the same."""
        if not refused:
            return
        ours = target.read_some(self._ctx, [item.id for item in refused])
        comparing = Comparison({target.kind: ours})
        for item in refused:
            assert item.record is not None
            compared = comparing.compare(item.record) if item.id in ours else item
            yield compared if compared.outcome is Outcome.EQUAL else item

    def adopt(self, target: Writer, items: Iterable[Item]) -> None:
        """Remember the source of what was here before it was copied."""
        present = [item for item in items if item.outcome in (Outcome.EQUAL, Outcome.UPDATE)
                   and item.id not in self._copied[target.kind]]
        for start in range(0, len(present), target.batch):
            self._write(target, present[start:start + target.batch], lambda: None)

    def _create(
        self, target: Writer, items: Sequence[Item], refused: list[Item] | None = None
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

    def _update(self, target: Writer, item: Item) -> Item:
        changes = {name: value for name, (_, value) in item.differences.items()}
        try:
            self._write(target, [item], lambda: target.update(self._ctx, item.id, changes))
        except errors.Unavailable:
            raise
        except errors.Error as error:
            return _refuse(item, error)
        return item

    def delete(self, target: Writer, item: Item) -> Item:
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
        self._pause(1)
        return dataclasses.replace(item, outcome=Outcome.PRUNED)

    def _write(
        self, target: Writer, items: Sequence[Item], work: Callable[[], None]
    ) -> None:
        """Do some work and remember the source of its records, in one transaction.

        :raises errors.Error: it cannot be done.
        """
        copied = self._copied[target.kind]
        new_ids = [item.id for item in items if item.id not in copied]

        @db.retry_writes
        def write(ctx: Context) -> None:
            with db.write(ctx) as session:
                work()
                origins.remember(session, self._source, target.kind, new_ids)

        try:
            write(self._ctx)
        except db_exception.DBDuplicateEntry as error:
            raise KeyTaken(target.kind) from error
        copied.update(new_ids)
        self._pause(len(items))

    def _pause(self, count: int) -> None:
        """Let as much time pass as so many records may take."""
        time.sleep(self._pause_seconds * count)


def _refuse(item: Item, error: errors.Error) -> Item:
    return dataclasses.replace(item, outcome=Outcome.REFUSED, reason=str(error))
