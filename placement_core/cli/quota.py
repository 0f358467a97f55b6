"""``placement-core quota …``: what projects may have, have, and could still have."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from placement_core import amounts, services as service_parts
from placement_core.cli import base, quota_tree
from placement_core.cli.names import CatalogNames, find_project_id
from placement_core.context import Context
from placement_core.plugin_api.counting import MissingCell
from placement_core.quota import checks, explain, usage
from placement_core.quota.checks import CheckResult
from placement_core.quota.explain import QuotaExplanation
from placement_core.quota.records import LimitUsage
from placement_core.quota.top_consumers import TopConsumer
from placement_core.quota.usage import ResourceQuota

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_UNLIMITED = "unlimited"
_LARGEST = 2**31 - 1


class _QuotaLister(base.Lister):
    """A command that needs the service's parts; its exit code may say more."""

    def warn(
        self, parts: service_parts.Services, ctx: Context, missing: Iterable[MissingCell]
    ) -> None:
        """Print what the numbers lack, and which limits bind nobody."""
        for gap in parts.limit_gaps(ctx):
            self.note(gap)
        for cell in missing:
            since = "" if cell.known_since_seconds is None else (
                f"; counted as it was {cell.known_since_seconds:.0f} seconds ago")
            self.note(f"cell {cell.name} ({cell.uuid}) is missing: {cell.reason}{since}")


class ShowQuota(_QuotaLister):
    """Show what a project may have, has, and could still have.

    "free" regards every limit above the project, too; "held_by" is the one that leaves
    no more. Cells that could not be counted are named on stderr.
    """

    beside = ("held_by",)

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
                ctx, parts.quota, find_project_id(parts, ctx, parsed_args.project),
                parsed_args.user)
            count = project_quota.count
            self.warn(parts, ctx, count.missing_cells if count is not None else ())
            self.empty = ("No limits bind this project: none are registered for "
                          f"{_describe_source(parts, ctx)}.")
            shares = (project_quota.resources if project_quota.of_user is None
                      else project_quota.of_user)
            names = CatalogNames(parts, ctx, self.note)
            return ("resource_name", "limit", "source", "used", "free", "held_by",
                    "held_by_name"), [
                _make_row(name, share, names) for name, share in shares.items()]


class ListQuotas(_QuotaLister):
    """Show the same of all projects: the catalog's, and those that use something."""

    beside = ("held_by",)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            overview = parts.overviews.make(ctx)
            count = overview.count
            self.warn(parts, ctx, count.missing_cells if count is not None else ())
            self.empty = (f"No limits are registered for {_describe_source(parts, ctx)}."
                          if overview.project_ids
                          else "The catalog has no projects, and nobody uses anything.")
            names = CatalogNames(parts, ctx, self.note)
            holders = {id_: names.node(id_) for column in overview.resources.values()
                       for id_ in column.held_by}
        unknown: list[None] = [None] * len(overview.project_ids)
        cells = [
            (name, list(zip(column.limits, column.sources, column.used or unknown,
                            column.free or unknown, column.held_by, strict=True)))
            for name, column in overview.resources.items()]
        return ("project_id", "name", "resource_name", "limit", "source", "used", "free",
                "held_by", "held_by_name"), [
            (project_id, overview.names.get(project_id), name, _Amount(amounts.from_wire(limit)),
             source, used, _Amount(None if free is None else amounts.from_wire(free)), held_by,
             holders[held_by])
            for row, project_id in enumerate(overview.project_ids)
            for name, column in cells
            for limit, source, used, free, held_by in [column[row]]]


class CheckQuota(_QuotaLister):
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
                self.empty = "\n".join(["It fits.", *explanation.sentences])
            names = CatalogNames(parts, ctx, self.note)
            self.exit_code = int(not answer.fits)
            return ("resource_name", "node_id", "node_name", "user_id", "scope", "source",
                    "limit", "used", "asked", "over_by"), [
                (exceeded.resource_name, exceeded.node_id, names.node(exceeded.node_id),
                 exceeded.user_id, exceeded.scope, exceeded.source, _Amount(exceeded.limit),
                 exceeded.used, exceeded.asked, exceeded.over_by)
                for exceeded in answer.exceeded_limits]


class ExplainQuota(_QuotaLister):
    """Say in sentences what stops a request, and what would have to go; or how much more fits.

    Below them, each resource has the limits that bind it as a tree, from the domain down to
    the project. Exit code 1: it does not fit.
    """

    pictures: Sequence[str] = ()

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
            names = CatalogNames(parts, ctx, self.note)
            self.exit_code = int(not answer.fits)
            if parsed_args.formatter == base.TABLE:
                self.pictures = [quota_tree.draw(answer.measure, name, deltas[name], names)
                                 for name in sorted(deltas)]
            return ("resource_name", "node_id", "node_name", "sentence", "consumers",
                    "limits"), _list_reasons(explanation, names)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> int:
        """Print sentences and trees for people, rows for machines."""
        if parsed_args.formatter != base.TABLE:
            return super().produce_output(parsed_args, column_names, data)
        sentences = [str(row[column_names.index("sentence")]) for row in data]
        print("\n\n".join(["\n".join(sentences), *self.pictures]), file=self.app.stdout)
        return 0


def _list_reasons(
    explanation: QuotaExplanation, names: CatalogNames
) -> list[tuple[object, ...]]:
    """Return a row for each limit that stops a request, or for each resource if none does."""
    usages = explanation.answer.measure.limit_usages
    reasons: list[tuple[str, str | None, str, Sequence[TopConsumer]]] = [
        *((stop.exceeded_limit.resource_name, stop.exceeded_limit.node_id, stop.sentence,
           stop.holders) for stop in explanation.stops),
        *((more.resource_name, None if more.bound is None else more.bound.node_id,
           more.sentence, ()) for more in explanation.more)]
    return [
        (name, node_id, names.node(node_id), sentence,
         [{**dataclasses.asdict(consumer),
           "project_name": names.node(consumer.project_id).machine_readable()}
          for consumer in consumers],
         [_make_limit(usage, names) for usage in usages[name]])
        for name, node_id, sentence, consumers in reasons]


def _make_limit(usage: LimitUsage, names: CatalogNames) -> dict[str, object]:
    return {
        "node_id": usage.node_id, "node_name": names.node(usage.node_id).machine_readable(),
        "user_id": usage.user_id, "scope": usage.scope, "source": usage.source,
        "limit": amounts.to_wire(usage.limit), "used": usage.used,
        "free": amounts.to_wire(usage.free)}


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
        ctx, parts.quota, project_id=find_project_id(parts, ctx, parsed_args.project),
        deltas=deltas, user_id=parsed_args.user), deltas


def _describe_source(parts: service_parts.Services, ctx: Context) -> str:
    return parts.quota.describe_source(parts.quota.service_key(ctx))


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


def _make_row(name: str, share: ResourceQuota, names: CatalogNames) -> tuple[object, ...]:
    return (name, _Amount(share.limit), share.source, share.used, _Amount(share.free),
            *_make_holder(share.tightest, names))


def _make_holder(
    bound: LimitUsage | None, names: CatalogNames
) -> tuple[str | None, base.NameOrId | None]:
    """Return the id and the name of the user, project or domain that leaves no more."""
    if bound is None:
        return None, None
    if bound.user_id is not None:
        return bound.user_id, base.NameOrId((None, bound.user_id))
    return bound.node_id, names.node(bound.node_id)


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
