"""Quota: whether a project may have more.

``decisions`` combines the limits (a limit driver), the tree of projects (a catalog
driver), the way limits bind in a tree (an enforcement model) and the usage (the usage
index).
"""
