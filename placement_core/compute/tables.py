"""The table of compute nodes that are migrated to resource providers."""


import sqlalchemy as sa

from placement_core.db.metadata import MYSQL_OPTIONS, metadata

#: The node that was migrated to the provider with this uuid. ``facts`` is what the node's record
#: said then, a JSON document {resource class: …}. While that is unchanged, inventories are not
#: written, so that nova or an operator may change them.
migrated_nodes = sa.Table(
    "migrated_nodes", metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("cell_uuid", sa.String(36), nullable=False),
    sa.Column("node_id", sa.Integer, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("migrated_at", sa.DateTime, nullable=False),
    sa.Index("migrated_nodes_cell_uuid_idx", "cell_uuid"),
    **MYSQL_OPTIONS,
)
