"""Leases in the database.

``lease_rows``  leases with their reservations, the fields of these, and events
``bookings``    what their reservations hold, and held, over time
"""
