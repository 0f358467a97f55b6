"""The hosts of the freepool.

``registry``           registers, changes and removes hosts
``candidates``         finds the provider, or compute node, that a name stands for
``sizes``              the bookable sizes of hosts, which follow their inventories
``host_capabilities``  further properties of hosts, set by operators
``host_properties``    the names of these properties
``host_queries``       reads hosts and their allocations
``monitor``            takes failed hosts out of service
``healing``            assigns other hosts to leases that lost some
``access``             decides who may claim of hosts in the freepool
"""
