"""The enforcement models that come with the service.

One module for each model; ``ancestry.py`` has what those share that read limits
over a tree of projects.
"""
