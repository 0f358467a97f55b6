"""How much room there is: sums and single pieces of what inventories have left.

``sums``      adds up inventories: of the whole cloud, of hosts, of any groups of providers
``groups``    which providers count, and the groups that they form
``promises``  what is promised of trees, shared out among their providers
``fits``      how often a request still fits, and what stops the next one
``stranded``  what none of the site's usual requests (``shapes``) can use

All of it is pure: it computes from a snapshot of the capacity index.
"""
