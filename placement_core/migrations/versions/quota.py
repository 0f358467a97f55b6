"""Quota: cells and instances as nova's API database has them, what claims lock and hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: What the row is called that writers of cell mappings hold.
REVISION = "cells"

#: Tables that upstream does not have; those that refer to others first.
OWN_TABLES = (
    "instance_group_member", "instance_groups", "instance_mappings", "cell_mappings", "marks",
    "migrated_nodes", "limit_nodes", "held_claims", "rechecked_claims", "moves")

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    _cells(on)
    _server_groups(on)
    steps.add_revision(on, REVISION)
    _claims(on)


def _cells(on: operations.Operations) -> None:
    steps.create_table(
        on, "cell_mappings",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255)),
        sa.Column("transport_url", sa.Text, nullable=False),
        sa.Column("database_connection", sa.Text, nullable=False),
        sa.Column("disabled", sa.Boolean),
        sa.UniqueConstraint("uuid", name="uniq_cell_mappings0uuid"),
    )
    steps.create_table(
        on, "instance_mappings",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("cell_id", sa.Integer,
                  sa.ForeignKey("cell_mappings.id", name="instance_mappings_cell_id_fkey")),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("queued_for_delete", sa.Boolean),
        sa.UniqueConstraint("instance_uuid", name="uniq_instance_mappings0instance_uuid"),
        indexes={
            "project_id_idx": ["project_id"],
            "instance_mappings_user_id_project_id_idx": ["user_id", "project_id"],
        },
    )
    steps.create_table(
        on, "marks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "migrated_nodes",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("cell_uuid", sa.String(36), nullable=False),
        sa.Column("node_id", sa.Integer, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("migrated_at", sa.DateTime, nullable=False),
        indexes={"migrated_nodes_cell_uuid_idx": ["cell_uuid"]},
        times=False,
    )


def _server_groups(on: operations.Operations) -> None:
    steps.create_table(
        on, "instance_groups",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("project_id", sa.String(255)),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255)),
        sa.UniqueConstraint("uuid", name="uniq_instance_groups0uuid"),
    )
    steps.create_table(
        on, "instance_group_member",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("instance_uuid", sa.String(255)),
        sa.Column("group_id", sa.Integer,
                  sa.ForeignKey("instance_groups.id",
                                name="instance_group_member_group_id_fkey"),
                  nullable=False),
        indexes={
            "instance_group_member_instance_idx": ["instance_uuid"],
            "instance_group_member_group_id_idx": ["group_id"],
        },
    )


def _claims(on: operations.Operations) -> None:
    steps.create_table(
        on, "limit_nodes",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("node_id", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("accepted", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("node_id", name="uniq_limit_nodes0node_id"),
        times=False,
    )
    steps.create_table(
        on, "held_claims",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("consumer_uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("txn", sa.BigInteger, nullable=False),
        sa.Column("expires_at", _DEADLINE, nullable=False),
        sa.Column("ended_at", _DEADLINE),
        sa.UniqueConstraint("consumer_uuid", name="uniq_held_claims0consumer_uuid"),
        indexes={
            "held_claims_project_id_idx": ["project_id"],
            "held_claims_ended_at_expires_at_idx": ["ended_at", "expires_at"],
        },
        times=False,
    )
    steps.create_table(
        on, "rechecked_claims",
        sa.Column("consumer_uuid", sa.String(36), primary_key=True),
        sa.Column("stays", sa.Boolean, nullable=False),
        sa.Column("answered_at", sa.DateTime, nullable=False),
        indexes={"rechecked_claims_answered_at_idx": ["answered_at"]},
        times=False,
    )
    steps.create_table(
        on, "moves",
        sa.Column("consumer_uuid", sa.String(36), primary_key=True),
        sa.Column("resource_class_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("moved_from", sa.String(36), nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        indexes={
            "moves_moved_from_idx": ["moved_from"],
            "moves_project_id_idx": ["project_id"],
        },
        times=False,
    )
