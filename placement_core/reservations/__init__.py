"""Leases of hosts and of slots on hosts over windows of time.

``scheduling``    which hosts a lease gets, and when
"""
