"""Rows of other services' tables, made of our records: the way back."""
