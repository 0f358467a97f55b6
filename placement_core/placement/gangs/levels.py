"""Levels of topology: hosts, racks or blocks of hosts, parts of a host.

A level divides hosts, or parts of hosts, into domains: two members in one domain are near each
other. Placement's aggregates have no names, so a level of aggregates is given by providers that
mark them: sharing providers, such as a rack's storage, or ones without inventory that exist for
this. (Other providers mark nothing: names of hosts often begin with those of racks.)
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

import numpy as np

from placement_core.placement.gangs import errors
from placement_core.placement.index.array_types import Rows
from placement_core.placement.index.snapshot import CapacitySnapshot

_FORMS = re.compile(
    r"(?P<host>host)|aggregate:trait=(?P<trait>[A-Z0-9_]{1,255})"
    r"|aggregate:name=(?P<name>.{1,200})|tree:(?P<tree>[1-9][0-9]?)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """A level of topology.

    :ivar text: how callers write it.
    :ivar kind: ``host``: each tree of providers is a domain; ``trait`` or ``name``: each
        aggregate is one that is marked by a provider with the trait, or whose name begins with
        ``value``; ``tree``: each provider at the depth ``value`` of its tree is one (roots are
        at 0), with all below it.
    """

    text: str
    kind: Literal["host", "trait", "name", "tree"]
    value: str = ""

    @property
    def depth(self) -> int:
        """Return the depth of its providers in their trees."""
        return int(self.value) if self.kind == "tree" else 0


def parse(text: str) -> Level:
    """Return the level that a text names.

    :raises errors.InvalidLevel: it names none.
    """
    match = _FORMS.fullmatch(text)
    if match is None or match.lastgroup is None:
        raise errors.InvalidLevel(text)
    kind: Literal["host", "trait", "name", "tree"] = match.lastgroup  # type: ignore[assignment]
    return Level(text, kind, "" if kind == "host" else match[kind])


class Domains:
    """The domains of a level in a snapshot.

    :ivar numbers: of the domain of each row; -1: it is in none. Of rows that are no providers at
        the level's depth, the number means nothing.
    """

    def __init__(self, snapshot: CapacitySnapshot, level: Level) -> None:
        self._snapshot = snapshot
        self._names: list[str] | None = None
        self.numbers: Rows = np.arange(snapshot.size)
        if level.kind in ("trait", "name"):
            self._number_aggregates(_find_marks(snapshot, level))

    def name(self, number: int) -> str:
        """Return the name of a domain: as ``name_aggregates``, or its provider's."""
        return self._snapshot.entry(number).provider.name if self._names is None \
            else self._names[number]

    def _number_aggregates(self, marks: Iterable[int]) -> None:
        entries = map(self._snapshot.entry, marks)
        names = name_aggregates(
            (uuid, entry.provider.name) for entry in entries for uuid in entry.aggregates)
        self._names = list(names.values())
        self.numbers = np.full(self._snapshot.size, -1, dtype=np.intp)
        # A host in several of them is in the first.
        for number, uuid in reversed(list(enumerate(names))):
            self.numbers[self._snapshot.rows_in_aggregate(uuid).rows] = number


def name_aggregates(marks: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the names of the domains that aggregates are, by uuid, in the order of uuids.

    They are those of the providers that mark them. A name that two have is followed by the uuid.

    :param marks: the uuid of an aggregate and the name of a provider that marks it.
    """
    marked: dict[str, list[str]] = defaultdict(list)
    for uuid, name in marks:
        marked[uuid].append(name)
    names = {uuid: ", ".join(sorted(marked[uuid])) for uuid in sorted(marked)}
    counts = Counter(names.values())
    return {uuid: name if counts[name] == 1 else f"{name} ({uuid})"
            for uuid, name in names.items()}


def _find_marks(snapshot: CapacitySnapshot, level: Level) -> list[int]:
    """Return the rows of the providers that mark aggregates.

    :raises errors.UnknownLevelTrait: there is no such trait.
    """
    if level.kind == "trait":
        trait = snapshot.names.trait_ids.get(level.value)
        if trait is None:
            raise errors.UnknownLevelTrait(level.value)
        rows: Iterable[int] = snapshot.rows_with_trait(trait).rows.tolist()
    else:
        rows = (row for row, entry in enumerate(snapshot.entries)
                if entry is not None and entry.provider.name.startswith(level.value))
    sharing = snapshot.sharing_providers()
    return [row for row in rows if row in sharing or not snapshot.entry(row).inventories]


def find_ancestors(snapshot: CapacitySnapshot, rows: Rows, depth: int) -> Rows:
    """Return for each row the one at a depth of its tree that it is, or is below; -1: none."""
    parents = snapshot.layout.parent_rows
    # The way down to each row, from the row itself upwards.
    ways = [rows]
    while (ways[-1] >= 0).any():
        ways.append(np.where(ways[-1] >= 0, parents[ways[-1]], -1))
    stacked = np.stack(ways)
    at = np.count_nonzero(stacked >= 0, axis=0) - 1 - depth
    found: Rows = np.where(at >= 0, stacked[np.maximum(at, 0), np.arange(len(rows))], -1)
    return found
