"""The database's schema and how it comes about.

``sync`` makes or upgrades it, ``adoption`` takes over a database of upstream
Placement and ``release`` gives one back, ``online`` moves rows while the service
runs, ``checks`` says what an upgrade still needs. ``versions`` holds the Alembic
revisions; their version table is ``placement_core_version``, beside upstream's
``alembic_version``.
"""
