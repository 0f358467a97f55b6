"""Placement's tables: upstream's names and columns, and the ones we add.

Ours are ``resource_providers.revision`` (raised by every write that touches a
provider: the lock and the certification key, never shown to clients),
``inventories.used`` and ``inventories.capacity`` (what a claim compares),
``allocations.txn`` (the transaction that wrote the row), all NOT NULL without a
default, so that an old upstream process that still writes fails loudly;
``allocations.started_at`` (since when the consumer holds the amount); and the
tables at the end.
Source: spec placement_api §8 and design §4.
"""


import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import MYSQL_OPTIONS, metadata, timestamps

resource_providers = sa.Table(
    "resource_providers", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.Unicode(200)),
    sa.Column("generation", sa.Integer, default=0),
    sa.Column("root_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
    sa.Column("parent_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
    sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
    sa.Index("resource_providers_root_provider_id_idx", "root_provider_id"),
    sa.Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
    **MYSQL_OPTIONS,
)

inventories = sa.Table(
    "inventories", metadata,
    *timestamps(),
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
    sa.Index("inventories_resource_class_id_idx", "resource_class_id"),
    sa.UniqueConstraint("resource_provider_id", "resource_class_id",
                        name="uniq_inventories0resource_provider_resource_class"),
    **MYSQL_OPTIONS,
)

allocations = sa.Table(
    "allocations", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("resource_provider_id", sa.Integer, nullable=False),
    sa.Column("consumer_id", sa.String(36), nullable=False),
    sa.Column("resource_class_id", sa.Integer, nullable=False),
    sa.Column("used", sa.Integer, nullable=False),
    sa.Column("txn", sa.BigInteger, nullable=False),
    # By the database's clock; null: see ``usage_intervals.STARTED_AT``.
    sa.Column("started_at", clock.DEADLINE),
    sa.Index("allocations_resource_provider_class_used_idx",
             "resource_provider_id", "resource_class_id", "used"),
    sa.Index("allocations_resource_class_id_idx", "resource_class_id"),
    sa.Index("allocations_consumer_id_idx", "consumer_id"),
    **MYSQL_OPTIONS,
)

resource_classes = sa.Table(
    "resource_classes", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("name", sa.String(255), nullable=False),
    # Ours: raised to lock a class; of the first class: see resource_classes.create.
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.UniqueConstraint("name", name="uniq_resource_classes0name"),
    **MYSQL_OPTIONS,
)

traits = sa.Table(
    "traits", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("name", sa.Unicode(255), nullable=False),
    sa.UniqueConstraint("name", name="uniq_traits0name"),
    **MYSQL_OPTIONS,
)

resource_provider_traits = sa.Table(
    "resource_provider_traits", metadata,
    *timestamps(),
    sa.Column("trait_id", sa.Integer, sa.ForeignKey("traits.id"),
              primary_key=True, nullable=False),
    sa.Column("resource_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"),
              primary_key=True, nullable=False),
    sa.Index("resource_provider_traits_resource_provider_trait_idx",
             "resource_provider_id", "trait_id"),
    **MYSQL_OPTIONS,
)

placement_aggregates = sa.Table(
    "placement_aggregates", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uuid", sa.String(36)),
    sa.UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    **MYSQL_OPTIONS,
)

