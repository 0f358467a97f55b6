"""The change log: changes of records, in an order that readers can rely on.

``tables`` has its tables, ``journal`` appends to it, and ``vector`` reads it. Source: design §3.
"""
