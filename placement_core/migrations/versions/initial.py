"""The tables of upstream Placement at its a082b8bb98d0, and ours beside them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: Columns that adoption adds to upstream's tables: {table: names}; all NOT NULL.
ADDED_COLUMNS = {
    "resource_providers": ("revision",),
    "resource_classes": ("revision",),
    "inventories": ("used", "capacity"),
    "allocations": ("txn",),
}
#: Those of them that must not have a default once the rows are filled, so that
#: an upstream process that still inserts fails.
FENCED_COLUMNS = {"inventories": ("used", "capacity"), "allocations": ("txn",)}
#: Tables that upstream does not have.
OWN_TABLES = ("usage_counters", "change_heads", "changes")
CHANGE_SLOTS = 256


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    create_upstream_tables(on)
    create_own_tables(on)


def create_upstream_tables(on: operations.Operations) -> None:
    """Create the tables that upstream has too, with our columns in them."""
    steps.create_table(
        on, "resource_providers",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.Unicode(200)),
        sa.Column("generation", sa.Integer),
        sa.Column("root_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
        sa.Column("parent_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
        sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
        indexes={
            "resource_providers_root_provider_id_idx": ["root_provider_id"],
            "resource_providers_parent_provider_id_idx": ["parent_provider_id"],
        },
    )
    steps.create_table(
        on, "inventories",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("resource_provider_id", sa.Integer, nullable=False),
        sa.Column("resource_class_id", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("reserved", sa.Integer, nullable=False),
        sa.Column("min_unit", sa.Integer, nullable=False),
        sa.Column("max_unit", sa.Integer, nullable=False),
        sa.Column("step_size", sa.Integer, nullable=False),
        sa.Column("allocation_ratio", sa.Float, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("capacity", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("resource_provider_id", "resource_class_id",
                            name="uniq_inventories0resource_provider_resource_class"),
        indexes={"inventories_resource_class_id_idx": ["resource_class_id"]},
    )
    steps.create_table(
        on, "allocations",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("resource_provider_id", sa.Integer, nullable=False),
        sa.Column("consumer_id", sa.String(36), nullable=False),
        sa.Column("resource_class_id", sa.Integer, nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("txn", sa.BigInteger, nullable=False),
        indexes={
            "allocations_resource_provider_class_used_idx":
                ["resource_provider_id", "resource_class_id", "used"],
            "allocations_resource_class_id_idx": ["resource_class_id"],
            "allocations_consumer_id_idx": ["consumer_id"],
        },
    )
    steps.create_table(
        on, "resource_classes",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("name", name="uniq_resource_classes0name"),
    )
    steps.create_table(
        on, "traits",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("name", sa.Unicode(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_traits0name"),
    )
    steps.create_table(
        on, "resource_provider_traits",
        sa.Column("trait_id", sa.Integer, sa.ForeignKey("traits.id"),
                  primary_key=True, nullable=False),
        sa.Column("resource_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"),
                  primary_key=True, nullable=False),
        indexes={"resource_provider_traits_resource_provider_trait_idx":
                 ["resource_provider_id", "trait_id"]},
    )
    steps.create_table(
        on, "placement_aggregates",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36)),
        sa.UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    )
    steps.create_table(
        on, "resource_provider_aggregates",
        sa.Column("resource_provider_id", sa.Integer, primary_key=True, nullable=False,
                  autoincrement=False),
        sa.Column("aggregate_id", sa.Integer, primary_key=True, nullable=False,
                  autoincrement=False),
        indexes={"resource_provider_aggregates_aggregate_id_idx": ["aggregate_id"]},
    )
    for table, unique in (("projects", "uniq_projects0external_id"),
                          ("users", "uniq_users0external_id")):
        steps.create_table(
            on, table,
            sa.Column("id", sa.Integer, primary_key=True, nullable=False),
            sa.Column("external_id", sa.String(255), nullable=False),
            sa.UniqueConstraint("external_id", name=unique),
        )
    steps.create_table(
        on, "consumer_types",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("name", sa.Unicode(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
    )
    steps.create_table(
        on, "consumers",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False, server_default="0"),
        sa.Column("consumer_type_id", sa.Integer,
                  sa.ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey")),
        sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
        indexes={
            "consumers_project_id_uuid_idx": ["project_id", "uuid"],
            "consumers_project_id_user_id_uuid_idx": ["project_id", "user_id", "uuid"],
            "consumers_consumer_type_id_idx": ["consumer_type_id"],
        },
    )


def create_own_tables(on: operations.Operations) -> None:
    """Create the tables that upstream lacks, with the heads of the change log."""
    steps.create_table(
        on, "usage_counters",
        sa.Column("project_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("user_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("consumer_type_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("resource_class_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "change_heads",
        sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("serial", sa.BigInteger, nullable=False),
        sa.Column("txn", sa.BigInteger, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "changes",
        sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("serial", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("txn", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("ref", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        times=False,
    )
    heads = sa.table("change_heads", sa.column("slot"), sa.column("serial"), sa.column("txn"))
    connection = on.get_bind()
    present = set(connection.scalars(sa.select(heads.c.slot)))
    missing = [{"slot": slot, "serial": 0, "txn": 0}
               for slot in range(CHANGE_SLOTS) if slot not in present]
    if missing:
        connection.execute(sa.insert(heads), missing)
