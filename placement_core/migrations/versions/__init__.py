"""The Alembic revisions, oldest first by ``down_revision``.

A revision spells out what it changes; it never asks the tables of the rooms,
which change later. On MariaDB a revision that dies half-way is run again, so its
steps look before they act.
"""
