"""The kinds of change rows, and how each names its objects.

The ``ref`` of a change row is the database key of the changed row. Where the key is not known to
writers, or not kept when a row is written anew, the row names the object by its ``uuid``.
"""

#: A resource provider: its row, inventories, usage, traits or aggregates. A deleted one has
#: uuid and name.
PROVIDER = "provider"
#: A resource class was created, renamed or deleted. A name that is gone is in the row.
RESOURCE_CLASS = "resource_class"
#: A trait was created or deleted. A deleted one has its name.
TRAIT = "trait"
#: A revision was incremented, so the limits that bind claims may have changed; its ``ref`` is
#: 0. No index data changed.
REVISION = "revision"
#: A revision of reservations was incremented; its ``ref`` is 0. No index data changed.
POOL = "pool"
#: The usage counters of a project; its ``ref`` is the key of its row in ``projects``. If that
#: row was deleted, ``project`` is its name.
PROJECT = "project"
#: A lease was created, changed or ended; its ``ref`` is its number if what it holds changed, else
#: there is its uuid. A deleted one has both, and its name.
LEASE = "lease"

#: What indexes follow. They need not look at changes of other kinds.
FOLLOWED = (PROVIDER, RESOURCE_CLASS, TRAIT, REVISION, POOL, PROJECT, LEASE)

#: A consumer: its owner, type, generation or allocations. By its uuid, with its project; a
#: consumer that changed hands has a row for each of the two projects.
CONSUMER = "consumer"
#: A held claim was made, confirmed, ended or removed. By the uuid of its consumer, with its
#: project.
CLAIM = "claim"
#: Limits of projects and domains, registered limits, and limits of users in projects. By their
#: ids, with the name of the resource, and the project unless it is a limit of a domain.
LIMIT, REGISTERED_LIMIT, USER_LIMIT = "limit", "registered_limit", "user_limit"

#: A threshold was reached, left, or exchanged for another one. By the uuid of what is measured,
#: with the name of the resource and the project or domain; capacity has neither.
THRESHOLD = "threshold"
