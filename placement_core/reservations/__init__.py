"""Leases of hosts and of slots on hosts over windows of time.

``scheduling``    which hosts a lease gets, and when
``store``         leases in the database
``provisioning``  what leases do in placement and in the compute service
"""
