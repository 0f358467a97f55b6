"""``placement-core workers list`` and ``refusals list``: who serves, and what was refused."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core.cli import base
from placement_core.cli.names import CatalogNames, add_project_filter, find_project_id
from placement_core.workers import store

_NOBODY_REPORTS = (
    "processes report where [workers] report or [dashboard] enabled is set")


class ListWorkers(base.Lister):
    """List the processes that served in the last hour, those heard of last first.

    They report where [workers] report or [dashboard] enabled is set.
    """

    empty = f"No process reported in the last hour; {_NOBODY_REPORTS}."
    beside = ("uuid", "started_at", "index_read_at", "refusals", "codes")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        base.add_limit(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            return ("uuid", "host", "process_id", "version", "started_at", "seen_at", "alive",
                    "index_read_at", "index_providers", "in_flight", "requests", "refusals",
                    "refusals_last_minute", "codes"), [
                (worker.uuid, worker.host, worker.process_id, worker.version,
                 worker.started_at.isoformat(), worker.seen_at.isoformat(), worker.is_alive,
                 None if worker.index_read_at is None else worker.index_read_at.isoformat(),
                 worker.index_providers, worker.in_flight, worker.requests, worker.refusals,
                 worker.refusals_last_minute, _Codes(worker.codes))
                for worker in store.list_workers(ctx, parsed_args.limit)]


class ListRefusals(base.Lister):
    """List the requests that were refused in the last hour, the newest first.

    Equal refusals are one row. Processes report them where [workers] report or [dashboard]
    enabled is set.
    """

    empty = f"No request was refused in the last hour; {_NOBODY_REPORTS}."
    beside = ("first_at", "project_id", "user_id", "request_id")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_project_filter(parser)
        base.add_limit(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[object, ...]]]:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            project = parsed_args.project
            refusals = store.list_refusals(
                ctx, parsed_args.limit,
                project_id=None if project is None else find_project_id(parts, ctx, project))
            names = CatalogNames(parts, ctx, self.note)
            return ("at", "first_at", "times", "operation", "status", "code", "project_id",
                    "project_name", "user_id", "request_id", "detail"), [
                (refusal.at.isoformat(), refusal.first_at.isoformat(), refusal.times,
                 refusal.cause.operation, refusal.cause.status, refusal.cause.code,
                 refusal.cause.project_id, names.node(refusal.cause.project_id),
                 refusal.cause.user_id, refusal.request_id, refusal.detail)
                for refusal in refusals]


class _Codes(base.FormattableColumn):
    """How many requests were refused, by the code of the error."""

    def human_readable(self) -> str:
        """Return a line for each code."""
        return "\n".join(f"{code}: {times}" for code, times in sorted(self._value.items()))

    def machine_readable(self) -> dict[str, int]:
        """Return {code: number}."""
        return dict(self._value)
