"""Cells: which there are, their databases, and which instance is in which.

The tables are nova's: ``tables`` those of its API database, ``cell_tables`` those
of a cell.
"""
