"""Refusals of query strings."""

from __future__ import annotations

from placement_core import errors


class BadQuery(errors.Invalid):
    """A query string that cannot be understood or contradicts itself."""


class BadValue(BadQuery):
    """Parameters that do not go together."""

    code = "placement.query.bad_value"


class MissingValue(BadQuery):
    """A parameter is missing."""

    code = "placement.query.missing_value"


class DuplicateKey(BadQuery):
    """A parameter is given more often than it may be."""

    code = "placement.query.duplicate_key"
