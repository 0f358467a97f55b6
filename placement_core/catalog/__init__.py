"""The catalog: regions, services, endpoints, domains and projects.

Each kind of record has a module that reads and writes it. ``tree`` reads whole branches of
domains and projects; ``loading`` creates and updates records from a document. The record
classes are those of ``plugin_api.catalog``. Every write increments the revision of limits
first, which makes writers of the catalog and of limits queue: what a write has checked
stays true until its commit.
Source: Keystone v3, spec limits §4.
"""
