"""The catalog's tables.

``catalog_ancestors`` is a closure table: it has a row for each pair of a domain or project
and itself or one of its ancestors, so that one query reads a branch upwards or downwards.

There are no foreign keys: writers queue (see the package), and an id may be that of a record
which only a remote catalog has.
"""


import sqlalchemy as sa

from placement_core.db.metadata import MYSQL_OPTIONS, metadata

catalog_regions = sa.Table(
    "catalog_regions", metadata,
    sa.Column("id", sa.String(255), primary_key=True),
    sa.Column("parent_region_id", sa.String(255)),
    sa.Column("description", sa.Text, nullable=False),
    sa.Index("catalog_regions_parent_region_id_idx", "parent_region_id"),
    **MYSQL_OPTIONS,
)

catalog_services = sa.Table(
    "catalog_services", metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("type", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    **MYSQL_OPTIONS,
)

catalog_endpoints = sa.Table(
    "catalog_endpoints", metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("service_id", sa.String(64), nullable=False),
    sa.Column("interface", sa.String(8), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("region_id", sa.String(255)),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Index("catalog_endpoints_service_id_idx", "service_id"),
    sa.Index("catalog_endpoints_region_id_idx", "region_id"),
    **MYSQL_OPTIONS,
)

catalog_domains = sa.Table(
    "catalog_domains", metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.UniqueConstraint("name", name="uniq_catalog_domains0name"),
    **MYSQL_OPTIONS,
)

catalog_projects = sa.Table(
    "catalog_projects", metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("domain_id", sa.String(64), nullable=False),
    sa.Column("parent_id", sa.String(64), nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.UniqueConstraint("domain_id", "name", name="uniq_catalog_projects0domain_id0name"),
    sa.Index("catalog_projects_parent_id_idx", "parent_id"),
    **MYSQL_OPTIONS,
)

#: ``distance`` is 0 from a node to itself, 1 to its parent, and so on.
catalog_ancestors = sa.Table(
    "catalog_ancestors", metadata,
    sa.Column("descendant_id", sa.String(64), primary_key=True),
    sa.Column("ancestor_id", sa.String(64), primary_key=True),
    sa.Column("distance", sa.Integer, nullable=False),
    sa.Index("catalog_ancestors_ancestor_distance_descendant_idx",
             "ancestor_id", "distance", "descendant_id"),
    **MYSQL_OPTIONS,
)
