"""Thresholds: limits that fill up, and usual requests of which few more fit.

``levels`` measures, and says which threshold a measurement has reached; it is pure. ``monitor``
stores what is reached now, and reports each crossing once. ``webhooks`` delivers the reports.
"""
