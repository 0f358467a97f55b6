"""``placement-core status upgrade check``: what to do before services are restarted."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterable, Iterator

from oslo_config import cfg
from oslo_upgradecheck import common_checks, upgradecheck

from placement_core import configured_database, errors, services
from placement_core.cli import base
from placement_core.context import Context
from placement_core.db import sqlite_files
from placement_core.migrations import checks, compatibility
from placement_core.placement.allocations import usage_counters
from placement_core.placement.usage import audit
from placement_core.quota import nodes
from placement_core.reservations.provisioning import slot_providers

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

_SUCCESS = upgradecheck.Result(upgradecheck.Code.SUCCESS)


class CheckUpgrade(base.Checker):
    """Check whether the database and the configuration are ready for this version.

    Exit code 0: ready. 1: warnings. 2: failures. 255: the checks did not run.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the checks; without ``-f`` they print what every OpenStack service prints."""
        checks = UpgradeChecks(self.conf(parsed_args))
        if parsed_args.formatter == base.TABLE:
            self.exit_code = int(checks.check())
            return (), []
        results = checks.run()
        self.exit_code = max(int(result.code) for _, result in results)
        return ("check", "result", "details"), [
            (name, result.code.name.lower(), result.details) for name, result in results]


class UpgradeChecks(upgradecheck.UpgradeCommands):
    """The checks; the first three are upstream Placement's."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> list[tuple[str, upgradecheck.Result]]:
        """Run all checks; return their names and results."""
        return [(name, check(self)) for name, check in self._upgrade_checks]

    @functools.cached_property
    def _state(self) -> checks.SchemaState:
        return checks.read_state(configured_database.make_settings(self._conf))

    def _roots(self) -> upgradecheck.Result:
        if not self._state.rootless:
            return _SUCCESS
        return _make_failure(
            f"{self._state.rootless} resource providers have no root provider id. "
            "Run `placement-core db sync`, which fills them when it takes the database over.")

    def _consumers(self) -> upgradecheck.Result:
        if not self._state.unrecorded:
            return _SUCCESS
        return _make_warning(
            f"{self._state.unrecorded} consumers hold allocations without a consumer record. "
            "Run `placement-core db online-data-migrations`.")

    def _policy_json(self) -> upgradecheck.Result:
        return common_checks.check_policy_json(self, self._conf)

    def _schema(self) -> upgradecheck.Result:
        if not self._state.behind:
            return _SUCCESS
        if self._state.newer:
            return _make_failure(
                f"The schema is at revision {self._state.revision}, which this version does not "
                "know: a newer version upgraded it. Install that version here.")
        if self._state.adoptable:
            return _make_failure(
                "This is a database of upstream Placement. Stop its service and run "
                "`placement-core db sync` to take it over.")
        if self._state.revision is None and self._state.has_tables:
            return _make_failure(
                "This database has Placement's tables at upstream revision "
                f"{self._state.upstream_revision}; `placement-core db sync` says what to do.")
        return _make_failure(
            f"The schema is at revision {self._state.revision}. Run `placement-core db sync`.")

    def _sequences(self) -> upgradecheck.Result:
        behind = self._state.behind_sequences
        if not behind:
            return _SUCCESS
        sentences = "; ".join(map(str, behind))
        return _make_failure(
            f"{sentences[0].upper()}{sentences[1:]}. Rows cannot be added there, so claims are "
            "answered 503. Stop the services and run `placement-core db sync`, which sets them.")

    def _sums(self) -> upgradecheck.Result:
        if self._state.behind:
            return _SUCCESS  # the check of the schema says what is missing
        with self._parts() as (_, ctx):
            findings = audit.audit(ctx, repair=False)
            summed_up = usage_counters.are_summed_up(ctx)
            fullness_is_kept = nodes.is_fullness_kept(ctx)
        if findings:
            return _make_failure(
                f"{len(findings)} stored amounts differ from the allocations. Run "
                "`placement-core db audit` to see them and `db audit --repair` to correct them.")
        if not summed_up:
            return _make_warning(
                "What everybody in a project uses is not summed up yet; guarded claims read a "
                "row for each user. Run `placement-core db online-data-migrations`, when no "
                "worker of an older version is left.")
        if not fullness_is_kept:
            return _make_warning(
                "How full limits are is not kept yet; guarded claims read the usage below them. "
                "Run `placement-core db online-data-migrations`, when no worker of an older "
                "version is left.")
        return _SUCCESS

    def _slots(self) -> upgradecheck.Result:
        """Find providers of the slots on pool hosts that clients can delete, as nova does."""
        if self._state.behind:
            return _SUCCESS
        with self._parts() as (_, ctx):
            count = slot_providers.count_unprotected(ctx)
        if not count:
            return _SUCCESS
        return _make_warning(
            f"Clients can delete the providers for slots of {count} hosts of the freepool, or "
            "have done so. Run `placement-core db online-data-migrations`.")

    def _fence(self) -> upgradecheck.Result:
        if not self._state.open_to_upstream:
            return _SUCCESS
        return _make_warning(
            "The database server did not let us make triggers, so the updates and deletes of a "
            "forgotten process of OpenStack Placement would pass. Make sure that none runs.")

    def _file(self) -> upgradecheck.Result:
        """Find files of an SQLite database that others can read."""
        exposed = sqlite_files.find_exposed(self._conf.placement_database.connection)
        if not exposed:
            return _SUCCESS
        return _make_warning(
            f"Others than their owner can use {', '.join(exposed)}, and passwords of cells' "
            "databases may be in there. Run `chmod 600` on them.")

    def _mappings(self) -> upgradecheck.Result:
        if self._state.behind:
            return _SUCCESS
        with self._parts() as (parts, ctx):
            try:
                count, without_cell = checks.count_unfilled(ctx, parts.cells)
            except errors.Unavailable as error:
                return _make_warning(f"[api_database] connection: {error}")
        if not count:
            return _SUCCESS
        return _make_warning(
            f"{count} instance mappings have no user_id or no queued_for_delete ({without_cell} "
            "of them have no cell yet); their projects are counted from the cells, and `db sync "
            "--contract` is refused. Run `placement-core db online-data-migrations`.")

    def _nodes(self) -> upgradecheck.Result:
        if self._state.behind:
            return _SUCCESS
        with self._parts() as (parts, ctx):
            try:
                waiting = parts.compute_nodes.dry_run(ctx)
            except errors.Unavailable as error:
                return _make_warning(f"[api_database] connection: {error}")
        if not waiting.found and not waiting.missing:
            return _SUCCESS
        return _make_warning(" ".join([
            f"{waiting.found} compute nodes are not migrated, or have changed since. Run "
            "`placement-core compute migrate`.", *waiting.troubles]))

    def _limits(self) -> upgradecheck.Result:
        """Find limits that bind no project: they are not read, or nothing counts them."""
        if self._state.behind:
            return _SUCCESS
        with self._parts() as (parts, ctx):
            try:
                gaps = parts.limit_gaps(ctx)
            except errors.Unavailable as error:
                return _make_warning(f"The limits cannot be read now: {error}")
        return _make_warning(" ".join(gaps)) if gaps else _SUCCESS

    @contextlib.contextmanager
    def _parts(self) -> Iterator[tuple[services.Services, Context]]:
        parts = services.build(self._conf)
        try:
            compatibility.require_newest(parts.database)
            yield parts, parts.context()
        finally:
            parts.database.dispose()

    _upgrade_checks = (
        ("Missing Root Provider IDs", _roots),
        ("Incomplete Consumers", _consumers),
        ("Policy File JSON to YAML Migration", _policy_json),
        ("Database Schema", _schema),
        ("Old Service Fenced Off", _fence),
        ("Database File Private", _file),
        ("Sequences Ahead of Their Tables", _sequences),
        ("Usage Equals Allocations", _sums),
        ("Providers of Slots Protected", _slots),
        ("Instance Mappings Complete", _mappings),
        ("Compute Nodes Migrated", _nodes),
        ("Limits Are Counted", _limits),
    )


def _make_warning(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.WARNING, details)


def _make_failure(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.FAILURE, details)
