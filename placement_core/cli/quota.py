"""``placement-core quota …``: what projects may have, have, and could still have."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from placement_core import amounts, services as service_parts
from placement_core.cli import base
from placement_core.context import Context
from placement_core.plugin_api.counting import MissingCell
from placement_core.quota import checks, explain, usage
from placement_core.quota.checks import CheckResult
from placement_core.quota.records import LimitUsage
from placement_core.quota.usage import ResourceQuota

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_UNLIMITED = "unlimited"
_LARGEST = 2**31 - 1


class _Quota(base.Lister):
    """A command that needs the service's parts; its exit code may say more.

    :ivar summary: a sentence that is printed if there are no rows.
    """

    summary = ""

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        """Print the table, or a sentence where it would have no rows."""
        rows = list(data)
        if rows or parsed_args.formatter != "table":
            return super().produce_output(parsed_args, column_names, rows)
        print(self.summary, file=self.app.stdout)
        return 0

    def warn(
        self, parts: service_parts.Services, ctx: Context, missing: Iterable[MissingCell]
    ) -> None:
        """Print what the numbers lack, and which limits bind nobody."""
        for gap in parts.limit_gaps(ctx):
            print(gap, file=self.app.stderr)
        for cell in missing:
            since = "" if cell.known_since_seconds is None else (
                f"; counted as it was {cell.known_since_seconds:.0f} seconds ago")
            print(f"cell {cell.name} ({cell.uuid}) is missing: {cell.reason}{since}",
                  file=self.app.stderr)


class Show(_Quota):
    """Show what a project may have, has, and could still have.

    "free" regards every limit above the project, too; "held by" names the one that leaves
    no more. Cells that could not be counted are named on stderr.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_project(parser)
        _add_user(parser, "show the share of this user, not the whole project's")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            project_quota = usage.get_project_quota(
                ctx, parts.quota, _find_project_id(parts, ctx, parsed_args.project),
                parsed_args.user)
            count = project_quota.count
            self.warn(parts, ctx, count.missing_cells if count is not None else ())
            self.summary = _explain_emptiness(parts, ctx)
        shares = (project_quota.resources if project_quota.of_user is None
                  else project_quota.of_user)
        return ("resource_name", "limit", "source", "used", "free", "held by"), [
            _make_row(name, share) for name, share in shares.items()]


