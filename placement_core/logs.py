"""The log: set up as the options say, and safe to read whatever clients sent.

Names, project ids and error texts of clients are in many lines. Whatever a line says, it
stays one line, without what terminals take for commands, and without the secrets of URLs.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Iterator

from oslo_config import cfg
from oslo_log import log as oslo_logging

from placement_core.db.masking import mask_text

#: Of exceptions that led to each other.
_LONGEST_CHAIN = 20


def set_up(options: cfg.ConfigOpts) -> None:
    """Log as ``options`` say, in this process."""
    oslo_logging.setup(options, "placement")
    logging.captureWarnings(True)
    # The file that log_config_append names may give any logger a handler.
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            protect(logger.handlers)


def protect(handlers: Iterable[logging.Handler]) -> None:
    """Let handlers write messages in one line, and nothing that is not printable."""
    for handler in handlers:
        if not isinstance(handler.formatter, _SafeFormatter):
            handler.setFormatter(_SafeFormatter(handler.formatter or logging.Formatter()))


def printable(text: str) -> str:
    """Return a text in one line, in which control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else
        character.encode("unicode_escape").decode("ascii") for character in text)


class _SafeFormatter(logging.Formatter):
    """Another formatter's lines, made safe. Only tracebacks have several."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        message = record.getMessage()
        safe = _without_secrets(printable(message))
        if safe != message:
            record.msg, record.args = safe, None
        text = self._inner.format(record)
        if text.isprintable() and "://" not in text:
            return text
        if record.exc_info:
            # What an exception says becomes one line, wherever the traceback repeats it.
            for text_of_error in _list_multiline(record.exc_info[1]):
                text = text.replace(text_of_error, printable(text_of_error))
        return "\n".join(printable(line) for line in _without_secrets(text).split("\n"))


def _list_multiline(error: BaseException | None) -> Iterator[str]:
    """Return what an exception, and those that led to it, say in several lines."""
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        text_of_error = "".join(traceback.format_exception_only(error)).rstrip()
        if "\n" in text_of_error:
            yield text_of_error
        error = error.__cause__ or error.__context__


def _without_secrets(text: str) -> str:
    return mask_text(text) if "://" in text else text
