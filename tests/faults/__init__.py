"""Faults of real databases, processes and networks under load, and a checker.

``python -m tests.faults KIND``: a cluster of databases (``clusters``), API processes and managers
on it (``cloud``), clients that claim, move, lease and change limits (``clients``), and things
that go wrong meanwhile (``plays``). Clients note what they asked for and were answered
(``history``); from that and from what is in the database afterwards the checker (``checker``)
finds what must not be.
"""
