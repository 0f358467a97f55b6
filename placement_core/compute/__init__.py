"""The compute nodes of cells, and their migration to resource providers.

``offers`` derives a node's inventories from its record; ``nodes`` reads and saves nodes,
``migration`` makes them resource providers, ``gate`` checks whether nova is new enough for
that.
"""
