"""Catalog drivers: who says which services, domains and projects exist."""
