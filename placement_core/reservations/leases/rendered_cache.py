"""A cache of rendered leases, each valid as long as its lease does not change.

Clients read long lists again and again, and few of their leases have changed in between. A query
returns the ids and versions of a list (``lease_queries``); only leases that are not cached in
that version are read and rendered. Where these are many, as in a new process, texts that managers
have rendered in advance are read instead (``rendered_texts``).
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

#: The total size of the texts that a process caches: those of some 40,000 leases.
_MOST_BYTES = 64 * 1024 * 1024
#: If a larger share of a list than this is not cached, reading all its texts from the database
#: costs less than reading the missing leases.
_STORED_TEXTS_SHARE = 1 / 16


class _LeaseList(NamedTuple):
    """A list: ids in their order, the texts that are cached, and {id: version} of the others."""

    ids: list[str]
    texts: dict[str, bytes]
    new: dict[str, int]


class LeaseTexts:
    """The cached texts of a process, all of one renderer. Thread-safe.

    :param most_bytes: the total size; beyond it, the texts that were added first are evicted.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        #: {lease id: (version, text)}. Changed under the lock only.
        self._texts: dict[str, tuple[int, bytes]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def get(self, lease_id: str, version: int) -> bytes | None:
        """Return the text of a lease in a version; None: it is not cached."""
        cached = self._texts.get(lease_id)
        return cached[1] if cached is not None and cached[0] == version else None

    def put(self, texts: Iterable[tuple[str, int, bytes]]) -> None:
        """Add ``(lease id, version, text)``."""
        with self._lock:
            for id_, version, text in texts:
                _, before = self._texts.pop(id_, (0, b""))
                self._texts[id_] = (version, text)
                self._bytes += len(text) - len(before)
                while self._bytes > self._most_bytes:
                    _, evicted = self._texts.pop(next(iter(self._texts)))
                    self._bytes -= len(evicted)


class RenderedLeases:
    """Pages of leases as texts of a renderer.

    :param texts: the cache.
    """

    def __init__(self, renderer: LeaseRenderer, texts: LeaseTexts) -> None:
        self._renderer = renderer
        self._texts = texts

    def page(self, ctx: Context, **filters: Unpack[LeaseFilters]) -> list[tuple[str, bytes]]:
        """Return ``(id, text)`` of leases that were not deleted.

        :param filters: those of ``lease_queries.page``, whose errors it raises.
        """
        lease_list = self._list(ctx, filters, stored=not self._texts)
        if lease_list.new:
            many = len(lease_list.new) > _STORED_TEXTS_SHARE * len(lease_list.ids)
            lease_list = db.retry_writes(self._read)(ctx, filters, stored=many)
        return [(id_, lease_list.texts[id_]) for id_ in lease_list.ids]

    def _read(self, ctx: Context, filters: LeaseFilters, *, stored: bool) -> _LeaseList:
        # In one snapshot, so that the leases are read in the listed versions.
        with db.read(ctx) as session:
            lease_list = self._list(ctx, filters, stored=stored)
            leases = lease_rows.read(session, list(lease_list.new))
        texts = {lease.id: self._renderer.render(lease) for lease in leases}
        lease_list.texts.update(texts)
        self._texts.put((id_, lease_list.new[id_], text) for id_, text in texts.items())
        return lease_list

    def _list(self, ctx: Context, filters: LeaseFilters, *, stored: bool) -> _LeaseList:
        """Query a list once.

        :param stored: read the texts in the database, too.
        """
        rows = (lease_queries.list_texts(ctx, self._renderer.format, **filters) if stored
                else lease_queries.list_versions(ctx, **filters))
        lease_list = _LeaseList([], {}, {})
        new_texts: list[tuple[str, int, bytes]] = []
        for id_, version, *text in rows:
            lease_list.ids.append(id_)
            cached = self._texts.get(id_, version)
            if cached is not None:
                lease_list.texts[id_] = cached
            elif text and text[0] is not None:
                lease_list.texts[id_] = stored_text = text[0].encode()
                new_texts.append((id_, version, stored_text))
            else:
                lease_list.new[id_] = version
        self._texts.put(new_texts)
        return lease_list
