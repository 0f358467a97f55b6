"""Quota: whether a project may have more.

``decisions`` brings together what is allowed (a limit driver), who is bound by
whom (a catalog driver), how limits are read (an enforcement model) and what is
used (the usage index).
"""
