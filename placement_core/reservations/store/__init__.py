"""Leases in the database.

``lease_rows``  leases with their reservations, the fields of these, and events
``bookings``    the shares of hosts that reservations have, and had, over time
"""
