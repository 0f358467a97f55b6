"""The change log: changes of records, in an order that readers can rely on.

``tables`` has its tables, ``journal`` appends to it, and ``vector`` reads it; ``audit`` says who
made the changes. Source: design §3.
"""
