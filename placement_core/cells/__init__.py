"""Cells: cell mappings, instance mappings, and the databases of cells.

The tables are nova's: ``tables`` has those of its API database, ``cell_tables`` those of a
cell's database.
"""