class List(_Quota):
    """Show the same of all projects: the catalog's, and those that use something."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            overview = parts.overviews.make(ctx)
            count = overview.count
            self.warn(parts, ctx, count.missing_cells if count is not None else ())
            self.summary = (_explain_emptiness(parts, ctx) if overview.project_ids
                            else "The catalog has no projects, and nobody uses anything.")
        unknown: list[None] = [None] * len(overview.project_ids)
        cells = [
            (name, list(zip(column.limits, column.sources, column.used or unknown,
                            column.free or unknown, column.held_by, strict=True)))
            for name, column in overview.resources.items()]
        return ("project_id", "name", "resource_name", "limit", "source", "used", "free",
                "held by"), [
            (project_id, overview.names.get(project_id), name, _Amount(amounts.from_wire(limit)),
             source, used, _Amount(None if free is None else amounts.from_wire(free)), held_by)
            for row, project_id in enumerate(overview.project_ids)
            for name, column in cells
            for limit, source, used, free, held_by in [column[row]]]


class Check(_Quota):
    """Say whether a request fits into the limits; print those that it exceeds.

    Where it fits, sentences say how much more would. Exit code 1: it does not fit.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_request(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            answer, deltas = _parse_request(parts, ctx, parsed_args)
            self.warn(parts, ctx, answer.measure.missing_cells)
            if answer.fits:
                explanation = explain.explain(ctx, parts.quota, answer, deltas)
                self.summary = "\n".join(["It fits.", *explanation.sentences])
        self.exit_code = int(not answer.fits)
        return ("resource_name", "node_id", "user_id", "scope", "source", "limit", "used",
                "asked", "over_by"), [
            (exceeded.resource_name, exceeded.node_id, exceeded.user_id, exceeded.scope,
             exceeded.source, _Amount(exceeded.limit), exceeded.used, exceeded.asked,
             exceeded.over_by)
            for exceeded in answer.exceeded_limits]


class Explain(_Quota):
    """Say in sentences what stops a request, and what would have to go; or how much more fits.

    Exit code 1: it does not fit.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_request(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            answer, deltas = _parse_request(parts, ctx, parsed_args)
            explanation = explain.explain(ctx, parts.quota, answer, deltas)
            self.warn(parts, ctx, answer.measure.missing_cells)
        self.exit_code = int(not answer.fits)
        return ("resource_name", "node_id", "sentence", "consumers"), [
            *((stop.exceeded_limit.resource_name, stop.exceeded_limit.node_id, stop.sentence,
               " ".join(holder.uuid for holder in stop.holders)) for stop in explanation.stops),
            *((more.resource_name, more.bound and more.bound.node_id, more.sentence, "")
              for more in explanation.more)]


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", metavar="PROJECT",
                        help="the id of a project or domain, or the name of a project")


def _add_user(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--user", metavar="ID", help=meaning)


def _add_request(parser: argparse.ArgumentParser) -> None:
    _add_project(parser)
    parser.add_argument(
        "amounts", metavar="NAME=AMOUNT", nargs="+",
        help="how much more of a resource, such as cores=4; 0 asks whether a limit is "
        "exceeded already")
    _add_user(parser, "hold the request to the limits of this user, too")


def _parse_request(
    parts: service_parts.Services, ctx: Context, parsed_args: argparse.Namespace
) -> tuple[CheckResult, Mapping[str, int]]:
    deltas = _parse_deltas(parsed_args.amounts)
    return checks.check(
        ctx, parts.quota, project_id=_find_project_id(parts, ctx, parsed_args.project),
        deltas=deltas, user_id=parsed_args.user), deltas


def _explain_emptiness(parts: service_parts.Services, ctx: Context) -> str:
    source = parts.quota.describe_source(parts.quota.service_key(ctx))
    return f"No limits are registered for {source}."


def _parse_deltas(items: Sequence[str]) -> dict[str, int]:
    deltas: dict[str, int] = {}
    for item in items:
        name, equals, amount = item.rpartition("=")
        if not equals or not name or name in deltas or not (
                amount.isascii() and amount.isdigit() and int(amount[:20]) <= _LARGEST):
            raise base.Failed(
                f"{item}: expected NAME=AMOUNT, each name once, an amount from 0 to {_LARGEST}")
        deltas[name] = int(amount)
    return deltas


def _find_project_id(parts: service_parts.Services, ctx: Context, text: str) -> str:
    """Return the id of the one project of an id or name; an unknown text is an id."""
    if parts.catalog.project(ctx, text) is None and parts.catalog.domain(ctx, text) is None:
        ids = [project.id for project in parts.catalog.projects(ctx, name=text)]
        if len(ids) > 1:
            raise base.Failed(
                f"{text} names several projects: {', '.join(ids)}; name one by its id")
        if ids:
            return ids[0]
    return text


def _make_row(name: str, share: ResourceQuota) -> tuple[object, ...]:
    return (name, _Amount(share.limit), share.source, share.used, _Amount(share.free),
            _get_holder(share.tightest))


def _get_holder(bound: LimitUsage | None) -> str | None:
    return None if bound is None else bound.user_id or bound.node_id


class _Amount(base.FormattableColumn):
    """An amount; machines read it as the APIs spell it."""

    def human_readable(self) -> str:
        """Return it in words."""
        if self._value is None:
            return ""
        return _UNLIMITED if self._value == amounts.UNLIMITED else str(self._value)

    def machine_readable(self) -> int | None:
        """Return the number; -1 is no limit."""
        return None if self._value is None else amounts.to_wire(self._value)
