"""Reservation plugins."""
