"""Panels of the dashboard: what a part of a page shows, read and drawn.

A panel is shared by the pages that have it. Its function takes a ``Call``, reads what the caller
may see, and returns records that a template writes down, pictures included. Whether the caller
may see it at all is asked by the page (``sections.read``).
"""
