"""The schema of the database, its upgrades and data migrations.

``sync`` creates or upgrades the schema. ``adoption`` takes over a database of upstream Placement,
or gives one back. ``online`` migrates rows while the service runs. ``checks`` reports what an
upgrade still needs. ``versions`` contains the Alembic revisions; their version table is
``placement_core_version``, beside upstream's ``alembic_version``.
"""
