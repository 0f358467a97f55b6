"""What a change row can be about; its ``ref`` is the row's database key."""

#: A resource provider: its row, inventories, usage, traits or aggregates.
PROVIDER = "provider"
#: A resource class was made, renamed or removed.
RESOURCE_CLASS = "resource_class"
#: A trait was made or removed.
TRAIT = "trait"
#: A revision was raised, and what binds claims may be another; its ``ref`` is 0. Nothing
#: that the index holds.
REVISION = "revision"
#: A revision of what is reserved was raised; its ``ref`` is 0. Nothing that an index holds.
POOL = "pool"
#: The usage counters of a project; its ``ref`` is the key of its row in ``projects``.
PROJECT = "project"
#: A lease was made, changed or ended; its ``ref`` is its number. Nothing that an index holds.
LEASE = "lease"
