"""``placement-core top``: the whole cloud on one screen, live."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placement_core import errors, services as service_parts, summary
from placement_core.cli import base
from placement_core.cli.room import draw_room_bar
from placement_core.context import Context
from placement_core.safe_logging import printable
from placement_core.summary import NextEvent, Summary, TightLimit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: How often it is read again.
_INTERVAL_SECONDS = 5.0
#: A question stands beside the next one where there is so much room for it.
_COLUMN_WIDTH = 58
#: Lines of the screen that no limit or event is in.
_OTHER_LINES = 8
#: What is shown where nobody looks at a screen.
_MOST = 20


class Top(base.Configured):
    """Show how full the cloud is, which limits are tight, and which leases come next; live.

    Bars of room: # is used, + is held by claims that may expire, = is promised to leases, . is
    free. Ctrl-C ends it. Where the output is no terminal, and with -f json, it is shown once.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--interval", metavar="SECONDS", type=_parse_seconds, default=_INTERVAL_SECONDS,
            help=f"how often to read it again; left out: {_INTERVAL_SECONDS:g}")
        parser.add_argument("--once", action="store_true", help="show it once, and end")
        parser.add_argument("-f", "--format", dest="formatter", choices=(base.TABLE, "json"),
                            default=base.TABLE, help="json: once, as a document")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the command."""
        from rich.console import Console

        with self.parts(parsed_args) as (parts, ctx):
            if parsed_args.formatter == "json":
                self.say(json.dumps(_make_document(summary.read(parts, ctx, _MOST)), indent=1))
                return
            # Not the command's own stream, which escapes what moves the cursor of a terminal.
            console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
            if parsed_args.once or not console.is_terminal:
                console.print(_draw(summary.read(parts, ctx, _MOST), console.width))
                return
            _refresh(parts, ctx, console, parsed_args.interval)


def _refresh(
    parts: service_parts.Services, ctx: Context, console: Console, seconds: float
) -> None:
    """Show it until somebody interrupts."""
    from rich.live import Live

    def draw() -> RenderableType:
        most = max(console.height - _OTHER_LINES, 1)
        try:
            return _draw(summary.read(parts, ctx, most), console.width)
        except errors.Error as error:
            return f"cannot be read: {error}"

    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(draw(), refresh=True)
                time.sleep(seconds)
    except KeyboardInterrupt:
        return


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("expected seconds from 0.1 to 3600")
    return seconds


# Drawing ------------------------------------------------------------------------------


def _draw(cloud: Summary, width: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    questions = [_draw_rooms(cloud), _draw_limits(cloud), _draw_events(cloud)]
    beside = max(1, min(len(questions), width // _COLUMN_WIDTH))
    grid = Table.grid(padding=(0, 3), pad_edge=False)
    for start in range(0, len(questions), beside):
        grid.add_row(*questions[start:start + beside])
    return Group(_describe_state(cloud), *cloud.troubles, "", grid)


def _describe_state(cloud: Summary) -> str:
    words = [f"{cloud.read_at:%Y-%m-%d %H:%M:%S} UTC"]
    backlog = cloud.backlog
    if backlog is not None and cloud.leases is not None:
        words += [
            _count(backlog.managers, "manager"), _count(sum(cloud.leases.values()), "lease"),
            _describe_late("event", backlog.due_events, backlog.longest_due_seconds),
            f"{_count(backlog.failed_events, 'event')} in error",
            _describe_late("call", backlog.calls, backlog.oldest_call_seconds)]
    return " | ".join(words)


def _describe_late(what: str, count: int, seconds: float) -> str:
    waiting = f"{_count(count, what)} waiting"
    return f"{waiting} for {seconds:.0f} s" if count else waiting


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _draw_rooms(cloud: Summary) -> Table:
    table = _make_table("Is there room?", ("class", "", "free", "largest", "promised"), 2)
    for name, room in (cloud.rooms or {}).items():
        table.add_row(name, draw_room_bar(room), *map(
            str, (room.free - room.promised, room.largest, room.promised)))
    return _finish(table, cloud.rooms, "no inventory")


def _draw_limits(cloud: Summary) -> Table:
    table = _make_table("May I? The tightest limits", ("project", "resource", "", "free"), 3)
    for limit in cloud.tight_limits or ():
        table.add_row(printable(limit.project_name or limit.project_id), limit.resource_name,
                      base.draw_bar(limit.used, limit.used + limit.free), str(limit.free))
    return _finish(table, cloud.tight_limits, "no limit binds what is used")


def _draw_events(cloud: Summary) -> Table:
    table = _make_table("When? The next 14 days", ("at", "", "lease", "status"), 4)
    for event in cloud.next_events or ():
        late = " late" if event.at < cloud.read_at else ""
        table.add_row(f"{event.at:%Y-%m-%d %H:%M}", event.what + late,
                      printable(event.lease.name), event.lease.status)
    return _finish(table, cloud.next_events, "no lease begins or ends")


def _make_table(title: str, columns: Sequence[str], texts: int) -> Table:
    """Make a table without rows.

    :param texts: how many of the first columns are texts; the others are numbers.
    """
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < texts else "right", no_wrap=True,
                         overflow="ellipsis")
    return table


def _finish(table: Table, part: object, empty: str) -> Table:
    if not table.row_count:
        table.add_row("not known now" if part is None else empty)
    return table


# For programs -------------------------------------------------------------------------


def _make_document(cloud: Summary) -> Mapping[str, Any]:
    return {
        "read_at": _format(cloud.read_at),
        "rooms": None if cloud.rooms is None else {
            name: room._asdict() for name, room in cloud.rooms.items()},
        "tight_limits": None if cloud.tight_limits is None else [
            _list_fields(limit) for limit in cloud.tight_limits],
        "next_events": None if cloud.next_events is None else [
            _describe_event(event) for event in cloud.next_events],
        "backlog": None if cloud.backlog is None else {
            "leases": cloud.leases, **dataclasses.asdict(cloud.backlog)},
        "troubles": list(cloud.troubles),
    }


def _list_fields(limit: TightLimit) -> Mapping[str, Any]:
    return {**dataclasses.asdict(limit), "share": round(limit.share, 4)}


def _describe_event(event: NextEvent) -> Mapping[str, Any]:
    return {"at": _format(event.at), "what": event.what, "lease_id": event.lease.id,
            "lease_name": event.lease.name, "status": event.lease.status}


def _format(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="seconds")
