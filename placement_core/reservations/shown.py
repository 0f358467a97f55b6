"""What clients are shown of leases, kept for as long as the leases do not change.

Long lists are asked for again and again, and little of them has changed since. The
database says which leases a list has, and of which version each is (``kept``); only those
that are not known in that version are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from placement_core import db
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.reservations import kept, leases
from placement_core.reservations.leases import Filters
from placement_core.reservations.records import Lease

#: What the texts that a process keeps have together: those of some 40,000 leases.
_MOST_BYTES = 64 * 1024 * 1024


class Shown:
    """The texts of leases. Any thread may ask.

    :param show: makes the text of a lease, of nothing but that.
    :param most_bytes: if the texts had more, those that were made first are forgotten.
    """

    def __init__(self, show: Callable[[Lease], bytes], most_bytes: int = _MOST_BYTES) -> None:
        self._show = show
        self._most_bytes = most_bytes
        #: {id of a lease: its version, and the text}. Who changes it holds the lock.
        self._texts: dict[str, tuple[int, bytes]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def page(self, ctx: Context, **filters: Unpack[Filters]) -> list[tuple[str, bytes]]:
        """Return leases that were not deleted: their ids and texts.

        :param filters: those of ``leases.page``, whose errors it raises.
        """
        rows = leases.versions(ctx, **filters)
        texts = self._known(rows)
        if len(texts) < len(rows):
            rows, texts = db.retry_writes(self._read)(ctx, filters)
        return [(row.id, texts[row.id]) for row in rows]

    def _known(self, rows: Sequence[Any]) -> dict[str, bytes]:
        """Return the texts that are known, of those versions."""
        found = {}
        for id_, version in rows:
            known = self._texts.get(id_)
            if known is not None and known[0] == version:
                found[id_] = known[1]
        return found

    def _read(self, ctx: Context, filters: Filters) -> tuple[Sequence[Any], dict[str, bytes]]:
        # In one snapshot, so that what is read is of the versions that are listed.
        with db.read(ctx) as session:
            rows = leases.versions(ctx, **filters)
            known = self._known(rows)
            new = [row for row in rows if row.id not in known]
            found = kept.read(session, [row.id for row in new])
        texts = {lease.id: self._show(lease) for lease in found}
        with self._lock:
            for id_, version in new:
                self._keep(id_, version, texts[id_])
        return rows, known | texts

    def _keep(self, id_: str, version: int, text: bytes) -> None:
        _, before = self._texts.pop(id_, (0, b""))
        self._texts[id_] = (version, text)
        self._bytes += len(text) - len(before)
        while self._bytes > self._most_bytes:
            _, forgotten = self._texts.pop(next(iter(self._texts)))
            self._bytes -= len(forgotten)


def of(database: Database, show: Callable[[Lease], bytes]) -> Shown:
    """Return what is shown of the leases of a database: one for all who ask in a process."""
    shown: Shown | None = database.kept.get(Shown)
    return shown or database.kept.setdefault(Shown, Shown(show))
