"""What clients are shown of leases, kept for as long as the leases do not change.

Long lists are asked for again and again, and little of them has changed since. The
database says which leases a list has, and of which version each is (``lease_rows``); only
those that are not known in that version are read. Where these are many, as for a new
process, the texts that managers have made of them come first (``rendered_texts``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple, Unpack

from placement_core import db
from placement_core.context import Context
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.leases.lease_queries import LeaseFilters
from placement_core.reservations.leases.rendered_texts import LeaseRenderer
from placement_core.reservations.store import lease_rows

#: What the texts that a process keeps have together: those of some 40,000 leases.
_MOST_BYTES = 64 * 1024 * 1024
#: From this share of a list on, reading all its texts costs less than reading the leases
#: that are not known.
_MUCH = 1 / 16


class _Listed(NamedTuple):
    """A list: ids in their order, texts that are known, and the versions of the others."""

    ids: list[str]
    texts: dict[str, bytes]
    new: dict[str, int]


class LeaseTexts:
    """The texts of leases that a process remembers, of one renderer. Any thread may ask.

    :param most_bytes: if the texts had more, those that were made first are forgotten.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        #: {id of a lease: its version, and the text}. Whoever changes it holds the lock.
        self._texts: dict[str, tuple[int, bytes]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def get(self, lease_id: str, version: int) -> bytes | None:
        """Return the text of a lease in a version."""
        known = self._texts.get(lease_id)
        return known[1] if known is not None and known[0] == version else None

    def put(self, texts: Iterable[tuple[str, int, bytes]]) -> None:
        """Remember texts: ids, versions and texts."""
        with self._lock:
            for id_, version, text in texts:
                _, before = self._texts.pop(id_, (0, b""))
                self._texts[id_] = (version, text)
                self._bytes += len(text) - len(before)
                while self._bytes > self._most_bytes:
                    _, forgotten = self._texts.pop(next(iter(self._texts)))
                    self._bytes -= len(forgotten)


class RenderedLeases:
    """Leases as a renderer shows them.

    :param texts: those that are known already.
    """

    def __init__(self, renderer: LeaseRenderer, texts: LeaseTexts) -> None:
        self._renderer = renderer
        self._texts = texts

    def page(self, ctx: Context, **filters: Unpack[LeaseFilters]) -> list[tuple[str, bytes]]:
        """Return leases that were not deleted: their ids and texts.

        :param filters: those of ``lease_queries.page``, whose errors it raises.
        """
        listed = self._look(ctx, filters, stored=not self._texts)
        if listed.new:
            many = len(listed.new) > _MUCH * len(listed.ids)
            listed = db.retry_writes(self._read)(ctx, filters, stored=many)
        return [(id_, listed.texts[id_]) for id_ in listed.ids]

    def _read(self, ctx: Context, filters: LeaseFilters, *, stored: bool) -> _Listed:
        # In one snapshot, so that what is read is of the versions that are listed.
        with db.read(ctx) as session:
            listed = self._look(ctx, filters, stored=stored)
            leases = lease_rows.read(session, list(listed.new))
        texts = {lease.id: self._renderer.render(lease) for lease in leases}
        listed.texts.update(texts)
        self._texts.put((id_, listed.new[id_], text) for id_, text in texts.items())
        return listed

    def _look(self, ctx: Context, filters: LeaseFilters, *, stored: bool) -> _Listed:
        """Look at a list once.

        :param stored: ask for the texts that are in the database, too.
        """
        rows = (lease_queries.texts_of(ctx, self._renderer.format, **filters) if stored
                else lease_queries.versions(ctx, **filters))
        listed = _Listed([], {}, {})
        learnt: list[tuple[str, int, bytes]] = []
        for id_, version, *text in rows:
            listed.ids.append(id_)
            known = self._texts.get(id_, version)
            if known is not None:
                listed.texts[id_] = known
            elif text and text[0] is not None:
                listed.texts[id_] = made = text[0].encode()
                learnt.append((id_, version, made))
            else:
                listed.new[id_] = version
        self._texts.put(learnt)
        return listed
