"""The catalog, and the revision that writers of it and of limits hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations

from placement_core.migrations import steps

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

#: Tables that upstream does not have.
OWN_TABLES = (
    "revisions", "catalog_regions", "catalog_services", "catalog_endpoints",
    "catalog_domains", "catalog_projects", "catalog_ancestors",
)
REVISION = "limits"


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    _create_revisions(on)
    steps.create_table(
        on, "catalog_regions",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("parent_region_id", sa.String(255)),
        sa.Column("description", sa.Text, nullable=False),
        indexes={"catalog_regions_parent_region_id_idx": ["parent_region_id"]},
        times=False,
    )
    steps.create_table(
        on, "catalog_services",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        times=False,
    )
    steps.create_table(
        on, "catalog_endpoints",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("service_id", sa.String(64), nullable=False),
        sa.Column("interface", sa.String(8), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("region_id", sa.String(255)),
        sa.Column("enabled", sa.Boolean, nullable=False),
        indexes={
            "catalog_endpoints_service_id_idx": ["service_id"],
            "catalog_endpoints_region_id_idx": ["region_id"],
        },
        times=False,
    )
    steps.create_table(
        on, "catalog_domains",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.UniqueConstraint("name", name="uniq_catalog_domains0name"),
        times=False,
    )
    steps.create_table(
        on, "catalog_projects",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("domain_id", sa.String(64), nullable=False),
        sa.Column("parent_id", sa.String(64), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.UniqueConstraint("domain_id", "name", name="uniq_catalog_projects0domain_id0name"),
        indexes={"catalog_projects_parent_id_idx": ["parent_id"]},
        times=False,
    )
    steps.create_table(
        on, "catalog_ancestors",
        sa.Column("descendant_id", sa.String(64), primary_key=True),
        sa.Column("ancestor_id", sa.String(64), primary_key=True),
        sa.Column("distance", sa.Integer, nullable=False),
        indexes={"catalog_ancestors_ancestor_distance_descendant_idx":
                 ["ancestor_id", "distance", "descendant_id"]},
        times=False,
    )


def _create_revisions(on: operations.Operations) -> None:
    steps.create_table(
        on, "revisions",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("serial", sa.BigInteger, nullable=False),
        sa.Column("txn", sa.BigInteger, nullable=False),
        times=False,
    )
    revisions = sa.table(
        "revisions", sa.column("name"), sa.column("serial"), sa.column("txn"))
    connection = on.get_bind()
    found = sa.select(revisions.c.name).where(revisions.c.name == REVISION)
    if connection.scalar(found) is None:
        connection.execute(
            sa.insert(revisions), {"name": REVISION, "serial": 0, "txn": 0})
