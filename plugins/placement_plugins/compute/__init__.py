"""Compute drivers: what reservations make outside."""
