"""The database: engines, transactions, retries.

``read`` and ``write`` open the transaction of a domain function, or join the
one its caller opened; ``read_once`` is for a single statement, which needs
none, ``read_each`` for several that need no common moment, a ``PreparedRead`` for one that
every request needs; ``retry_writes`` repeats the outermost one. Tables live in the rooms that
own them (``<room>/tables.py``), on the one ``metadata``.
"""

from placement_core.db.failures import TransactionConflict
from placement_core.db.metadata import metadata
from placement_core.db.prepared_reads import PreparedRead
from placement_core.db.session import Session
from placement_core.db.transactions import read, read_each, read_once, retry_writes, write

__all__ = [
    "PreparedRead", "Session", "TransactionConflict", "metadata", "read", "read_each", "read_once",
    "retry_writes", "write",
]
