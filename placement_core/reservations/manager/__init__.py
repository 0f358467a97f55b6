"""The manager: executes lease events and periodic tasks when they are due.

``event_queue``  lease events in the database: selection, ownership, retries
``heartbeats``   managers tell that they live
``backlog``      how much there is to do, for monitoring
``loop``         the threads that dequeue events and execute them
"""
