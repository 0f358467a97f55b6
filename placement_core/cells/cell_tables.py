"""The tables and columns of a cell's database that are used; names and types are nova's.

They have a ``MetaData`` of their own, because ``placement-core cells sync`` creates them where
they are missing, never the service's migrations.
"""

import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement_core.db.metadata import MYSQL_OPTIONS, timestamps

metadata = sa.MetaData()

_MEDIUM_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")


def _soft_deleted() -> tuple[sa.Column[datetime.datetime], sa.Column[int]]:
    """Return the columns of tables whose rows nova soft-deletes.

    ``deleted`` is 0 until the row is deleted, and the row's own id afterwards.
    """
    return sa.Column("deleted_at", sa.DateTime), sa.Column("deleted", sa.Integer, default=0)


instances = sa.Table(
    "instances", metadata,
    *timestamps(),
    *_soft_deleted(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("vm_state", sa.String(255)),
    sa.Column("memory_mb", sa.Integer),
    sa.Column("vcpus", sa.Integer),
    sa.Column("hidden", sa.Boolean, default=False),
    sa.UniqueConstraint("uuid", name="uniq_instances0uuid"),
    sa.Index("instances_project_id_deleted_idx", "project_id", "deleted"),
    **MYSQL_OPTIONS,
)

compute_nodes = sa.Table(
    "compute_nodes", metadata,
    *timestamps(),
    *_soft_deleted(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("service_id", sa.Integer),
    sa.Column("uuid", sa.String(36)),
    sa.Column("host", sa.String(255)),
    sa.Column("hypervisor_hostname", sa.String(255)),
    sa.Column("hypervisor_type", _MEDIUM_TEXT, nullable=False),
    sa.Column("hypervisor_version", sa.Integer, nullable=False),
    sa.Column("cpu_info", _MEDIUM_TEXT, nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("local_gb", sa.Integer, nullable=False),
    sa.Column("vcpus_used", sa.Integer, nullable=False),
    sa.Column("memory_mb_used", sa.Integer, nullable=False),
    sa.Column("local_gb_used", sa.Integer, nullable=False),
    sa.Column("disk_available_least", sa.Integer),
    sa.Column("free_ram_mb", sa.Integer),
    sa.Column("free_disk_gb", sa.Integer),
    sa.Column("current_workload", sa.Integer),
    sa.Column("running_vms", sa.Integer),
    sa.Column("cpu_allocation_ratio", sa.Float),
    sa.Column("ram_allocation_ratio", sa.Float),
    sa.Column("disk_allocation_ratio", sa.Float),
    sa.Column("pci_stats", sa.Text),
    sa.Column("numa_topology", sa.Text),
    sa.Column("mapped", sa.Integer, default=0),
    sa.UniqueConstraint(
        "host", "hypervisor_hostname", "deleted",
        name="uniq_compute_nodes0host0hypervisor_hostname0deleted"),
    sa.Index("compute_nodes_uuid_idx", "uuid", unique=True),
    **MYSQL_OPTIONS,
)

services = sa.Table(
    "services", metadata,
    *timestamps(),
    *_soft_deleted(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(36)),
    sa.Column("host", sa.String(255)),
    sa.Column("binary", sa.String(255)),
    sa.Column("topic", sa.String(255)),
    sa.Column("report_count", sa.Integer, nullable=False, default=0),
    sa.Column("disabled", sa.Boolean, default=False),
    sa.Column("last_seen_up", sa.DateTime),
    sa.Column("forced_down", sa.Boolean, default=False),
    sa.Column("version", sa.Integer, default=0),
    sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services0host0topic0deleted"),
    sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services0host0binary0deleted"),
    sa.Index("services_uuid_idx", "uuid", unique=True),
    **MYSQL_OPTIONS,
)

#: All devices of a node, in use or not; ``compute_nodes.pci_stats`` has the free ones.
pci_devices = sa.Table(
    "pci_devices", metadata,
    *timestamps(),
    *_soft_deleted(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("compute_node_id", sa.Integer,
              sa.ForeignKey("compute_nodes.id", name="pci_devices_compute_node_id_fkey"),
              nullable=False),
    sa.Column("address", sa.String(12), nullable=False),
    sa.Column("dev_type", sa.String(8), nullable=False),
    sa.Column("status", sa.String(36), nullable=False),
    sa.UniqueConstraint("compute_node_id", "address", "deleted",
                        name="uniq_pci_devices0compute_node_id0address0deleted"),
    sa.Index("ix_pci_devices_compute_node_id_deleted", "compute_node_id", "deleted"),
    **MYSQL_OPTIONS,
)
