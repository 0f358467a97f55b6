"""Who exists: regions, services, endpoints, domains, projects and their tree.

A module for each noun writes and reads it; ``tree`` answers for whole branches
of domains and projects, ``loading`` brings the catalog to what a file says. The
records are those of ``plugin_api.catalog``. Every write raises the revision of
limits first, which makes writers of the catalog and of limits queue: what a
write has checked stays true until its commit.
Source: Keystone v3, spec limits §4.
"""
