"""Takes over a cloud that runs: what its services know is compared with ours, and copied.

``sources`` opens another service's database, ``keystone``, ``nova_quotas`` and ``nova_cells`` make
records of one, ``comparison`` says what differs from ours, and ``copying`` brings ours to it.
Kinds with very many records wait in a file (``spools``), and are compared and copied some at a
time (``spooled``). Records keep the ids that they have there, so that everything can be repeated.
"""
