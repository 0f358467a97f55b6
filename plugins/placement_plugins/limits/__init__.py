"""Limit drivers."""
