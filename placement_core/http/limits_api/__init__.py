"""Keystone's limits API, ``/v3``, and as much of its identity API as clients of limits need."""
