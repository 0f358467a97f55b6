"""``placement-core migrate``: take over what the services of a running cloud know."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from placement_core import services as service_parts
from placement_core.cli import base
from placement_core.context import Context
from placement_core.takeover import copying, keystone, sources, targets
from placement_core.takeover.errors import NowhereToCopy
from placement_core.takeover.records import Item, Outcome
from placement_core.takeover.sources import Source
from placement_core.takeover.targets import Target

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

#: What can be taken over, by the name of the service that has it.
_SOURCES: Mapping[str, Source] = {
    "keystone": Source("keystone", keystone.SCHEMA, keystone.read),
}
_EQUAL, _WARNINGS, _BLOCKERS = 0, 1, 2
#: What people are to look at one by one.
_NOTEWORTHY = (Outcome.UPDATE, Outcome.GONE, Outcome.PRUNED, Outcome.SKIPPED, Outcome.REFUSED)
_DIFFERENCES = {
    Outcome.CREATE: "missing", Outcome.UPDATE: "different", Outcome.GONE: "extra"}
_COLUMNS = ("kind", "id", "name", "outcome", "details")


class _Migration(base.Checker):
    """A command that reads other services' databases."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--from", dest="sources", metavar="SERVICE=URL", action="append", required=True,
            type=_parse_source,
            help=f"a service and the URL of its database; services: {', '.join(_SOURCES)}")
        return parser

    @contextlib.contextmanager
    def _targets(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[Context, list[Target]]]:
        with self.parts(parsed_args) as (parts, ctx):
            _require_local(parts)
            yield ctx, targets.list_targets(parts.catalog, parts.model)

    def _list(self, parsed_args: argparse.Namespace, items: Sequence[Item]) -> Rows:
        """Return the rows of items; for people, only those to look at, below the counts."""
        if parsed_args.formatter != base.TABLE:
            return _COLUMNS, [_make_row(item) for item in items]
        for kind, counts in copying.count_outcomes(items).items():
            self.say(f"{kind + 's':18} " + ", ".join(
                f"{count} {outcome}" for outcome, count in counts.items() if count))
        noteworthy = [item for item in items if item.outcome in _NOTEWORTHY]
        return (_COLUMNS if noteworthy else ()), [_make_row(item) for item in noteworthy]


class CheckMigration(_Migration):
    """Say what a copy of other services' records would do, without any change.

    Reads each source in one snapshot, and compares it with ours by the ids that records have
    there. Outcomes: create, update (ours differs), equal, gone (copied earlier, and not in the
    source any more), skipped (it means nothing in the source either), refused (it cannot be
    copied as it is); for people, what is created or equal is only counted.

    Exit code 0: everything can be copied. 1: something is skipped or gone. 2: something is
    refused. 255: the check did not run.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the check."""
        with self._targets(parsed_args) as (ctx, all_targets):
            items = [
                item for source, url in parsed_args.sources
                for item in copying.check(
                    ctx, source.name, sources.read(source, url), all_targets)]
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class CopyMigration(_Migration):
    """Copy other services' records; without --execute, say what it would do.

    Safe to repeat, and to kill: records keep their ids, each batch is one transaction, and the
    next run goes on with what is not equal. What was copied and is gone from the source stays,
    unless --prune is given. Outcomes and exit codes are those of "migrate check"; create and
    update are done then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--execute", action="store_true", help="change our database")
        parser.add_argument(
            "--prune", action="store_true",
            help="delete what was copied earlier and is gone from the source")
        parser.add_argument(
            "--pace", metavar="RECORDS", type=base.parse_count,
            help="how many records to write in a second at most")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the copy."""
        with self._targets(parsed_args) as (ctx, all_targets):
            items: list[Item] = []
            for source, url in parsed_args.sources:
                contents = sources.read(source, url)
                if not parsed_args.execute:
                    items += copying.check(ctx, source.name, contents, all_targets)
                    continue
                with self.progress() as bars:
                    items += copying.copy(
                        ctx, source.name, contents, all_targets, prune=parsed_args.prune,
                        pace=parsed_args.pace, report=bars.report)
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class DiffMigration(_Migration):
    """Say what of other services' records is not the same here.

    A line for each difference: missing (not here), extra (here only), different (with both
    values). Records that cannot be copied are left out; "migrate check" names them.

    Exit code 0: all is equal. 1: it is not. 255: the comparison did not run.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the comparison."""
        with self._targets(parsed_args) as (ctx, all_targets):
            differences = [
                difference for source, url in parsed_args.sources
                for difference in copying.diff(ctx, sources.read(source, url), all_targets)]
        self.exit_code = int(bool(differences))
        self.empty = "All is equal."
        return ("kind", "id", "name", "difference", "details"), [
            (item.kind, item.id, item.name, _DIFFERENCES[item.outcome], _describe(item))
            for item in differences]


def _parse_source(text: str) -> tuple[Source, str]:
    name, equals, url = text.partition("=")
    if not equals or name not in _SOURCES:
        raise argparse.ArgumentTypeError(
            f"expected SERVICE=URL, where SERVICE is one of {', '.join(_SOURCES)}")
    return _SOURCES[name], url


def _require_local(parts: service_parts.Services) -> None:
    """Refuse to copy limits of which another service is in charge."""
    if not parts.limits.transactional:
        raise NowhereToCopy(
            "limits", "[limits] driver", parts.conf.limits.driver, "local")


def _find_exit_code(items: Iterable[Item]) -> int:
    outcomes = {item.outcome for item in items}
    if Outcome.REFUSED in outcomes:
        return _BLOCKERS
    return _WARNINGS if outcomes & {Outcome.SKIPPED, Outcome.GONE} else _EQUAL


def _make_row(item: Item) -> tuple[object, ...]:
    return item.kind, item.id, item.name, item.outcome.value, _describe(item)


def _describe(item: Item) -> str:
    return item.reason or "; ".join(
        f"{name}: {ours!r} here, {theirs!r} there"
        for name, (ours, theirs) in item.differences.items())
