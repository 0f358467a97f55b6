"""``openstack capacity quota ...``: what a project may have, has, and could still have."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osc_lib import exceptions

from capacityclient.osc.base import TABLE, Lister, Rows, format_amount


class _QuotaLister(Lister):
    """A command about the quota of a project."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--project", metavar="<project-id>",
                            help="the id of a project (default: that of the token)")
        parser.add_argument("--user", metavar="<user-id>",
                            help="regard the limits of this user, too")
        return parser

    def get_project_id(self, parsed_args: argparse.Namespace) -> str:
        """Return the project that the command is about."""
        project_id: str | None = parsed_args.project or self.capacity.project_id
        if project_id is None:
            raise exceptions.CommandError(
                "--project: expected the id of a project, because the token has none")
        return project_id

    def warn(self, answer: Mapping[str, Any]) -> None:
        """Say by which cells the numbers are too low."""
        for cell in answer["missing_cells"]:
            self.say(f"cell {cell['name'] or cell['uuid']} is missing: {cell['reason']}")


class ShowQuota(_QuotaLister):
    """Show what a project may have, has, and could still have.

    "free" regards the limits above the project, too; "held_by" is the one that leaves no more.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each resource."""
        project_id = self.get_project_id(parsed_args)
        answer = self.capacity.get(f"/quota/{project_id}", {"user_id": parsed_args.user})
        self.warn(answer)
        limits_of = answer["limits_of"]
        self.empty = (
            "No limits bind this project: none are registered for service "
            f"{limits_of['service_type']}.")
        resources = answer["user"]["resources"] if "user" in answer else answer["resources"]
        return ("resource", "limit", "source", "used", "free", "held_by"), [
            (name, _render(share["limit"], parsed_args), share["source"], share["used"],
             _render(share["free"], parsed_args),
             None if share["tightest"] is None else share["tightest"]["node_id"])
            for name, share in resources.items()]


class _RequestLister(_QuotaLister):
    """A command about a request for more."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "amounts", metavar="<name>=<amount>", nargs="+", type=_parse_amount,
            help="how much more of a resource, such as cores=4")
        return parser

    def ask(self, path: str, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Ask about the request. Exit code 1: it does not fit."""
        body = {"project_id": self.get_project_id(parsed_args),
                "deltas": dict(parsed_args.amounts)}
        if parsed_args.user is not None:
            body["user_id"] = parsed_args.user
        answer = self.capacity.ask(path, body)
        self.warn(answer)
        if answer["unregistered"]:
            self.say(f"no limit is registered for {', '.join(answer['unregistered'])}")
        self.exit_code = int(not answer["fits"])
        return answer


class CheckQuota(_RequestLister):
    """Say whether a request fits into the limits; list those it exceeds.

    Exit code 1: it does not fit.
    """

    empty = "It fits."

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each limit that is exceeded."""
        columns = ("resource_name", "node_id", "scope", "limit", "used", "asked", "over_by")
        excesses: Sequence[Mapping[str, Any]] = self.ask("/quota/check", parsed_args)["excesses"]
        return columns, [tuple(excess[name] for name in columns) for excess in excesses]


class ExplainQuota(_RequestLister):
    """Say in sentences what stops a request, or how much more would fit.

    Exit code 1: it does not fit.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Return a row for each limit that stops it, or for each resource."""
        answer = self.ask("/explain/quota", parsed_args)
        rows = [(stop["resource_name"], stop["node_id"], stop["sentence"])
                for stop in answer["stops"]]
        rows += [(name, more["tightest"] and more["tightest"]["node_id"], more["sentence"])
                 for name, more in answer["more"].items()]
        return ("resource", "node_id", "sentence"), rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str],
        data: Iterable[Sequence[object]],
    ) -> Any:
        """Print sentences for people, rows for programs."""
        if parsed_args.formatter != TABLE:
            return super().produce_output(parsed_args, column_names, data)
        for *_, sentence in data:
            print(sentence, file=self.app.stdout)
        return 0


def _parse_amount(text: str) -> tuple[str, int]:
    name, equals, amount = text.rpartition("=")
    if not (name and equals and amount.isascii() and amount.isdecimal()):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected <name>=<amount>, an amount from 0 on")
    return name, int(amount)


def _render(amount: int | None, parsed_args: argparse.Namespace) -> str | int | None:
    return format_amount(amount) if parsed_args.formatter == TABLE else amount
