"""The tables of leases, and of the hosts that can be reserved.

Times are naive UTC, a lease's in whole seconds. What is promised of a host repeats its
lease's window in seconds since the epoch: that is what planning counts in, and what its
index is searched by.
Source: requirement R7, seed 003 (``instance_reservations``); differs: ``affinity`` may be
null, which is a rule of its own, and a host has one row for all slots of a reservation.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata, timestamps
from placement_core.plugin_api.reservations import LONGEST_TYPE

#: Windows by how long they are, in seconds: class ``n`` are those shorter than its bound and no
#: shorter than the one before, the class after the last those of any length. Which windows
#: overlap another one is then a short range of starts in each class, which an index finds.
DURATION_BOUNDS = tuple(4**power for power in range(6, 14))


def _duration_class() -> sa.Column[Any]:
    """Return the column of a window's class, which the database computes."""
    cases = " ".join(
        f"WHEN end_second - start_second < {bound} THEN {number}"
        for number, bound in enumerate(DURATION_BOUNDS))
    return sa.Column("duration_class", sa.SmallInteger, sa.Computed(
        f"CASE {cases} ELSE {len(DURATION_BOUNDS)} END", persisted=True))


#: The hosts of the freepool. ``name`` is that of the compute node or resource provider,
#: ``provider_id`` the root of its tree; ``reservation_provider_id`` is the child that is
#: made with the host and kept: leases add classes and inventory to it, and remove them.
#: The sizes are bookable sizes. ``promised``: some reservation has, or had, a share of it.
#: Ids are never reused, so that the history does not confuse hosts.
computehosts = sa.Table(
    "computehosts", metadata,
    *timestamps(),
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
    **MYSQL_OPTIONS,
)

