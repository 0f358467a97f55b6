"""Write exported rows as lines of JSON."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from placement_core import errors
from placement_core.takeover.exports import Row


def write_lines(
    stream: TextIO, rows: Iterable[Row], counts: Mapping[str, int],
    report: Callable[[str, int, int], None],
) -> None:
    """Write rows, each as a line with its table and its values.

    :param counts: how many rows each table has, for the report.
    """
    written = dict.fromkeys(counts, 0)
    for table, values in rows:
        line = json.dumps(
            {"table": table, "values": values}, ensure_ascii=False, default=_encode)
        stream.write(f"{line}\n")
        written[table] += 1
        report(table, written[table], counts[table])


def write_file(
    path: str, rows: Iterable[Row], counts: Mapping[str, int],
    report: Callable[[str, int, int], None],
) -> None:
    """Write rows to a file, which is there as a whole or not at all.

    A pipe or a device is written into: others have it open, or need it. A link is refused: to
    follow one would let whoever made it choose the file, and to replace it might take
    ``/dev/stdout`` away.

    :raises errors.ConfigurationError: the file cannot be written.
    """
    place = pathlib.Path(path)
    if place.is_symlink():
        raise errors.ConfigurationError(
            f"{path}: it is a link; expected a file, or - for stdout")
    try:
        if place.exists() and not place.is_file():
            descriptor = os.open(place, os.O_WRONLY | os.O_NOFOLLOW)
            with open(descriptor, "w", encoding="utf-8") as stream:
                write_lines(stream, rows, counts, report)
        else:
            _replace(place, rows, counts, report)
    except OSError as error:
        raise errors.ConfigurationError(f"{path}: {error.strerror}") from error


def _replace(
    place: pathlib.Path, rows: Iterable[Row], counts: Mapping[str, int],
    report: Callable[[str, int, int], None],
) -> None:
    """Write rows to a new file, and put it in the place of another one when all is written."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            write_lines(stream, rows, counts, report)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _encode(value: Any) -> str:
    """Return what JSON has no type for: times as in the APIs, bytes in base64."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
