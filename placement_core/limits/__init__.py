"""Limits in our database: registered defaults, and limits of projects, domains and users.

``registered``, ``limits`` and ``users`` each store one kind; ``history`` records who
changed what, ``effective`` reads limits for decisions on claims, ``bulk_register`` registers a
service's whole list of resources, and ``cleanup`` deletes what limits refer to, and finds
limits whose subjects no longer exist.

Every write first locks the revision of limits (``references.open_write``). So writers of
limits and of the catalog take turns, and the checks of a writer (that references exist, that a
limit is unique and fits into its tree) still hold when it commits.
Source: spec limits §1 and §2.
"""
