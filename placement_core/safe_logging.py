"""Log lines that are safe to read, whatever clients sent.

Many lines have names, project ids and error texts from clients. Each stays one line, without
terminal control sequences and without the secrets of URLs.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from placement_core.masking import mask_text

#: How many exceptions of a chain of causes are read.
_LONGEST_CHAIN = 20


def protect(handlers: Iterable[logging.Handler]) -> None:
    """Make handlers write each message in one line of printable characters."""
    for handler in handlers:
        if not isinstance(handler.formatter, _SafeFormatter):
            inner = handler.formatter or logging.Formatter()
            handler.setFormatter(_find_safe(inner)(inner))


def _find_safe(formatter: logging.Formatter) -> type[_SafeFormatter]:
    # Whoever has such a formatter has loaded it; commands that do not log need not load it.
    formatters = sys.modules.get("oslo_log.formatters")
    if formatters is not None and isinstance(formatter, formatters.JSONFormatter):
        return _SafeJSONFormatter
    if formatters is not None and isinstance(formatter, formatters.FluentFormatter):
        return _SafeFluentFormatter
    return _SafeFormatter


def printable(text: str) -> str:
    """Return a text in one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else
        character.encode("unicode_escape").decode("ascii") for character in text)


class _SafeFormatter(logging.Formatter):
    """Makes the lines of another formatter safe. Only tracebacks have several lines."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        _clean_message(record)
        text = self._inner.format(record)
        if text.isprintable() and "://" not in text:
            return text
        return self._clean(text, record)

    def _clean(self, text: str, record: logging.LogRecord) -> str:
        """Return the lines of a record without what nobody is to read."""
        if record.exc_info:
            # The text of an exception becomes one line wherever the traceback repeats it.
            for text_of_error in _list_multiline(record.exc_info[1]):
                text = text.replace(text_of_error, printable(text_of_error))
        return "\n".join(printable(line) for line in _without_secrets(text).split("\n"))


class _SafeJSONFormatter(_SafeFormatter):
    """The same for JSON, in which each record is one line anyway."""

    def _clean(self, text: str, record: logging.LogRecord) -> str:
        # Masking the text itself might remove what ends a string.
        return json.dumps(_mask_strings(json.loads(text)))


class _SafeFluentFormatter(_SafeFormatter):
    """The same for fluentd, to which a record goes as a dictionary."""

    def format(self, record: logging.LogRecord) -> Any:
        """Return the fields of a record."""
        _clean_message(record)
        return _mask_strings(self._inner.format(record))


def _clean_message(record: logging.LogRecord) -> None:
    """Make the message of a record one line without secrets."""
    message = record.getMessage()
    safe = _without_secrets(printable(message))
    if safe != message:
        record.msg, record.args = safe, None


def _mask_strings(value: Any) -> Any:
    """Return a JSON value with every string in it masked."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list):
        return [_mask_strings(item) for item in value]
    if isinstance(value, dict):
        return {name: _mask_strings(item) for name, item in value.items()}
    return value


def _list_multiline(error: BaseException | None) -> Iterator[str]:
    """Yield the texts of several lines of an exception and of those that caused it."""
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        text_of_error = "".join(traceback.format_exception_only(error)).rstrip()
        if "\n" in text_of_error:
            yield text_of_error
        error = error.__cause__ or error.__context__


def _without_secrets(text: str) -> str:
    return mask_text(text) if "://" in text else text
