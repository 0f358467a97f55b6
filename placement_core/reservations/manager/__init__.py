"""The manager: carries out what is due.

``event_queue``  events of leases: who has one, when it is due, what it waits for
``loop``         the threads that take events and carry them out
"""
