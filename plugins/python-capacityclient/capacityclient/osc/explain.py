"""``openstack capacity explain``: why there are no allocation candidates, or not more."""

from __future__ import annotations

import argparse
import urllib.parse
from collections.abc import Mapping

from capacityclient.osc.base import Lister, Rows


class ExplainCandidates(Lister):
    """Explain what leaves out providers when allocation candidates are asked for."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "query", metavar="<query>",
            help="what follows the ? in GET /allocation_candidates?..., such as "
            "'resources=VCPU:4&required=HW_CPU_X86_AVX2'")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each filter, with how many providers or trees it leaves."""
        query = urllib.parse.quote(parsed_args.query, safe="=&,:!%")
        answer = self.capacity.get(f"/explain/allocation_candidates?{query}")
        self.say(answer["reason"] or f"{answer['candidates']} allocation candidates")
        return ("what", "group", "filter", "value", "left"), [
            *(_make_row("providers", group["group"], step)
              for group in answer["groups"] for step in group["filters"]),
            *(_make_row("trees", None, step) for step in answer["trees"]["filters"])]


def _make_row(what: str, group: str | None, step: Mapping[str, object]) -> tuple[object, ...]:
    return what, group, step["filter"], step["value"], step["left"]
