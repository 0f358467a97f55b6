"""Rules of the site that leases have to keep.

``rules``             everything that a lease is judged by before it is admitted or changed
``budgets``           how much projects hold of hosts, over how long
``external_service``  a service of the site that is asked about leases
"""
