"""Which row each provider has, and how rows form trees.

A provider keeps its row as long as it lives, so that an edit of its values
touches nothing else. A full load lays trees out as consecutive runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_core.placement.index.array_types import Characters, Rows

#: How many characters a uuid has.
UUID_LENGTH = 36


class ProviderPosition(NamedTuple):
    """The uuid of a provider, and its parent."""

    uuid: str
    parent_id: int | None


class Layout:
    """The rows of providers and their trees; immutable.

    :ivar size: how many rows there are, vacant ones included.
    :ivar root: the row of each row's root; -1 for vacant rows.
    :ivar parents: {row: row of its parent}; roots are left out.
    :ivar trees: {row of a root: sorted rows of its tree}; providers that are
        a tree of their own are left out.
    :ivar uuid_characters: the uuid of each row, in ASCII. Zeros: the row is vacant, or its uuid
        (in a database that was not ours) has another length or other characters.
    """

    __slots__ = (
        "_parent_rows", "_vacant", "parents", "root", "row_of_id", "row_of_uuid", "size", "trees",
        "uuid_characters",
    )

    def __init__(self) -> None:
        self.size = 0
        self.root = np.empty(0, dtype=np.intp)
        self.uuid_characters = np.empty((0, UUID_LENGTH), dtype=np.uint8)
        self.row_of_id: dict[int, int] = {}
        self.row_of_uuid: dict[str, int] = {}
        self.parents: dict[int, int] = {}
        self.trees: dict[int, tuple[int, ...]] = {}
        self._vacant: list[int] = []
        self._parent_rows: Rows | None = None

    @property
    def parent_rows(self) -> Rows:
        """Return the row of each row's parent; -1 for roots. Computed on first use."""
        if self._parent_rows is None:
            rows = np.full(self.size, -1, dtype=np.intp)
            rows[list(self.parents)] = list(self.parents.values())
            self._parent_rows = rows
        return self._parent_rows

    def apply_changes(
        self, placed: Mapping[int, ProviderPosition], removed: Mapping[int, str]
    ) -> tuple[Layout, set[int]]:
        """Return the layout with providers placed (new or moved) and removed.

        :param placed: by id.
        :param removed: {id: uuid} of providers that have a row.
        :returns: the layout, and the rows whose parent or root may be another.
        """
        new = self._copy()
        disturbed = {int(self.root[self.row_of_id[id_]])
                     for id_ in (*removed, *placed) if id_ in self.row_of_id}
        suspects = {member for root in disturbed for member in self.trees.get(root, (root,))}
        for id_, uuid in removed.items():
            row = new.row_of_id.pop(id_)
            del new.row_of_uuid[uuid]
            new.parents.pop(row, None)
            new.root[row] = -1
            new.uuid_characters[row] = 0
            new._vacant.append(row)
            suspects.discard(row)
        suspects |= new._give_rows(placed)
        for id_, place in placed.items():
            row = new.row_of_id[id_]
            parent = None if place.parent_id is None else new.row_of_id.get(place.parent_id)
            if parent is None:
                new.parents.pop(row, None)
            else:
                new.parents[row] = parent
        new._regrow(suspects, disturbed)
        return new, suspects

    def ancestors(self, row: int) -> list[int]:
        """Return a row and the rows above it, upwards."""
        line = [row]
        while (parent := self.parents.get(line[-1])) is not None:
            line.append(parent)
        return line

    def tree(self, root: int) -> tuple[int, ...]:
        """Return the rows of the tree with this root."""
        return self.trees.get(root, (root,))

    def _copy(self) -> Layout:
        new = Layout()
        new.size = self.size
        new.root = self.root.copy()
        new.uuid_characters = self.uuid_characters.copy()
        new.row_of_id = dict(self.row_of_id)
        new.row_of_uuid = dict(self.row_of_uuid)
        new.parents = dict(self.parents)
        new.trees = dict(self.trees)
        new._vacant = list(self._vacant)
        return new

    def _give_rows(self, placed: Mapping[int, ProviderPosition]) -> set[int]:
        """Give every placed provider a row; return all their rows."""
        new_ids = [id_ for id_ in _sort_by_tree(placed) if id_ not in self.row_of_id]
        missing = len(new_ids) - len(self._vacant)
        if missing > 0:
            # Spare rows, so that most new providers need no copy of the arrays.
            size = self.size + missing + max(16, self.size // 8)
            root = np.full(size, -1, dtype=np.intp)
            root[:self.size] = self.root
            characters = np.zeros((size, UUID_LENGTH), dtype=np.uint8)
            characters[:self.size] = self.uuid_characters
            self._vacant[:0] = range(size - 1, self.size - 1, -1)
            self.root, self.uuid_characters, self.size = root, characters, size
        self._vacant.sort(reverse=True)
        for id_ in new_ids:
            row = self._vacant.pop()
            self.row_of_id[id_] = row
            self.row_of_uuid[placed[id_].uuid] = row
        if new_ids:
            self.uuid_characters[[self.row_of_id[id_] for id_ in new_ids]] = _encode(
                [placed[id_].uuid for id_ in new_ids])
        return {self.row_of_id[id_] for id_ in placed}

    def _regrow(self, suspects: set[int], disturbed: Iterable[int]) -> None:
        """Find the roots of ``suspects`` again and regroup their trees."""
        groups: dict[int, list[int]] = {}
        roots: dict[int, int] = {}
        for row in suspects:
            line = []
            at = row
            while at not in roots and (parent := self.parents.get(at)) is not None:
                line.append(at)
                at = parent
                if len(line) > len(self.parents):
                    # Only a damaged database has a loop: cut it here.
                    del self.parents[at]
            root = roots.get(at, at)
            roots[at] = root
            roots.update(dict.fromkeys(line, root))
            groups.setdefault(root, []).append(row)
        old = {root: self.trees.pop(root, ()) for root in (*disturbed, *groups)}
        for root, rows in groups.items():
            staying = [row for row in old[root] or (root,)
                       if row not in suspects and self.root[row] == root]
            members = sorted({*staying, *rows})
            self.root[rows] = root
            if len(members) > 1:
                self.trees[root] = tuple(members)


def _encode(uuids: Sequence[str]) -> Characters:
    """Return uuids as rows of ``Layout.uuid_characters``."""
    missing = "\0" * UUID_LENGTH
    text = "".join([uuid if len(uuid) == UUID_LENGTH and uuid.isascii() else missing
                    for uuid in uuids])
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(-1, UUID_LENGTH)


def _sort_by_tree(placed: Mapping[int, ProviderPosition]) -> list[int]:
    """Return ids so that trees are consecutive, each parent before its children."""
    children: dict[int, list[int]] = {}
    tops = []
    for id_ in sorted(placed):
        parent_id = placed[id_].parent_id
        if parent_id in placed and parent_id is not None:
            children.setdefault(parent_id, []).append(id_)
        else:
            tops.append(id_)
    if not children:
        return tops
    order = []
    waiting = tops[::-1]
    while waiting:
        id_ = waiting.pop()
        order.append(id_)
        waiting.extend(reversed(children.get(id_, ())))
    if len(order) < len(placed):  # loops, which only a damaged database has
        order.extend(sorted(placed.keys() - set(order)))
    return order
