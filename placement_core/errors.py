"""Errors of the domain, which knows no HTTP.

Six categories decide how a caller has to react; ``http/errors.py`` maps each
to a status once. Rooms add concrete classes in their own ``errors.py``: each
with a stable ``code``, a message, and its data as attributes.
"""


class Error(Exception):
    """The base of all errors: ``str(error)`` is a sentence for users."""

    code = "placement.undefined_code"


class NotFound(Error):
    """The thing the caller addressed does not exist."""


class Invalid(Error):
    """The request is not valid, whatever the state of the database."""


class Conflict(Error):
    """The request conflicts with the present state; it may succeed later."""


class Forbidden(Error):
    """The caller may not do this."""


class OverLimit(Error):
    """The claim would exceed a limit that binds its project."""


class Unavailable(Error):
    """The answer is not known now: a database or service does not answer.

    :cvar retry_after_seconds: when to try again.
    """

    retry_after_seconds = 5


class ConfigurationError(Error):
    """The service cannot start: option, value and what was expected."""
