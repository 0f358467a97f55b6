"""Query strings: what they may hold, and what they mean to the domain.

``schemas`` has what is checked before a view runs; ``values`` the grammar of
single values; ``candidates``, ``providers`` and ``traits`` make the requests
that the domain takes.
"""
