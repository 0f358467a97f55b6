"""Assigns hosts to leases, and finds out when they fit.

Planning is pure, times are seconds since the epoch, and bookings are NumPy columns, so that ten
thousand bookings cost milliseconds:

``timelines``      bookings over time: peaks, steps, sums
``pools``          hosts and their bookings
``packing``        assigns hosts to all demands of a lease at once: in an order, or else
                   ``packing_search`` does, led by ``packing_prices``
``planner``        plans a lease, or refuses it with the reason
``availability``   when a lease would fit, and how much is free over time
``requirements``   the language in which reservations require properties of hosts

Its input comes from the database:

``pool_queries``   reads the pool and its bookings in a window
``booking_index``  all bookings from now on, in memory
``occupancy``      hosts of leases whose end is overdue, or was late
"""
