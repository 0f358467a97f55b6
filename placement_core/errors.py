"""What can go wrong in the domain, told without HTTP.

Six categories decide how a caller has to react; ``http/errors.py`` maps each
to a status once. Rooms add concrete classes in their own ``errors.py``: each
with a stable ``code``, a message for people, and its data as attributes.
"""


class Error(Exception):
    """The base of every refusal: ``str(error)`` is a sentence for people."""

    code = "placement.undefined_code"


class NotFound(Error):
    """The thing the caller addressed does not exist."""


class Invalid(Error):
    """The request makes no sense, whatever the state of the database."""


class Conflict(Error):
    """The request clashes with the present state; it may succeed later."""


class Forbidden(Error):
    """The caller may not do this."""


class OverLimit(Error):
    """The claim would exceed a limit that binds its project."""


class Unavailable(Error):
    """The answer is not known now: a database or service does not answer.

    :cvar retry_after_seconds: when it is worth while to ask again.
    """

    retry_after_seconds = 5


class ConfigurationError(Error):
    """The service cannot start: option, value and what was expected."""
