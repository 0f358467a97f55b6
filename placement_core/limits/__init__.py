"""Limits kept in our database: registered defaults, and what was set for whom.

``registered``, ``limits`` and ``users`` each keep one kind; ``history`` tells who
changed what, ``effective`` answers whoever judges claims, ``bulk_register`` takes a
service's whole list of resources, ``cleanup`` deletes what limits refer to, and finds
limits whose subjects are gone.

Every write holds the revision of limits first (``references.deciding``). So writers
of limits and of the catalog take turns, and what one of them found to exist, to be
unique and to fit into its tree is still so when it commits.
Source: spec limits §1 and §2.
"""
