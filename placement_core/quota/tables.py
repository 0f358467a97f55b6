"""The tables of quota: limit nodes, held claims, and the answers of re-checks."""


import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata, utcnow

#: A row for each domain or project whose limits bind claims: claims that count against
#: the same node lock its row, and so wait for each other. Accepting a re-check that the
#: node binds increments ``accepted``. ``locked_at`` is when it was locked last, or when the
#: manager found that it had never been. ``fullness`` is an upper bound, as ``quota.fullness`` has
#: it; NULL: not known. ``fullness_of`` names the limits that it is about.
limit_nodes = sa.Table(
    "limit_nodes", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("node_id", sa.String(255), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("accepted", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("locked_at", clock.DEADLINE),
    sa.Column("fullness", sa.BigInteger),
    sa.Column("fullness_of", sa.BigInteger),
    sa.UniqueConstraint("node_id", name="uniq_limit_nodes0node_id"),
    **MYSQL_OPTIONS,
)

#: Claims that expire unless they are confirmed in time. ``txn`` is that of the allocations
#: that the claim wrote; others are not its own. The row of an ended claim is kept for a
#: while, so that a late confirmation is refused with the reason.
held_claims = sa.Table(
    "held_claims", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("consumer_uuid", sa.String(36), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("txn", sa.BigInteger, nullable=False),
    sa.Column("expires_at", clock.DEADLINE, nullable=False),
    sa.Column("ended_at", clock.DEADLINE),
    sa.UniqueConstraint("consumer_uuid", name="uniq_held_claims0consumer_uuid"),
    sa.Index("held_claims_project_id_idx", "project_id"),
    sa.Index("held_claims_ended_at_expires_at_idx", "ended_at", "expires_at"),
    **MYSQL_OPTIONS,
)

#: Consumers (instances) that were re-checked: they stay, or have to go.
rechecked_claims = sa.Table(
    "rechecked_claims", metadata,
    sa.Column("consumer_uuid", sa.String(36), primary_key=True),
    sa.Column("stays", sa.Boolean, nullable=False),
    sa.Column("answered_at", sa.DateTime, nullable=False, default=utcnow),
    sa.Index("rechecked_claims_answered_at_idx", "answered_at"),
    **MYSQL_OPTIONS,
)
