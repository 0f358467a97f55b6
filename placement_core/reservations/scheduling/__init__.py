"""Which hosts a lease gets, and when.

Planning is pure, times are seconds since the epoch, and what is promised comes as
columns, so that ten thousand promises cost milliseconds:

``timelines``      what is promised of things over time: peaks, steps, sums
``pools``          hosts and what is promised of them
``packing``        what a lease needs is put on hosts, all of it at once
``planner``        a lease is planned, or refused with the reason
``availability``   when it would fit, and how much is free over time
``requirements``   the language in which reservations ask for properties of hosts

What is planned with comes from the database:

``pool_queries``   the pool and what is promised of it in a window
``booking_index``  what is promised of hosts from now on, kept in memory
``occupancy``      hosts of leases that have yet to end, or ended late
"""
