"""Leases in the database.

``lease_rows``  leases with their reservations, fields and events, and what they hold
"""
