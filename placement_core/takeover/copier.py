"""Writes records of a source, in batches.

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
from placement_core.takeover.records import Item, Outcome
from placement_core.takeover.targets import Writer

#: How many records a transaction creates.
_BATCH = 100


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
        self._copied = copied
        self._pause_seconds = 0.0 if pace is None else 1 / pace

    def copy_all(self, target: Writer, items: Iterable[Item]) -> Iterator[Item]:
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

    def adopt(self, target: Writer, items: Iterable[Item]) -> None:
        """Remember the source of what was here before it was copied."""
        present = [item for item in items if item.outcome in (Outcome.EQUAL, Outcome.UPDATE)]
        if any(item.id not in self._copied[target.kind] for item in present):
            self._write(target, present, lambda: None)

    def _create(self, target: Writer, items: Sequence[Item]) -> list[Item]:
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

    def _update(self, target: Writer, item: Item) -> Item:
        changes = {name: value for name, (_, value) in item.differences.items()}
        try:
            self._write(target, [], lambda: target.update(self._ctx, item.id, changes))
        except errors.Unavailable:
            raise
        except errors.Error as error:
            return _refuse(item, error)
        return item

    def delete(self, target: Writer, item: Item) -> Item:
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
        self, target: Writer, items: Sequence[Item], work: Callable[[], None]
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
