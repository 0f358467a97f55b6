"""Distributions of others: what they build on is documented, and this repository unchanged.

Each folder is a distribution of its own; the tests install it as its users would.
"""
