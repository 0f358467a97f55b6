"""What leases change outside of their own tables: in placement and in the compute service.

``compute_calls``  the calls that each change needs, in their order
``outbox``         calls that are inserted in a transaction and made later
``slots``          slots of instance reservations, as inventories in placement
``slot_providers`` the child provider of each host that has these inventories
``provisioner``    applies each change of a host or reservation by means of these
``freepool``       reconciles the compute service's freepool with the hosts registered here
"""
