"""``placement-core explain …``: why an answer is what it is."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from typing import Any

from placement_core.cli import base
from placement_core.http import validation
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import candidates as queries
from placement_core.placement.candidates import explain


class ExplainCandidates(base.Shower):
    """Say how many allocation candidates a query has, and what leaves out the others.

    With -f json: the document of GET /capacity/v1/explain/allocation_candidates.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "query", metavar="QUERY",
            help="what follows the ? in GET /allocation_candidates?…, at the newest microversion, "
            "such as 'resources=VCPU:4&required=!CUSTOM_SLOW'")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[object]]:
        """Run the command."""
        # As a server hands it over: its bytes, one character for each.
        query = validation.parse_query(
            parsed_args.query.encode(errors="surrogateescape").decode("latin-1"))
        request = queries.parse(query, microversions.NEWEST)
        with self.parts(parsed_args) as (parts, ctx):
            snapshot = parts.index.snapshot(ctx)
        most = parts.conf.placement.max_allocation_candidates
        document = dataclasses.asdict(
            explain.explain_candidates(
                snapshot, request, max_candidates=most if most >= 0 else None,
                exclude_reserved=parts.host_access is not None))
        columns = {"groups": _Groups, "trees": _Trees, "combinations": _Combinations}
        return tuple(document), [
            columns[name](value) if name in columns else value for name, value in document.items()]


class _Groups(base.FormattableColumn):
    """The filters of each group."""

    def human_readable(self) -> str:
        """Return a line for each filter."""
        return "\n".join(
            line for group in self._value
            for line in (f"group {group['group'] or 'without suffix'}",
                         *_format_filters(group["filters"])))


class _Trees(base.FormattableColumn):
    """The filters of trees."""

    def human_readable(self) -> str:
        """Return a line for each filter."""
        return "\n".join((
            f"{self._value['total']} in all", *_format_filters(self._value["filters"])))


class _Combinations(base.FormattableColumn):
    """What combining dropped."""

    def human_readable(self) -> str:
        """Return a line for each rule that dropped something."""
        first = "" if self._value["complete"] else "the first "
        return "\n".join((
            f"{first}{self._value['examined']} examined",
            *(f"  {count} dropped by {rule}"
              for rule, count in self._value["dropped"].items() if count)))


def _format_filters(filters: Iterable[dict[str, Any]]) -> Iterable[str]:
    return (f"  {item['left']} left by {item['filter']}={item['value']}" for item in filters)
