"""Leases: their life from creation to history.

``service``         creates, changes, ends and deletes leases
``requests``        checks requests of clients, with the plugins
``plans``           plans new and changed leases; writes nothing
``lease_queries``   reads leases: one, pages of them, their versions
``transitions``     starts and ends leases: one event, one transaction
``dates``           checks and resolves dates
``schemas``         validates fields against the schemas of plugins
``updates``         builds and writes the records of changed leases
``notifications``   records what happens to leases, for other services
``history``         who had which hosts; removal of old leases
``rendered_texts``  leases rendered in advance, in the database
``rendered_cache``  rendered leases in the memory of a process
"""
