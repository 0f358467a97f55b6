"""The change log: what changed, in an order that readers can rely on.

``tables`` says what is kept, ``journal`` is the writers' side, ``vector`` the
readers'. Source: design §3.
"""
