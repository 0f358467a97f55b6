"""``placement-core export``: what we have, for the services that had it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Mapping

from placement_core import db, services as service_parts
from placement_core.cli import base
from placement_core.takeover import exports
from placement_core.takeover.errors import NothingToExport
from placement_core.takeover.exports import (
    Exporter,
    blazar,
    databases,
    files,
    keystone,
    nova_quotas,
    placement,
)
from placement_core.takeover.nova_quotas import find_cores_name

_ALL, _LEFT_OUT = 0, 1
_STDOUT = "-"


def _make_keystone(parts: service_parts.Services) -> Exporter:
    _require_limits(parts)
    return keystone.make_exporter(parts.catalog, parts.model)


def _make_nova_quotas(parts: service_parts.Services) -> Exporter:
    _require_limits(parts)
    options = parts.conf.quota
    return nova_quotas.make_exporter(
        parts.catalog, service_type=options.service_type, region_id=options.region or None,
        cores_name=find_cores_name(options.resource_map))


#: What can be exported, by the name of the service that gets it.
_EXPORTERS: Mapping[str, Callable[[service_parts.Services], Exporter]] = {
    "keystone": _make_keystone, "nova-quotas": _make_nova_quotas,
    "blazar": lambda _parts: blazar.make_exporter(),
    "placement": lambda _parts: placement.make_exporter()}


class Export(base.Checker):
    """Write what we have for another service, with the ids that we know: the way out.

    --to URL writes into a database of that service, whose schema its own migrations have made,
    and which has no rows but those that the service makes by itself; all in one transaction, or
    nothing. --to FILE writes lines of JSON, {"table": …, "values": …}, in an order that foreign
    keys allow; the file is there as a whole or not at all, a pipe or a device is written into, and
    "-" is stdout. Everything is read in one transaction that sees one moment. What the other
    service cannot have is listed with the reason.

    Exit code 0: everything is exported. 1: something is left out. 255: nothing is written, but
    for a part of the lines to stdout, a pipe or a device.
    """

    empty = "Everything is exported."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "service", metavar="SERVICE", choices=list(_EXPORTERS),
            help=f"who gets it: {', '.join(_EXPORTERS)}")
        parser.add_argument(
            "--to", dest="destination", metavar="URL|FILE", required=True,
            help="the URL of a database, as that service's configuration has it, or the path of a "
            "file, or - for stdout")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the export."""
        destination = parsed_args.destination
        with self.parts(parsed_args) as (parts, ctx):
            exporter = _EXPORTERS[parsed_args.service](parts)
            # First of all: what is refused there need not be read here.
            opened = (databases.open_target(exporter, destination) if "://" in destination
                      else contextlib.nullcontext())
            with opened as target, self.progress() as bars, db.read(ctx):
                counts = exports.count_rows(ctx, exporter)
                left_out = list(exporter.list_left_out(ctx))
                rows = exporter.list_rows(ctx)
                if target is not None:
                    left_out += target.write(rows, counts, bars.report)
                elif destination == _STDOUT:
                    files.write_lines(self.app.stdout, rows, counts, bars.report)
                else:
                    files.write_file(destination, rows, counts, bars.report)
        self.exit_code = _LEFT_OUT if left_out else _ALL
        if destination == _STDOUT:
            # The rows are there already.
            for item in left_out:
                self.note(f"left out: {item.kind} {item.id} {item.name}: {item.reason}")
            return (), []
        if parsed_args.formatter == base.TABLE:
            for table, count in counts.items():
                self.say(f"{table:18} {count} rows")
        return ("kind", "id", "name", "reason"), [
            (item.kind, item.id, item.name, item.reason) for item in left_out]


def _require_limits(parts: service_parts.Services) -> None:
    """Refuse to export limits of which another service is in charge."""
    if not parts.limits.transactional:
        raise NothingToExport("limits", "[limits] driver", parts.conf.limits.driver)
