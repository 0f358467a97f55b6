"""Databases as operators run them, on the loopback interface, and what may happen to them."""
