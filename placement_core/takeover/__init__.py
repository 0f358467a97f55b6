"""Takes over a cloud that runs: what its services know is compared with ours, and copied.

``sources`` opens another service's database; ``keystone``, ``nova_quotas``, ``nova_cells``,
``placement`` and ``blazar`` make records of one. ``comparison`` says what differs from ours,
``copying`` brings ours to it, with ``copier``, and ``comparisons`` remembers the result. Where
records go is in ``targets``, and beside each source. Kinds with very many records wait in a file
(``spools``), and are compared and copied some at a time (``spooled``). Records keep the ids that
they have there, so that everything can be repeated. ``exports`` is the way out.
"""
