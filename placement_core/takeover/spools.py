"""Records of a kind of which there may be very many, in a file from the reading to the copying.

A source is read in one transaction, which must not stay open for as long as a copy takes; and
memory must not grow with the source.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from placement_core.takeover.records import Record

#: How many records are handled at a time.
_CHUNK = 1000


class Spool:
    """Records of a kind, in the order in which they were added.

    :ivar kind: theirs.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._length = 0
        # A file without a name, which is gone when it is closed.
        self._file = sqlite3.connect("", isolation_level=None)
        for statement in (
                "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF",
                "CREATE TABLE records (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, "
                "name TEXT NOT NULL, fields TEXT NOT NULL, obstacle TEXT NOT NULL)"):
            self._file.execute(statement)

    def __len__(self) -> int:
        return self._length

    def add(self, records: Iterable[tuple[Record, str]]) -> None:
        """Add records that are not there yet.

        :param records: each with why it cannot be copied; "": it can.
        """
        rows = [(record.id, record.name, json.dumps(record.fields), obstacle)
                for record, obstacle in records]
        self._file.execute("BEGIN")
        self._file.executemany(
            "INSERT INTO records (id, name, fields, obstacle) VALUES (?, ?, ?, ?)", rows)
        self._file.execute("COMMIT")
        self._length += len(rows)

    def read_chunks(self) -> Iterator[Sequence[tuple[Record, str]]]:
        """Yield all records, each with why it cannot be copied, some at a time."""
        after = 0
        while rows := self._file.execute(
                "SELECT position, id, name, fields, obstacle FROM records WHERE position > ? "
                "ORDER BY position LIMIT ?", (after, _CHUNK)).fetchall():
            after = rows[-1][0]
            yield [self._make_entry(*row) for _, *row in rows]

    def read_sorted(self, after: str, size: int) -> Iterator[Sequence[tuple[Record, str]]]:
        """Yield the same, in the order of the ids, from the first one after an id on.

        :param after: "": from the first one of all.
        :param size: how many at a time.
        """
        while rows := self._file.execute(
                "SELECT id, name, fields, obstacle FROM records WHERE id > ? ORDER BY id LIMIT ?",
                (after, size)).fetchall():
            after = rows[-1][0]
            yield [self._make_entry(*row) for row in rows]

    def count_until(self, id_: str) -> int:
        """Return how many records come before an id in the order of ids, or have it."""
        count: int = self._file.execute(
            "SELECT count(*) FROM records WHERE id <= ?", (id_,)).fetchone()[0]
        return count

    def list_missing(self, ids: Sequence[str]) -> list[str]:
        """Return those ids that no record has."""
        return [id_ for (id_,) in self._file.execute(
            "SELECT value FROM json_each(?) WHERE NOT EXISTS "
            "(SELECT 1 FROM records WHERE id = value)", (json.dumps(ids),))]

    def _make_entry(
        self, id_: str, name: str, fields: str, obstacle: str
    ) -> tuple[Record, str]:
        return Record(self.kind, id_, name, json.loads(fields)), obstacle

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
