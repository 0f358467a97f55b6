"""The tables of nova's API database that are used; names and columns are nova's.

So a real nova API database can take their place (``[api_database] connection``).
``marks`` is not nova's; it is always in the service's own database.
"""


import sqlalchemy as sa

from placement_core.db.metadata import MYSQL_OPTIONS, metadata, timestamps

#: The project of the instance mapping that nova's own migration inserts as a marker: it is no
#: instance, and gets no user.
MARKER_PROJECT = "00000000-0000-0000-0000-000000000000"

cell_mappings = sa.Table(
    "cell_mappings", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.String(255)),
    sa.Column("transport_url", sa.Text, nullable=False),
    sa.Column("database_connection", sa.Text, nullable=False),
    sa.Column("disabled", sa.Boolean, default=False),
    sa.UniqueConstraint("uuid", name="uniq_cell_mappings0uuid"),
    **MYSQL_OPTIONS,
)

instance_mappings = sa.Table(
    "instance_mappings", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("cell_id", sa.Integer,
              sa.ForeignKey("cell_mappings.id", name="instance_mappings_cell_id_fkey")),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("queued_for_delete", sa.Boolean),
    sa.UniqueConstraint("instance_uuid", name="uniq_instance_mappings0instance_uuid"),
    sa.Index("project_id_idx", "project_id"),
    sa.Index("instance_mappings_user_id_project_id_idx", "user_id", "project_id"),
    **MYSQL_OPTIONS,
)

instance_groups = sa.Table(
    "instance_groups", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.String(255)),
    sa.UniqueConstraint("uuid", name="uniq_instance_groups0uuid"),
    **MYSQL_OPTIONS,
)

instance_group_member = sa.Table(
    "instance_group_member", metadata,
    *timestamps(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("instance_uuid", sa.String(255)),
    sa.Column("group_id", sa.Integer,
              sa.ForeignKey("instance_groups.id", name="instance_group_member_group_id_fkey"),
              nullable=False),
    sa.Index("instance_group_member_instance_idx", "instance_uuid"),
    sa.Index("instance_group_member_group_id_idx", "group_id"),
    **MYSQL_OPTIONS,
)

#: Only read, where ``[api_database]`` is nova's; never created by this service.
build_requests = sa.Table(
    "build_requests", sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("instance_uuid", sa.String(36)),
    sa.Column("instance", sa.Text),
)

#: How far passes over many rows have come: {name of the pass: the last id it read}.
watermarks = sa.Table(
    "marks", metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    **MYSQL_OPTIONS,
)
