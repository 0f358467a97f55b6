"""The hosts of the freepool.

``pool_hosts``    lets hosts in, changes them and lets them out
``capabilities``  what operators say of hosts beside their sizes
``monitor``       takes hosts out of service that do not work
``healing``       finds other hosts for leases that lost some
``access``        who may claim of hosts that are kept for reservations
"""
