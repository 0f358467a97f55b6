"""``placement-core migrate``: take over what the services of a running cloud know."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from placement_core.cli import base
from placement_core.cli.migration_sources import Here, add_sources, open_here
from placement_core.masking import mask_url
from placement_core.takeover import comparison_results, comparisons, copying, records
from placement_core.takeover.records import Item, Outcome

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_EQUAL, _WARNINGS, _BLOCKERS = 0, 1, 2
#: What people are to look at one by one.
_NOTEWORTHY = (
    Outcome.UPDATE, Outcome.GONE, Outcome.PRUNED, Outcome.SKIPPED, Outcome.WARNING,
    Outcome.REFUSED)
_DIFFERENCES = {
    Outcome.CREATE: "missing", Outcome.UPDATE: "different", Outcome.GONE: "extra",
    Outcome.LEFT_OUT: "left out"}
_COLUMNS = ("kind", "id", "name", "outcome", "details")


class _Migration(base.Checker):
    """A command that reads other services' databases."""

    empty = "The sources have nothing to copy."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_sources(parser)
        return parser

    @contextlib.contextmanager
    def _open(self, parsed_args: argparse.Namespace) -> Iterator[Here]:
        with self.parts(parsed_args) as (parts, ctx), open_here(parts, ctx) as here:
            yield here

    def _list(self, parsed_args: argparse.Namespace, items: Sequence[Item]) -> Rows:
        """Return the rows of items; for people, only those to look at, below the counts."""
        if parsed_args.formatter != base.TABLE or not items:
            return _COLUMNS, [_make_row(item) for item in items]
        for kind, counts in copying.count_outcomes(items).items():
            self.say(f"{records.pluralize(kind):21} " + ", ".join(
                f"{count} {outcome}" for outcome, count in counts.items() if count))
        noteworthy = [item for item in items if item.outcome in _NOTEWORTHY or item.reason]
        return (_COLUMNS if noteworthy else ()), [_make_row(item) for item in noteworthy]