resource_provider_aggregates = sa.Table(
    "resource_provider_aggregates", metadata,
    *timestamps(),
    sa.Column("resource_provider_id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("aggregate_id", sa.Integer, primary_key=True, nullable=False),
    sa.Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
    **MYSQL_OPTIONS,
)

projects = sa.Table(
    "projects", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("external_id", sa.String(255), nullable=False),
    sa.UniqueConstraint("external_id", name="uniq_projects0external_id"),
    **MYSQL_OPTIONS,
)

users = sa.Table(
    "users", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("external_id", sa.String(255), nullable=False),
    sa.UniqueConstraint("external_id", name="uniq_users0external_id"),
    **MYSQL_OPTIONS,
)

consumer_types = sa.Table(
    "consumer_types", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("name", sa.Unicode(255), nullable=False),
    sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
    **MYSQL_OPTIONS,
)

consumers = sa.Table(
    "consumers", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("project_id", sa.Integer, nullable=False),
    sa.Column("user_id", sa.Integer, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("consumer_type_id", sa.Integer, sa.ForeignKey("consumer_types.id")),
    sa.Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    sa.Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    sa.Index("consumers_consumer_type_id_idx", "consumer_type_id"),
    sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    **MYSQL_OPTIONS,
)

#: ``usage_counters.resource_class_id`` of the rows that count consumers.
CONSUMERS_ID = -1
#: ``usage_counters.consumer_type_id`` of consumers without a type.
UNTYPED = 0

#: ``usage_counters.user_id`` of the sums over all users of a project. They are kept under
#: the project's id with a minus, where no version that does not know them looks.
EVERYBODY = 0

usage_counters = sa.Table(
    "usage_counters", metadata,
    sa.Column("project_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("user_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("consumer_type_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("resource_class_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    **MYSQL_OPTIONS,
)

#: How far those migrations that run beside the service are whose end readers have to know.
online_migrations = sa.Table(
    "online_migrations", metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False),
    **MYSQL_OPTIONS,
)

#: What a consumer holds beside what it holds already elsewhere: the source of a
#: resize or migration. The smaller of both is ``used``, by class (``CONSUMERS_ID``:
#: the consumer itself, a row that every pair has); quota does not count it.
moves = sa.Table(
    "moves", metadata,
    sa.Column("consumer_uuid", sa.String(36), primary_key=True),
    sa.Column("resource_class_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("moved_from", sa.String(36), nullable=False),
    sa.Column("project_id", sa.Integer, nullable=False),
    sa.Column("user_id", sa.Integer, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Index("moves_moved_from_idx", "moved_from"),
    sa.Index("moves_project_id_idx", "project_id"),
    **MYSQL_OPTIONS,
)

#: Trees of providers that are kept for those who are let in, and the providers in them that
#: nobody may delete (``reserved_trees``).
pooled_trees = sa.Table(
    "pooled_trees", metadata,
    sa.Column("root_provider_id", sa.Integer,
              sa.ForeignKey("resource_providers.id",
                            name="pooled_trees_root_provider_id_fkey"),
              primary_key=True, autoincrement=False),
    **MYSQL_OPTIONS,
)

#: Rows of projects, users, consumer types and aggregates to which nothing has referred since
#: then: ``kind`` is the name of their table, ``row_id`` their id (``unused_names.py``).
unused_names = sa.Table(
    "unused_names", metadata,
    sa.Column("kind", sa.String(32), primary_key=True),
    sa.Column("row_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("since", clock.DEADLINE, nullable=False),
    **MYSQL_OPTIONS,
)

#: What consumers have held, from when to when: a row for each allocation that has ended
#: (``allocations/usage_intervals.py``). Names instead of keys, which may be removed sooner.
usage_intervals = sa.Table(
    "usage_intervals", metadata,
    sa.Column("consumer_uuid", sa.String(36), primary_key=True),
    sa.Column("started_at", clock.DEADLINE, primary_key=True),
    sa.Column("allocation_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ended_at", clock.DEADLINE, nullable=False),
    sa.Column("consumer_type", sa.Unicode(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("user_id", sa.String(255)),
    sa.Column("provider_uuid", sa.String(36), nullable=False),
    sa.Column("resource_class", sa.String(255), nullable=False),
    sa.Column("amount", sa.Integer, nullable=False),
    sa.Index("usage_intervals_project_id_idx", "project_id", "consumer_uuid"),
    sa.Index("usage_intervals_ended_at_idx", "ended_at"),
    **MYSQL_OPTIONS,
)

#: Since when usage intervals are complete: one row.
usage_interval_bounds = sa.Table(
    "usage_interval_bounds", metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("complete_since", clock.DEADLINE, nullable=False),
    **MYSQL_OPTIONS,
)
