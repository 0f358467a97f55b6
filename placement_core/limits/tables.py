"""The tables of limits.

``uuid`` is the id that clients see; the integer keys give the order of creation, by
which lists are paged. A limit has its service, region and resource name from its
registered limit. A region that is not given is ``''``, so that it takes part in what
must be unique, and no region has that id.
"""


import sqlalchemy as sa

from placement_core.db.metadata import MYSQL_OPTIONS, metadata, utcnow

registered_limits = sa.Table(
    "registered_limits", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(64), nullable=False),
    sa.Column("service_id", sa.String(64), nullable=False),
    sa.Column("region_key", sa.String(255), nullable=False),
    sa.Column("resource_name", sa.Unicode(255), nullable=False),
    sa.Column("default_limit", sa.Integer, nullable=False),
    sa.Column("description", sa.UnicodeText),
    sa.UniqueConstraint("uuid", name="uniq_registered_limits0uuid"),
    sa.UniqueConstraint("service_id", "region_key", "resource_name",
                        name="uniq_registered_limits0service_region_resource"),
    sa.Index("registered_limits_region_key_idx", "region_key"),
    **MYSQL_OPTIONS,
)

limits = sa.Table(
    "limits", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(64), nullable=False),
    sa.Column("registered_limit_id", sa.Integer,
              sa.ForeignKey("registered_limits.id", name="limits_registered_limit_id_fkey"),
              nullable=False),
    sa.Column("node_id", sa.String(64), nullable=False),
    sa.Column("is_domain", sa.Boolean, nullable=False),
    sa.Column("resource_limit", sa.Integer, nullable=False),
    sa.Column("description", sa.UnicodeText),
    sa.UniqueConstraint("uuid", name="uniq_limits0uuid"),
    sa.UniqueConstraint("registered_limit_id", "node_id",
                        name="uniq_limits0registered_limit_node"),
    sa.Index("limits_node_id_idx", "node_id"),
    **MYSQL_OPTIONS,
)

user_limits = sa.Table(
    "user_limits", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(64), nullable=False),
    sa.Column("registered_limit_id", sa.Integer,
              sa.ForeignKey("registered_limits.id", name="user_limits_registered_limit_id_fkey"),
              nullable=False),
    sa.Column("project_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("resource_limit", sa.Integer, nullable=False),
    sa.Column("description", sa.UnicodeText),
    sa.UniqueConstraint("uuid", name="uniq_user_limits0uuid"),
    sa.UniqueConstraint("registered_limit_id", "project_id", "user_id",
                        name="uniq_user_limits0registered_limit_project_user"),
    sa.Index("user_limits_project_id_user_id_idx", "project_id", "user_id"),
    sa.Index("user_limits_user_id_idx", "user_id"),
    **MYSQL_OPTIONS,
)

#: What was changed, with the words of the time: it outlives what it tells of.
limit_history = sa.Table(
    "limit_history", metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False, default=utcnow),
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("limit_uuid", sa.String(64), nullable=False),
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
    sa.Index("limit_history_project_id_idx", "project_id"),
    sa.Index("limit_history_domain_id_idx", "domain_id"),
    sa.Index("limit_history_user_id_idx", "user_id"),
    sa.Index("limit_history_limit_uuid_idx", "limit_uuid"),
    sa.Index("limit_history_service_id_resource_name_idx", "service_id", "resource_name"),
    **MYSQL_OPTIONS,
)
