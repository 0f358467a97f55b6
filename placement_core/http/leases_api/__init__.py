"""Blazar's reservation API, ``/v1``: leases, and the hosts that can be leased."""
