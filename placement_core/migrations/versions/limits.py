"""Limits, and what became of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

#: Tables that upstream does not have; those that refer to others first.
OWN_TABLES = ("limit_history", "user_limits", "limits", "registered_limits")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    steps.create_table(
        on, "registered_limits",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(32), nullable=False),
        sa.Column("service_id", sa.String(64), nullable=False),
        sa.Column("region_key", sa.String(255), nullable=False),
        sa.Column("resource_name", sa.Unicode(255), nullable=False),
        sa.Column("default_limit", sa.Integer, nullable=False),
        sa.Column("description", sa.Unicode(255)),
        sa.UniqueConstraint("uuid", name="uniq_registered_limits0uuid"),
        sa.UniqueConstraint("service_id", "region_key", "resource_name",
                            name="uniq_registered_limits0service_region_resource"),
        indexes={
            "registered_limits_region_key_idx": ["region_key"],
        },
        times=False,
    )
    steps.create_table(
        on, "limits",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(32), nullable=False),
        sa.Column(
            "registered_limit_id", sa.Integer,
            sa.ForeignKey("registered_limits.id", name="limits_registered_limit_id_fkey"),
            nullable=False),
        sa.Column("node_id", sa.String(64), nullable=False),
        sa.Column("is_domain", sa.Boolean, nullable=False),
        sa.Column("resource_limit", sa.Integer, nullable=False),
        sa.Column("description", sa.Unicode(255)),
        sa.UniqueConstraint("uuid", name="uniq_limits0uuid"),
        sa.UniqueConstraint("registered_limit_id", "node_id",
                            name="uniq_limits0registered_limit_node"),
        indexes={
            "limits_node_id_idx": ["node_id"],
        },
        times=False,
    )
    steps.create_table(
        on, "user_limits",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(32), nullable=False),
        sa.Column(
            "registered_limit_id", sa.Integer,
            sa.ForeignKey("registered_limits.id", name="user_limits_registered_limit_id_fkey"),
            nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("resource_limit", sa.Integer, nullable=False),
        sa.Column("description", sa.Unicode(255)),
        sa.UniqueConstraint("uuid", name="uniq_user_limits0uuid"),
        sa.UniqueConstraint("registered_limit_id", "project_id", "user_id",
                            name="uniq_user_limits0registered_limit_project_user"),
        indexes={
            "user_limits_project_id_user_id_idx": ["project_id", "user_id"],
            "user_limits_user_id_idx": ["user_id"],
        },
        times=False,
    )
    steps.create_table(
        on, "limit_history",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("limit_uuid", sa.String(32), nullable=False),
        sa.Column("service_id", sa.String(64), nullable=False),
        sa.Column("region_key", sa.String(255), nullable=False),
        sa.Column("resource_name", sa.Unicode(255), nullable=False),
        sa.Column("project_id", sa.String(64)),
        sa.Column("domain_id", sa.String(64)),
        sa.Column("user_id", sa.String(255)),
        sa.Column("old_value", sa.Integer),
        sa.Column("new_value", sa.Integer),
        sa.Column("by_user_id", sa.String(255)),
        sa.Column("by_project_id", sa.String(255)),
        sa.Column("request_id", sa.String(255)),
        indexes={
            "limit_history_project_id_idx": ["project_id"],
            "limit_history_domain_id_idx": ["domain_id"],
            "limit_history_user_id_idx": ["user_id"],
            "limit_history_limit_uuid_idx": ["limit_uuid"],
            "limit_history_service_id_resource_name_idx": ["service_id", "resource_name"],
        },
        times=False,
    )