class CheckMigration(_Migration):
    """Say what a copy of other services' records would do, without any change.

    Reads each source in one snapshot, and compares it with ours by the ids that records have
    there. Outcomes: create, update (ours differs), equal, gone (copied earlier, and not in the
    source any more), skipped (it means nothing in the source either, or nothing here), warning
    (it is copied, and needs more), refused (it cannot be copied as it is); for people, what is
    created or equal is only counted, unless there is a remark about it. Instances and server
    groups are counted for programs, too.

    Exit code 0: everything can be copied. 1: something is skipped or gone, or there is a warning
    or a remark. 2: something is refused. 255: the check did not run.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the check."""
        with self._open(parsed_args) as here, self.progress() as bars:
            items = here.check(parsed_args.sources, bars.report)
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class CopyMigration(_Migration):
    """Copy other services' records; without --execute, say what it would do.

    Safe to repeat, and to kill: records keep their ids, each batch is one transaction, and the
    next run goes on with what is not equal. What was copied and is gone from the source stays,
    unless --prune is given, which is refused for a source in another place than that with which
    "migrate diff" compared last. Outcomes and exit codes are those of "migrate check"; create and
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
            help="how many records to write or delete in a second at most")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the copy."""
        with self._open(parsed_args) as here, self.progress() as bars:
            if parsed_args.prune:
                here.require_places(parsed_args.sources)
            if parsed_args.execute:
                items = [
                    item for source, contents in here.read(parsed_args.sources, bars.report)
                    for item in copying.copy(
                        here.ctx, source, contents, here.list_targets(source),
                        here.spool_targets, prune=parsed_args.prune,
                        pace=parsed_args.pace, report=bars.report)]
            else:
                items = here.check(parsed_args.sources, bars.report)
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class DiffMigration(_Migration):
    """Say what of other services' records is not the same here.

    A line for each difference: missing (not here), extra (here only), different (with both
    values). What was copied from other sources only is not compared. What cannot be copied and is
    not here (refused records, leases of which no plugin is here) is no difference: it is counted,
    in a line for people and in a row "left out" of each kind for programs; "migrate check" names
    it. The result is remembered with the time; after a day it is stale. A run that was killed can
    be gone on with: --resume.

    Exit code 0: all that can be copied is equal. 1: it is not. 255: the comparison did not run.
    """

    empty = "All is equal."
    beside = ("records",)
    #: What people read below the differences.
    _remark = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--resume", action="store_true",
            help="go on with a comparison of the same sources that did not end, if it was begun "
            "within a day; otherwise begin a new one")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the comparison."""
        with self._open(parsed_args) as here, self.progress() as bars:
            sides = [
                comparisons.Side(source.origin, mask_url(address.url), source.kinds, contents,
                                 source.own_kinds)
                for (source, contents), address in zip(
                    here.read(parsed_args.sources, bars.report), parsed_args.sources,
                    strict=True)]
            kinds = {kind for side in sides for kind in side.kinds}
            result = comparisons.compare(
                here.ctx, sides, [target for target in here.targets if target.kind in kinds],
                here.spool_targets, now=lambda: datetime.datetime.now(datetime.UTC),
                report=bars.report, resume=parsed_args.resume)
        self.exit_code = int(bool(result.differences))
        items = [*result.differences]
        left_out = sum(result.left_out.values())
        if left_out and parsed_args.formatter == base.TABLE:
            self.empty = ("All is equal but for "
                          f"{comparison_results.count_records(left_out)} that cannot be copied: "
                          "`placement-core migrate check` says why.")
            self._remark = (f"Beside these, {comparison_results.describe_left_out(left_out)}: "
                            "`placement-core migrate check` says why.")
        elif left_out:
            items += [Item(kind, "", "", Outcome.LEFT_OUT, '"migrate check" says why', count=count)
                      for kind, count in result.left_out.items()]
        return ("kind", "id", "name", "difference", "details", "records"), [
            (item.kind, item.id, item.name, _DIFFERENCES[item.outcome], _describe(item),
             item.count) for item in items]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        """Print the differences, and how much cannot be copied."""
        rows = list(data)
        code = super().produce_output(parsed_args, column_names, rows)
        if self._remark and (rows or parsed_args.print_empty):
            self.say(self._remark)
        return code


def _find_exit_code(items: Iterable[Item]) -> int:
    code = _EQUAL
    for item in items:
        if item.outcome is Outcome.REFUSED:
            return _BLOCKERS
        if item.outcome in (Outcome.SKIPPED, Outcome.WARNING, Outcome.GONE) or item.reason:
            code = _WARNINGS
    return code


def _make_row(item: Item) -> tuple[object, ...]:
    return item.kind, item.id, item.name, item.outcome.value, _describe(item)


def _describe(item: Item) -> str:
    count = f"{item.count} records" if item.count != 1 else ""
    about = ": ".join(filter(None, (count, item.reason)))
    if item.outcome is Outcome.REFUSED:
        return about
    urls = records.URLS.get(item.kind, ())
    differences = [
        _describe_difference(place, *values, is_url=name in urls)
        for name, pair in item.differences.items() for place, values in _narrow(name, *pair)]
    return "; ".join(filter(None, (*differences, about)))


def _narrow(
    name: str, ours: object, theirs: object
) -> Iterator[tuple[str, tuple[object, object]]]:
    """Yield what differs in a field, down to the parts of one that has some."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in dict.fromkeys((*ours, *theirs)):
            if ours.get(key) != theirs.get(key):
                yield from _narrow(f"{name}.{key}", ours.get(key), theirs.get(key))
    elif isinstance(ours, tuple) and isinstance(theirs, tuple):
        yield name, ([value for value in ours if value not in theirs],
                     [value for value in theirs if value not in ours])
    else:
        yield name, (ours, theirs)


def _describe_difference(name: str, ours: object, theirs: object, *, is_url: bool) -> str:
    """Describe the values of a field, without passwords."""
    if is_url:
        ours, theirs = mask_url(str(ours)), mask_url(str(theirs))
        if ours == theirs:
            return f"{name}: {_spell(ours)}, with another password here than there"
    return f"{name}: {_spell(ours)} here, {_spell(theirs)} there"


def _spell(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=dataclasses.asdict)
