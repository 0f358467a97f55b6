"""The enforcement models that come with the service.

Each model has a module; ``ancestry.py`` has the functions that hierarchical models share.
"""
