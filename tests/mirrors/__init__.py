"""Mirrors that readers build from the feed of changes, judged against the database.

``python -m tests.mirrors --runs 50``: on each database (``servers``), 64 clients (``writers``)
write through eight workers, while workers are killed and COMMITs are lost; once the database is
restored from a copy of some seconds ago (``play``). What ``readers`` have made of the answers of
``GET /capacity/v1/changes`` has to be what the service lists in the end.
"""
