"""The hosts of the freepool.

``registry``           hosts enter, change and leave
``candidates``         which provider, or compute node, a name stands for
``sizes``              what can be promised of a host follows its inventories
``host_capabilities``  what operators say of hosts beside that
``host_properties``    the names of properties that hosts have values of
``host_queries``       reads hosts, and what is held of them
``monitor``            takes hosts out of service that do not work
``healing``            finds other hosts for leases that lost some
``access``             who may claim of hosts that are kept for reservations
"""
