"""The table of the checks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from placement_core.engine_checks import (
    counts,
    error_meanings,
    isolation,
    locks,
    server,
    statements,
    texts,
    values,
)
from placement_core.engine_checks.trial import Trial

_SERVERS = ("postgresql", "mysql")
_ALL = ("sqlite", *_SERVERS)


class Check(NamedTuple):
    """One check.

    :ivar name: what it is about, in some words.
    :ivar function: returns if the engine passes.
    :ivar dialects: the engines that it is for: SQLite has one writer at a time and no server,
        and what is documented of one engine is not asked of it.
    """

    name: str
    function: Callable[[Trial], None]
    dialects: Collection[str] = _ALL

    @property
    def rule(self) -> str:
        """Return what the engine has to do, in one sentence."""
        return (self.function.__doc__ or "").strip().partition("\n")[0].rstrip(".")


CHECKS = (
    Check("version", server.version_is_known),
    Check("storage engine", server.tables_are_transactional, ("mysql",)),
    Check("durable commits", server.commits_are_durable),
    Check("cluster reads", server.other_nodes_are_waited_for, ("mysql",)),
    # Isolation.
    Check("updates wait", isolation.update_sees_committed_row),
    Check("guards", isolation.guard_is_checked_again),
    Check("guards after a rollback", isolation.guard_holds_after_rollback),
    Check("deleted rows", isolation.deleted_row_is_not_met),
    Check("reads under a lock", isolation.reads_after_lock_see_commits),
    Check("snapshots", isolation.snapshot_is_one_moment),
    Check("uncommitted rows", isolation.uncommitted_is_not_seen),
    Check("own writes", isolation.committed_is_seen_at_once),
    Check("rollback", isolation.rollback_undoes_all),
    Check("savepoints", isolation.savepoint_undoes_its_part),
    Check("lost commits", isolation.lost_commit_is_found),
    # Locks.
    Check("one writer", locks.writers_take_turns, ("sqlite",)),
    Check("row locks", locks.rows_are_locked_one_by_one, _SERVERS),
    Check("gap locks", locks.gaps_are_not_locked, _SERVERS),
    Check("locking reads", locks.locked_read_waits, _SERVERS),
    Check("skip locked", locks.locked_rows_are_skipped, _SERVERS),
    Check("order of locks", locks.rows_are_locked_in_order, _SERVERS),
    Check("inserts wait", locks.inserts_of_a_key_wait),
    # Counts and keys.
    Check("count of updates", counts.update_counts_found_rows),
    Check("count of deletes", counts.delete_counts_rows),
    Check("count of inserts", counts.skipping_insert_counts_new_rows),
    Check("skipping inserts wait", counts.skipping_insert_waits),
    Check("many rows", counts.many_rows_are_inserted),
    Check("upserts", counts.upserts_add_up),
    Check("ids", counts.ids_rise),
    # Errors.
    Check("duplicate keys", error_meanings.duplicate_key_is_refused),
    Check("foreign keys", error_meanings.missing_reference_is_refused, _SERVERS),
    Check("bad values", error_meanings.bad_values_are_refused),
    Check("deadlocks", locks.deadlock_ends_one, _SERVERS),
    Check("lock timeout", error_meanings.lock_wait_is_bounded),
    Check("statement timeout", error_meanings.statement_time_is_bounded, _SERVERS),
    Check("idle transactions", error_meanings.idle_transaction_is_ended, _SERVERS),
    Check("lost connections", error_meanings.lost_connection_undoes_all, _SERVERS),
    # Statements.
    Check("statements at once", statements.statements_go_together),
    Check("failures among them", statements.failure_ends_what_is_sent_together),
    Check("long lists", statements.long_lists_are_found),
    Check("large statements", statements.large_statements_pass),
    # Values.
    Check("texts", statements.texts_arrive_unchanged),
    Check("names", texts.names_differ_by_case_and_accents),
    Check("trailing blanks", texts.trailing_blanks_matter),
    Check("wide characters", texts.wide_characters_are_kept),
    Check("patterns", texts.patterns_are_exact),
    Check("sums", values.sums_do_not_overflow),
    Check("large numbers", values.numbers_of_64_bits_are_kept),
    Check("clock", values.clock_is_utc),
    Check("clock in transactions", values.clock_runs_in_transactions),
    # Schema.
    Check("schema changes", server.schema_changes_roll_back, ("sqlite", "postgresql")),
    Check("triggers", server.triggers_keep_strangers_out),
)
