"""``openstack capacity room``: how much there is, is used, promised, and free."""

from __future__ import annotations

import argparse
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capacityclient.osc.base import TABLE, Lister, Rows

#: How wide a bar is, in characters.
_BAR = 20
_STATES = ("total", "reserved", "capacity", "used", "held", "promised", "free", "largest")
#: The columns that say which group a row is of, and the fields that they show.
_KEYS: Mapping[str | None, Mapping[str, str]] = {
    None: {}, "root": {"uuid": "uuid", "name": "name"}, "aggregate": {"aggregate": "uuid"},
    "trait": {"trait": "name"}}
_FILTERS = ("resource_class", "in_tree", "member_of", "required", "group_by")


class ShowRoom(Lister):
    """Show how much there is of each class, is used, held, promised to leases, and free.

    The bar: # is used, + is held by claims that may expire, = is promised, . is free.
    """

    empty = "There is no such inventory."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--group-by", choices=("root", "aggregate", "trait"),
                            help="sums for each of these")
        parser.add_argument("--resource-class", metavar="<class>", help="only this class")
        parser.add_argument("--in-tree", metavar="<uuid>",
                            help="only providers of the tree that this one is in")
        parser.add_argument("--member-of", metavar="<uuid>", action="append",
                            help="only members of this aggregate; also in:<uuid>,<uuid>, and "
                            "!<uuid>: no members; repeatable")
        parser.add_argument("--required", metavar="<trait>", action="append",
                            help="only providers with this trait; also in:<trait>,<trait>, and "
                            "!<trait>: without it; repeatable")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each class of each group; tables have a bar in each."""
        keys = _KEYS[parsed_args.group_by]
        rows = [
            (tuple(group[field] for field in keys.values()), name, room)
            for group in self._read_groups(parsed_args)
            for name, room in group["resources"].items()]
        columns = (*keys, "resource_class", *_STATES)
        cells = [(*key, name, *(room[state] for state in _STATES)) for key, name, room in rows]
        if parsed_args.formatter != TABLE:
            return columns, cells
        return (*columns, "bar"), [
            (*row, _draw_bar(room)) for row, (_, _, room) in zip(cells, rows, strict=True)]

    def _read_groups(self, parsed_args: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
        """Yield the groups of all pages; without groups, the whole as one."""
        query: dict[str, str | Sequence[str]] = {
            name: value for name in _FILTERS
            if (value := getattr(parsed_args, name)) is not None}
        while True:
            answer = self.capacity.get("/room", query)
            yield from answer.get("groups", [answer])
            following = answer.get("links", {}).get("next")
            if not following:
                return
            query["marker"] = _get_marker(following)


def _get_marker(url: str) -> str:
    return urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["marker"][-1]


def _draw_bar(room: Mapping[str, int]) -> str:
    """Draw what is used, held, promised and free.

    Each is rounded up, from the left; what is free has a character as long as there is any.
    """
    whole = max(room["used"] + room["free"], 1)
    longest = _BAR - (room["free"] > room["promised"])
    bar, taken = "", 0
    for mark, amount in (("#", room["used"] - room["held"]), ("+", room["held"]),
                         ("=", room["promised"])):
        taken += amount
        bar = bar.ljust(min(-(-_BAR * taken // whole), longest), mark)
    return bar.ljust(_BAR, ".")
