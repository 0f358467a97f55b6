"""Leases against a real nova: its services, a Keystone, RabbitMQ, and our placement.

``deployment`` starts all of it; the tests are what people do with it.
"""
