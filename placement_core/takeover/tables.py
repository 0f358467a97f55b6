"""The tables of what was copied, and of what was compared."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.db.clock import DEADLINE
from placement_core.db.metadata import MYSQL_OPTIONS, metadata, utcnow

#: What came from which source; written in the transaction of the copy.
copied_records = sa.Table(
    "copied_records", metadata,
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("kind", sa.String(32), primary_key=True),
    sa.Column("record_id", sa.String(255), primary_key=True),
    sa.Column("copied_at", sa.DateTime, nullable=False, default=utcnow),
    **MYSQL_OPTIONS,
)

#: How far a comparison is, or what it came to; a row for each source of a run.
comparisons = sa.Table(
    "comparisons", metadata,
    sa.Column("run_id", sa.String(32), primary_key=True),
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("location", sa.Text, nullable=False),
    sa.Column("started_at", DEADLINE, nullable=False),
    sa.Column("finished_at", DEADLINE),
    sa.Column("compared", sa.Integer, nullable=False),
    sa.Column("differences", sa.Integer, nullable=False),
    # How many records cannot be copied; null: an earlier release compared, which did not count.
    sa.Column("left_out", sa.Integer),
    # The last record that was compared; without an id, all of its kind were.
    sa.Column("kind", sa.String(32)),
    sa.Column("record_id", sa.String(255)),
    **MYSQL_OPTIONS,
)

#: What a comparison found, in the order in which it did.
comparison_findings = sa.Table(
    "comparison_findings", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("run_id", sa.String(32), nullable=False),
    sa.Column("source", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("record_id", sa.String(255), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("records", sa.Integer, nullable=False),
    sa.Column("differences", sa.Text, nullable=False),
    sa.Index("comparison_findings_run_id_source_idx", "run_id", "source"),
    **MYSQL_OPTIONS,
)
