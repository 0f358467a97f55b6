"""``placement-core capacity …``: how much room there is, of all hosts and of each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from placement_core.cli import base
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import values
from placement_core.placement.room.groups import GroupedBy, RoomFilter
from placement_core.placement.room.sums import Room

#: How wide a bar is, in characters.
_BAR = 20
#: The columns that say which group a row is of.
_KEYS: Mapping[GroupedBy, tuple[str, ...]] = {
    "root": ("uuid", "name"), "aggregate": ("aggregate",), "trait": ("trait",)}

Table = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class _RoomLister(base.Lister):
    """A command that prints room, with a bar where people read it."""

    beside = ("uuid", "total", "reserved")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--resource-class", metavar="CLASS", help="only this class")
        parser.add_argument("--in-tree", metavar="UUID",
                            help="only providers of the tree that this one is in")
        parser.add_argument("--member-of", metavar="UUID", action="append",
                            help="only members of this aggregate; also in:UUID,UUID, and !UUID: "
                            "no members; repeatable")
        parser.add_argument("--required", metavar="TRAIT", action="append",
                            help="only providers with this trait; also in:TRAIT,TRAIT, and "
                            "!TRAIT: without it; repeatable")
        return parser

    def list_groups(
        self, parsed_args: argparse.Namespace, by: GroupedBy, *, marker: str | None = None,
        limit: int | None = None,
    ) -> Table:
        """Return a row for each class of each group."""
        with self.parts(parsed_args) as (parts, ctx):
            groups = parts.room.list_groups(
                ctx, by, _parse_filter(parsed_args), marker=marker, limit=limit)
        return self.make_table(parsed_args, _KEYS[by], (
            ((group.key, group.name)[:len(_KEYS[by])], group.resources) for group in groups))

    def make_table(
        self, parsed_args: argparse.Namespace, keys: Sequence[str],
        groups: Iterable[tuple[tuple[object, ...], Mapping[str, Room]]],
    ) -> Table:
        """Return columns and rows; tables for people have a bar in each row.

        :param keys: the columns that say which group a row is of, and ``groups`` their values.
        """
        self.empty = "There is no inventory" + base.describe_filters(
            resource_class=parsed_args.resource_class, in_tree=parsed_args.in_tree,
            member_of=_join(parsed_args.member_of), required=_join(parsed_args.required)) + "."
        names = (*keys, "resource_class", *Room._fields)
        rows = [((*values_of_keys, name, *room), room)
                for values_of_keys, rooms in groups for name, room in rooms.items()]
        if parsed_args.formatter != base.TABLE:
            return names, [row for row, _ in rows]
        return (*names, "bar"), [(*row, draw_room_bar(room)) for row, room in rows]


class ShowRoom(_RoomLister):
    """Show how much there is of each class, is used, held, promised to leases, and free.

    The bar: # is used, + is held by claims that may expire, = is promised, . is free. Tables have
    no "total" and "reserved", unless -c asks for them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--group-by", choices=tuple(_KEYS), help="sums for each of these")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        if parsed_args.group_by is not None:
            return self.list_groups(parsed_args, parsed_args.group_by)
        with self.parts(parsed_args) as (parts, ctx):
            rooms = parts.room.measure(ctx, _parse_filter(parsed_args))
        return self.make_table(parsed_args, (), [((), rooms)])


class ListHostRoom(_RoomLister):
    """Show the same for each host: the trees of providers, by the uuids of their roots."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--limit", metavar="N", type=int, help="how many hosts at most")
        parser.add_argument("--marker", metavar="UUID", help="only those after this one")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        if parsed_args.limit is not None and parsed_args.limit < 1:
            raise base.Failed("--limit: expected a number from 1 on")
        return self.list_groups(
            parsed_args, "root", marker=parsed_args.marker, limit=parsed_args.limit)


def _parse_filter(parsed_args: argparse.Namespace) -> RoomFilter:
    newest = microversions.NEWEST
    return RoomFilter(
        parsed_args.resource_class, parsed_args.in_tree,
        values.parse_traits(parsed_args.required or (), newest),
        values.parse_aggregates(parsed_args.member_of or (), newest))


def _join(texts: Sequence[str] | None) -> str | None:
    return None if texts is None else " and ".join(texts)


def draw_room_bar(room: Room) -> str:
    """Draw what is used, held, promised and free.

    Each is rounded up, from the left; what is free has a character as long as there is any.
    """
    unclaimed = room.free - room.promised
    whole = max(room.used + room.free, 1)
    longest = _BAR - (unclaimed > 0)
    bar, taken = "", 0
    for mark, amount in (("#", room.used - room.held), ("+", room.held), ("=", room.promised)):
        taken += amount
        bar = bar.ljust(min(-(-_BAR * taken // whole), longest), mark)
    return bar.ljust(_BAR, ".")
