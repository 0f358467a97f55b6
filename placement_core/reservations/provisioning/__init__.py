"""What leases do outside of their own tables: in placement, and in the compute service.

``compute_calls``  the calls that each change needs, in their order
``outbox``         calls that are written down in a transaction and made later
``slots``          slots of instance reservations, as inventories in placement
``provisioner``    is told what happens to hosts and reservations, and does what follows
``freepool``       puts the compute service's freepool in order
"""
