"""Leases: each time that a reservation had a host is a row, and windows are found by length."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES: tuple[str, ...] = ()

_HELD, _AMOUNTS = "computehost_allocations", "reservation_amounts"
_KEY = ["reservation_id", "computehost_id", "start_second"]
_COLUMNS = (
    "reservation_id", "computehost_id", "slots", "vcpus", "memory_mb", "disk_gb", "whole",
    "start_second", "end_second", "host_name")
_CLASS = "CASE " + " ".join(
    f"WHEN end_second - start_second < {4**power} THEN {power - 6}"
    for power in range(6, 14)) + " ELSE 8 END"


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    if on.get_bind().dialect.name == "sqlite":
        _renew_tables(on)
    else:
        _change_tables(on)
    steps.create_index(on, "leases_ended_at_idx", "leases", ["ended_at"])
    for table in (_HELD, _AMOUNTS):
        steps.create_index(
            on, f"{table}_window_idx", table, ["duration_class", "start_second"])


def _duration_class() -> sa.Column[int]:
    return sa.Column("duration_class", sa.SmallInteger, sa.Computed(_CLASS, persisted=True))


def _has_class(on: operations.Operations, table: str) -> bool:
    return "duration_class" in {
        column["name"] for column in sa.inspect(on.get_bind()).get_columns(table)}


def _change_tables(on: operations.Operations) -> None:
    for table in (_HELD, _AMOUNTS):
        if not _has_class(on, table):
            on.add_column(table, _duration_class())
    key = sa.inspect(on.get_bind()).get_pk_constraint(_HELD)
    if key["constrained_columns"] == _KEY:
        return
    # In one statement: MySQL does without the old key only where the new one is there for the
    # reference to reservations.
    drop = ("DROP PRIMARY KEY" if on.get_bind().dialect.name == "mysql"
            else f"DROP CONSTRAINT {key['name']}")
    on.execute(f"ALTER TABLE {_HELD} {drop}, ADD PRIMARY KEY ({', '.join(_KEY)})")


def _renew_tables(on: operations.Operations) -> None:
    """Do the same where a table cannot be changed like that."""
    if not _has_class(on, _AMOUNTS):
        with on.batch_alter_table(_AMOUNTS, recreate="always") as batch:
            batch.add_column(_duration_class())
    if _has_class(on, _HELD):
        return
    on.rename_table(_HELD, f"{_HELD}_before")
    on.create_table(
        _HELD,
        sa.Column("reservation_id", sa.String(36),
                  sa.ForeignKey("lease_reservations.id",
                                name="computehost_allocations_reservation_id_fkey"),
                  primary_key=True),
        sa.Column("computehost_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("vcpus", sa.BigInteger, nullable=False),
        sa.Column("memory_mb", sa.BigInteger, nullable=False),
        sa.Column("disk_gb", sa.BigInteger, nullable=False),
        sa.Column("whole", sa.Boolean, nullable=False),
        sa.Column("start_second", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("end_second", sa.BigInteger, nullable=False),
        sa.Column("host_name", sa.String(255)),
        _duration_class())
    new, old = (sa.table(name, *(sa.column(column) for column in _COLUMNS))
                for name in (_HELD, f"{_HELD}_before"))
    on.execute(sa.insert(new).from_select(_COLUMNS, sa.select(old)))
    on.drop_table(f"{_HELD}_before")
    steps.create_index(
        on, "computehost_allocations_host_end_idx", _HELD, ["computehost_id", "end_second"])
    steps.create_index(on, "computehost_allocations_end_idx", _HELD, ["end_second"])
