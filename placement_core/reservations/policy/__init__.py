"""Rules of the site for leases.

``rules``             all checks before a lease is created or changed
``budgets``           limits on amounts × time that projects reserve
``external_service``  asks a service of the site about leases
"""
