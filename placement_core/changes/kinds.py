"""What a change row can be about; its ``ref`` is the row's database key."""

#: A resource provider: its row, inventories, usage, traits or aggregates.
PROVIDER = "provider"
#: A resource class was made, renamed or removed.
RESOURCE_CLASS = "resource_class"
#: A trait was made or removed.
TRAIT = "trait"
#: The revision of limits and catalog was raised; its ``ref`` is 0. Nothing that the index
#: holds.
REVISION = "revision"
#: Another revision was raised; its ``ref`` is 0.
RECORDS = "records"
#: The usage counters of a project; its ``ref`` is the key of its row in ``projects``.
PROJECT = "project"
