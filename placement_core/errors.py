"""Errors of the domain, independent of HTTP.

Seven categories determine how a caller has to react; ``http/errors.py`` maps each of them to a
status. Rooms define concrete classes in their own ``errors.py``, each with a stable ``code``,
a message, and its data as attributes.
"""


class Error(Exception):
    """The base of all errors: ``str(error)`` is a sentence for users."""

    code = "placement.undefined_code"


class NotFound(Error):
    """The addressed resource does not exist."""


class Invalid(Error):
    """The request is not valid, whatever the state of the database."""


class Conflict(Error):
    """The request conflicts with the current state; it may succeed later."""


class Gone(Error):
    """What the request refers to existed once; repeating it does not help."""


class Forbidden(Error):
    """The caller may not do this."""


class OverLimit(Error):
    """The claim would exceed a limit that binds its project."""


class Unavailable(Error):
    """A database or service that the answer depends on does not respond.

    :cvar retry_after_seconds: after how many seconds to try again.
    """

    retry_after_seconds = 5


class ConfigurationError(Error):
    """The service cannot start; the message has option, value and what was expected."""
