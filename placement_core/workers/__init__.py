"""The processes that serve: how each of them does, and which requests it refused last.

``reporter`` runs in each worker. From time to time it writes a row about the worker and a bounded
number of rows about refusals (``store``), which any other worker can show.
"""
