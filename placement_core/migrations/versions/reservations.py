"""Reservations: leases, the hosts that can be reserved, events, and calls to be made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op, operations
from sqlalchemy.dialects import mysql

from placement_core.migrations import steps

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: Held by whoever changes what is promised of the freepool; raised with its hosts; held
#: by whoever gives positions to notices.
REVISIONS = ("pool", "pool_hosts", "notices")

#: Tables that upstream does not have; those that refer to others first.
OWN_TABLES = (
    "computehost_extra_capabilities", "resource_properties", "computehosts",
    "instance_reservations", "computehost_reservations", "computehost_allocations",
    "reservation_amounts", "lease_events", "lease_reservations", "reservation_outbox",
    "lease_notices", "leases", "pooled_trees")

_DEADLINE = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    on = operations.Operations(op.get_context())
    _hosts(on)
    _leases(on)
    _held(on)
    _work(on)
    for name in REVISIONS:
        steps.add_revision(on, name)


def _hosts(on: operations.Operations) -> None:
    steps.create_table(
        on, "pooled_trees",
        sa.Column("root_provider_id", sa.Integer,
                  sa.ForeignKey("resource_providers.id",
                                name="pooled_trees_root_provider_id_fkey"),
                  primary_key=True, autoincrement=False),
        times=False,
    )
    steps.create_table(
        on, "computehosts",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("provider_id", sa.Integer, nullable=False),
        sa.Column("provider_uuid", sa.String(36), nullable=False),
        sa.Column("reservation_provider_id", sa.Integer, nullable=False),
        sa.Column("vcpus", sa.BigInteger, nullable=False),
        sa.Column("memory_mb", sa.BigInteger, nullable=False),
        sa.Column("disk_gb", sa.BigInteger, nullable=False),
        sa.Column("hypervisor_type", sa.Text),
        sa.Column("hypervisor_version", sa.Integer),
        sa.Column("cpu_info", sa.Text),
        sa.Column("service_name", sa.String(255)),
        sa.Column("availability_zone", sa.String(255)),
        sa.Column("trust_id", sa.String(36)),
        sa.Column("reservable", sa.Boolean, nullable=False),
        sa.Column("down_reason", sa.String(255)),
        sa.Column("promised", sa.Boolean, nullable=False),
        sa.UniqueConstraint("name", name="uniq_computehosts0name"),
        sa.UniqueConstraint("provider_id", name="uniq_computehosts0provider_id"),
        sqlite_autoincrement=True,
    )
    steps.create_table(
        on, "resource_properties",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("resource_type", sa.String(255), nullable=False),
        sa.Column("property_name", sa.String(255), nullable=False),
        sa.Column("private", sa.Boolean, nullable=False),
        sa.UniqueConstraint("resource_type", "property_name",
                            name="uniq_resource_properties0type0name"),
    )
    steps.create_table(
        on, "computehost_extra_capabilities",
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("computehost_id", sa.Integer,
                  sa.ForeignKey("computehosts.id",
                                name="computehost_extra_capabilities_host_fkey"),
                  nullable=False),
        sa.Column("property_id", sa.String(36),
                  sa.ForeignKey("resource_properties.id",
                                name="computehost_extra_capabilities_property_fkey"),
                  nullable=False),
        sa.Column("capability_value", sa.Text, nullable=False),
        sa.UniqueConstraint("computehost_id", "property_id",
                            name="uniq_computehost_extra_capabilities0host0property"),
    )


def _leases(on: operations.Operations) -> None:
    steps.create_table(
        on, "leases",
        sa.Column("number", sa.Integer, primary_key=True, nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("start_at", sa.DateTime, nullable=False),
        sa.Column("end_at", sa.DateTime, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("degraded", sa.Boolean, nullable=False),
        sa.Column("trust_id", sa.String(36)),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("ended_at", _DEADLINE),
        sa.Column("deleted_at", _DEADLINE),
        sa.UniqueConstraint("id", name="uniq_leases0id"),
        indexes={
            "leases_project_id_number_idx": ["project_id", "deleted_at", "number"],
            "leases_end_at_idx": ["end_at"],
        },
    )
    steps.create_table(
        on, "lease_reservations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("lease_id", sa.String(36),
                  sa.ForeignKey("leases.id", name="lease_reservations_lease_id_fkey"),
                  nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("resource_type", sa.String(66), nullable=False),
        sa.Column("resource_id", sa.String(36), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("missing_resources", sa.Boolean, nullable=False),
        sa.Column("resources_changed", sa.Boolean, nullable=False),
        sa.Column("fields", sa.Text),
        indexes={"lease_reservations_lease_id_idx": ["lease_id"]},
    )
    steps.create_table(
        on, "instance_reservations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("reservation_id", sa.String(36),
                  sa.ForeignKey("lease_reservations.id",
                                name="instance_reservations_reservation_id_fkey"),
                  nullable=False),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.Column("amount", sa.Integer, nullable=False),
        sa.Column("affinity", sa.Boolean),
        sa.Column("resource_properties", sa.Text, nullable=False),
        sa.Column("flavor_id", sa.String(36)),
        sa.Column("aggregate_id", sa.Integer),
        sa.Column("server_group_id", sa.String(36)),
        sa.UniqueConstraint("reservation_id", name="uniq_instance_reservations0reservation_id"),
    )
    steps.create_table(
        on, "computehost_reservations",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("reservation_id", sa.String(36),
                  sa.ForeignKey("lease_reservations.id",
                                name="computehost_reservations_reservation_id_fkey"),
                  nullable=False),
        sa.Column("min", sa.Integer, nullable=False),
        sa.Column("max", sa.Integer, nullable=False),
        sa.Column("hypervisor_properties", sa.Text, nullable=False),
        sa.Column("resource_properties", sa.Text, nullable=False),
        sa.Column("before_end", sa.String(36), nullable=False),
        sa.Column("aggregate_id", sa.Integer),
        sa.UniqueConstraint("reservation_id",
                            name="uniq_computehost_reservations0reservation_id"),
    )


def _held(on: operations.Operations) -> None:
    steps.create_table(
        on, "computehost_allocations",
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
        sa.Column("start_second", sa.BigInteger, nullable=False),
        sa.Column("end_second", sa.BigInteger, nullable=False),
        sa.Column("host_name", sa.String(255)),
        indexes={
            "computehost_allocations_host_end_idx": ["computehost_id", "end_second"],
            "computehost_allocations_end_idx": ["end_second"],
        },
        times=False,
    )
    steps.create_table(
        on, "reservation_amounts",
        sa.Column("reservation_id", sa.String(36),
                  sa.ForeignKey("lease_reservations.id",
                                name="reservation_amounts_reservation_id_fkey"),
                  primary_key=True),
        sa.Column("what", sa.String(255), primary_key=True),
        sa.Column("resource_type", sa.String(66), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("start_second", sa.BigInteger, nullable=False),
        sa.Column("end_second", sa.BigInteger, nullable=False),
        indexes={"reservation_amounts_end_idx": ["end_second"]},
        times=False,
    )


def _work(on: operations.Operations) -> None:
    steps.create_table(
        on, "lease_events",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("lease_id", sa.String(36),
                  sa.ForeignKey("leases.id", name="lease_events_lease_id_fkey"), nullable=False),
        sa.Column("event_type", sa.String(66), nullable=False),
        sa.Column("due_at", _DEADLINE, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(64)),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("deadline_at", _DEADLINE),
        sa.Column("done_at", _DEADLINE),
        sa.Column("problem", sa.Text),
        sa.UniqueConstraint("lease_id", "event_type", name="uniq_lease_events0lease0type"),
        indexes={"lease_events_status_due_at_idx": ["status", "due_at"]},
    )
    steps.create_table(
        on, "reservation_outbox",
        sa.Column("id", _KEY, primary_key=True,
                  nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("lease_id", sa.String(36)),
        sa.Column("host_id", sa.Integer),
        sa.Column("call", sa.String(64), nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("give_up_at", _DEADLINE),
        sa.Column("next_at", _DEADLINE, nullable=False),
        sa.Column("owner", sa.String(64)),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("deadline_at", _DEADLINE),
        sa.Column("problem", sa.Text),
        indexes={
            "reservation_outbox_subject_idx": ["subject", "id"],
            "reservation_outbox_host_id_idx": ["host_id", "id"],
            "reservation_outbox_next_at_idx": ["next_at"],
        },
    )
    steps.create_table(
        on, "lease_notices",
        sa.Column("id", _KEY, primary_key=True,
                  nullable=False),
        sa.Column("lease_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("event", sa.String(66), nullable=False),
        sa.Column("at", _DEADLINE, nullable=False),
        sa.Column("payload", sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql"),
                  nullable=False),
        sa.Column("position", sa.BigInteger),
        sa.UniqueConstraint("position", name="uniq_lease_notices0position"),
        indexes={
            "lease_notices_lease_id_idx": ["lease_id", "position"],
            "lease_notices_project_id_idx": ["project_id", "position"],
            "lease_notices_at_idx": ["at"],
        },
        times=False,
    )