#: Names of properties that hosts can have beside their columns.
resource_properties = sa.Table(
    "resource_properties", metadata,
    *timestamps(),
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("resource_type", sa.String(255), nullable=False),
    sa.Column("property_name", sa.String(255), nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.UniqueConstraint("resource_type", "property_name",
                        name="uniq_resource_properties0type0name"),
    **MYSQL_OPTIONS,
)

computehost_extra_capabilities = sa.Table(
    "computehost_extra_capabilities", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("computehost_id", sa.Integer,
              sa.ForeignKey("computehosts.id", name="computehost_extra_capabilities_host_fkey"),
              nullable=False),
    sa.Column("property_id", sa.String(36),
              sa.ForeignKey("resource_properties.id",
                            name="computehost_extra_capabilities_property_fkey"),
              nullable=False),
    sa.Column("capability_value", sa.Text, nullable=False),
    sa.UniqueConstraint("computehost_id", "property_id",
                        name="uniq_computehost_extra_capabilities0host0property"),
    **MYSQL_OPTIONS,
)

#: ``number`` ascends in the order of creation; ``version`` rises with each change.
#: ``copied_version`` is what ``version`` was when a lease of another service was copied last; None
#: for other leases, and for those that a release copied that did not write it.
#: Deleted leases are kept for a time, for the history; ``ended_at`` is when the reservations
#: really ended.
leases = sa.Table(
    "leases", metadata,
    *timestamps(),
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
    sa.Column("copied_version", sa.Integer),
    sa.Column("ended_at", clock.DEADLINE),
    sa.Column("deleted_at", clock.DEADLINE),
    sa.UniqueConstraint("id", name="uniq_leases0id"),
    sa.Index("leases_project_id_number_idx", "project_id", "deleted_at", "number"),
    sa.Index("leases_end_at_idx", "end_at"),
    sa.Index("leases_ended_at_idx", "ended_at"),
    **MYSQL_OPTIONS,
)

#: Leases rendered in advance: see ``rendered_texts``. A row is void if its lease has another
#: version by now, or is gone, or if it belongs to an earlier lease with the same number, which
#: SQLite may reuse. There is no foreign key: on MySQL, a writer of a row would wait for
#: transactions that change the lease.
lease_texts = sa.Table(
    "lease_texts", metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("lease_id", sa.String(36), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("text", sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql"), nullable=False),
    **MYSQL_OPTIONS,
)

#: Named so because nova's API database has a table ``reservations``. ``fields`` is JSON,
#: for plugins that have no table of their own here; ``position`` the order in the lease.
lease_reservations = sa.Table(
    "lease_reservations", metadata,
    *timestamps(),
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("lease_id", sa.String(36),
              sa.ForeignKey("leases.id", name="lease_reservations_lease_id_fkey"),
              nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("resource_type", sa.String(LONGEST_TYPE), nullable=False),
    sa.Column("resource_id", sa.String(36), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("missing_resources", sa.Boolean, nullable=False),
    sa.Column("resources_changed", sa.Boolean, nullable=False),
    sa.Column("fields", sa.Text),
    sa.Index("lease_reservations_lease_id_idx", "lease_id"),
    **MYSQL_OPTIONS,
)

#: The fields of ``virtual:instance``, and the ids of its objects in the compute service.
instance_reservations = sa.Table(
    "instance_reservations", metadata,
    *timestamps(),
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
    **MYSQL_OPTIONS,
)

#: The fields of ``physical:host``, and the id of its aggregate in the compute service.
computehost_reservations = sa.Table(
    "computehost_reservations", metadata,
    *timestamps(),
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
    **MYSQL_OPTIONS,
)

#: The shares of hosts that reservations have: ``slots`` of the size in the three columns; a whole
#: host is one slot of its size. When a reservation ends, ``end_second`` becomes the second of its
#: end; the row is kept for the history, with the host's name once the host has left the freepool.
#: If a reservation had a host several times, or different numbers of its slots, each time is a
#: row; all but the last end before the lease does.
computehost_allocations = sa.Table(
    "computehost_allocations", metadata,
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
    _duration_class(),
    sa.Index("computehost_allocations_window_idx", "duration_class", "start_second"),
    sa.Index("computehost_allocations_host_end_idx", "computehost_id", "end_second"),
    sa.Index("computehost_allocations_end_idx", "end_second"),
    **MYSQL_OPTIONS,
)

#: The amounts of things on no host that reservations have.
reservation_amounts = sa.Table(
    "reservation_amounts", metadata,
    sa.Column("reservation_id", sa.String(36),
              sa.ForeignKey("lease_reservations.id",
                            name="reservation_amounts_reservation_id_fkey"),
              primary_key=True),
    sa.Column("what", sa.String(255), primary_key=True),
    sa.Column("resource_type", sa.String(LONGEST_TYPE), nullable=False),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("start_second", sa.BigInteger, nullable=False),
    sa.Column("end_second", sa.BigInteger, nullable=False),
    _duration_class(),
    sa.Index("reservation_amounts_window_idx", "duration_class", "start_second"),
    sa.Index("reservation_amounts_end_idx", "end_second"),
    **MYSQL_OPTIONS,
)

#: The events of leases. The manager that executes an event is its ``owner`` until
#: ``deadline_at``; ``attempt`` is incremented each time it is dequeued. If an event without an
#: owner has a ``deadline_at``, it has failed, and is not dequeued again before that time;
#: ``failures`` counts how often it failed.
lease_events = sa.Table(
    "lease_events", metadata,
    *timestamps(),
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("lease_id", sa.String(36),
              sa.ForeignKey("leases.id", name="lease_events_lease_id_fkey"), nullable=False),
    sa.Column("event_type", sa.String(66), nullable=False),
    sa.Column("due_at", clock.DEADLINE, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("deadline_at", clock.DEADLINE),
    sa.Column("done_at", clock.DEADLINE),
    sa.Column("problem", sa.Text),
    sa.UniqueConstraint("lease_id", "event_type", name="uniq_lease_events0lease0type"),
    sa.Index("lease_events_status_due_at_idx", "status", "due_at"),
    **MYSQL_OPTIONS,
)

#: Pending calls to the compute service, made one after the other for each ``subject`` (a
#: reservation's id, or ``host:<id>``) and each host, in the order of ``id``: see ``outbox``. A row
#: is deleted when its call is complete.
outbox = sa.Table(
    "reservation_outbox", metadata,
    *timestamps(),
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True,
              nullable=False),
    sa.Column("subject", sa.String(64), nullable=False),
    sa.Column("lease_id", sa.String(36)),
    sa.Column("host_id", sa.Integer),
    sa.Column("call", sa.String(64), nullable=False),
    sa.Column("arguments", sa.Text, nullable=False),
    sa.Column("give_up_at", clock.DEADLINE),
    sa.Column("next_at", clock.DEADLINE, nullable=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("deadline_at", clock.DEADLINE),
    sa.Column("problem", sa.Text),
    sa.Index("reservation_outbox_subject_idx", "subject", "id"),
    sa.Index("reservation_outbox_host_id_idx", "host_id", "id"),
    sa.Index("reservation_outbox_next_at_idx", "next_at"),
    **MYSQL_OPTIONS,
)

#: Notifications: each is inserted in the transaction that changes the lease, with the lease after
#: the change (JSON). ``id`` is the order of insertion; ``position``, which the first reader
#: assigns, is the order in which they can be read without missing one.
lease_notices = sa.Table(
    "lease_notices", metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True,
              nullable=False),
    sa.Column("lease_id", sa.String(36), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("event", sa.String(66), nullable=False),
    sa.Column("at", clock.DEADLINE, nullable=False),
    sa.Column("payload", sa.Text().with_variant(mysql.MEDIUMTEXT, "mysql"), nullable=False),
    sa.Column("position", sa.BigInteger),
    sa.UniqueConstraint("position", name="uniq_lease_notices0position"),
    sa.Index("lease_notices_lease_id_idx", "lease_id", "position"),
    sa.Index("lease_notices_project_id_idx", "project_id", "position"),
    sa.Index("lease_notices_at_idx", "at"),
    **MYSQL_OPTIONS,
)

#: When each manager told last that it lives, and what its last audit of stored sums found. Rows of
#: managers that ended are removed after a time.
managers = sa.Table(
    "managers", metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("seen_at", clock.DEADLINE, nullable=False),
    sa.Column("audited_at", clock.DEADLINE),
    sa.Column("audit_findings", sa.Integer),
    **MYSQL_OPTIONS,
)
