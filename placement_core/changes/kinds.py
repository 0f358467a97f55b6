"""The kinds of change rows. The ``ref`` of a change row is the database key of the changed row."""

#: A resource provider: its row, inventories, usage, traits or aggregates.
PROVIDER = "provider"
#: A resource class was created, renamed or deleted.
RESOURCE_CLASS = "resource_class"
#: A trait was created or deleted.
TRAIT = "trait"
#: A revision was incremented, so the limits that bind claims may have changed; its ``ref`` is
#: 0. No index data changed.
REVISION = "revision"
#: A revision of reservations was incremented; its ``ref`` is 0. No index data changed.
POOL = "pool"
#: The usage counters of a project; its ``ref`` is the key of its row in ``projects``.
PROJECT = "project"
#: A lease was created, changed or ended; its ``ref`` is its number. No index data changed.
LEASE = "lease"
