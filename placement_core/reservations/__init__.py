"""Leases of hosts and of slots on hosts over windows of time.

``scheduling``    which hosts a lease gets, and when
``store``         leases in the database
``policy``        rules of the site that leases have to keep
``provisioning``  what leases do in placement and in the compute service
``leases``        leases are made, changed, started, ended and read
``hosts``         the hosts of the freepool: registered, watched, healed, guarded
``manager``       carries out what is due

Each room imports those above it in this list, and what all share: ``tables``, ``records``
and ``errors``.
"""
