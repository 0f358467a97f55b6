"""Compute nodes of cells, and the inventories they become.

``offers`` reads a node's record and says which inventories that makes; ``nodes`` reads and
saves nodes, ``migration`` makes them resource providers, ``gate`` says whether nova is new
enough for that.
"""
