"""The change log's tables.

Serials of one sequence do not commit in order, and one counter row would make every writer
queue. So the log has ``SLOTS`` heads, and a writer increments the head of its own slot: the
row's lock makes serials commit in order within a slot.
"""

import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata, utcnow

#: How many writers can append without waiting for each other.
SLOTS = 256

#: ``limits_serial`` is that of the revision of limits when they changed last: a transaction that
#: was decided by older ones cannot increment the head (see ``revisions``).
change_heads = sa.Table(
    "change_heads", metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("serial", sa.BigInteger, nullable=False),
    sa.Column("txn", sa.BigInteger, nullable=False),
    sa.Column("limits_serial", sa.BigInteger, nullable=False, server_default="0"),
    mysql_engine="InnoDB",
)

#: ``uuid`` and ``name`` are those of an object that has no ``ref``, or was deleted: the row is
#: its tombstone. ``project`` is the id that clients know, because the row in ``projects`` may be
#: gone when the change is read.
changes = sa.Table(
    "changes", metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("serial", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("txn", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("ref", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False, default=utcnow),
    sa.Column("uuid", sa.String(64)),
    sa.Column("name", sa.Unicode(255)),
    sa.Column("project", sa.String(255)),
    mysql_engine="InnoDB",
)

#: A row for each name in ``revisions.py``; a migration inserts it.
revisions = sa.Table(
    "revisions", metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("serial", sa.BigInteger, nullable=False),
    sa.Column("txn", sa.BigInteger, nullable=False),
    mysql_engine="InnoDB",
)

#: Who changed what: a row for each object that a request wrote, by the name of its transaction.
audit_log = sa.Table(
    "audit_log", metadata,
    sa.Column("txn", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", clock.DEADLINE, nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("request_id", sa.String(255)),
    sa.Column("operation", sa.String(255)),
    sa.Column("kind", sa.String(32)),
    sa.Column("uuid", sa.String(64)),
    sa.Column("name", sa.Unicode(255)),
    sa.Index("audit_log_at_idx", "at", "txn", "position"),
    sa.Index("audit_log_request_id_idx", "request_id"),
    sa.Index("audit_log_uuid_idx", "uuid"),
    **MYSQL_OPTIONS,
)
