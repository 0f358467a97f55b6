"""Leases of hosts and of slots on hosts over windows of time.

Planning is pure, times are seconds since the epoch, and what is promised comes as
columns, so that ten thousand promises cost milliseconds:

``tracks``        what is promised of things over time: peaks, steps, sums
``pools``         hosts and what is promised of them
``arrangements``  what a lease needs is put on hosts, all of it at once
``planning``      a lease is planned, or refused with the reason
``fits``          when it would fit, and how much is free over time
``requirements``  the language in which reservations ask for properties of hosts
"""
