"""Whether bodies and query strings are what their schemas say.

A compiled validator decides; only what it refuses is looked at again by
``jsonschema``, whose wording clients and the upstream suite know. Where the
second look finds nothing, the value is accepted: the two differ at the edges,
and ``jsonschema`` is the contract. Source: spec placement_api §1.4.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema
import jsonschema
import orjson

from placement_core import errors

#: The wording repeats what it refuses; more of it than this helps nobody.
_LONGEST_WORDING = 8000

_UUID_LIKE = re.compile(r"[0-9a-fA-F]{32}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# Numbers that orjson reads otherwise than we want: floats, and integers that
# may not fit into 64 bits. It may also match inside a string, which costs time.
_UNUSUAL_NUMBER = re.compile(rb"(?:^|[\s:\[,-])[0-9]+[.eE]|[0-9]{19}")
_LARGEST_INTEGER = 2**63 - 1


class MalformedBody(errors.Invalid):
    """The body is no JSON."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"Malformed JSON: {reason}")


class InvalidBody(errors.Invalid):
    """The body does not follow its schema."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"JSON does not validate: {reason}")
        self.reason = reason


class InvalidQuery(errors.Invalid):
    """The query string does not follow its schema, or cannot be decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Invalid query string parameters: {reason}")
        self.reason = reason


def uuid_like(value: object) -> bool:
    """Say whether a value of a body is a UUID in any common spelling."""
    if not isinstance(value, str):
        return True
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return _UUID_LIKE.fullmatch(bare) is not None


def strict_uuid(value: object) -> bool:
    """Say whether a value of a query string is a UUID with its dashes."""
    return not isinstance(value, str) or _UUID.fullmatch(value) is not None


#: Says what is wrong, of what jsonschema found.
Wording = Callable[[jsonschema.ValidationError], str]


def in_one_line(error: jsonschema.ValidationError) -> str:
    """Name the field, the value and what is wrong with it, as Keystone does."""
    names = [str(part) for part in error.absolute_path if isinstance(part, str)]
    field = f" for field/attribute {names[-1]}" if names else ""
    return f"Invalid input{field}: {error.message}"


class Schema:
    """A JSON schema, compiled when it is first used.

    :param uuid: what the format ``uuid`` means here.
    :param wording: what clients are told.
    """

    def __init__(
        self, schema: Mapping[str, Any], uuid: Callable[[object], bool],
        wording: Wording = str,
    ) -> None:
        self._schema = schema
        self._uuid = uuid
        self._said = wording
        self._compiled: Callable[[Any], Any] | None = None

    def fault(self, value: Any) -> str | None:
        """Say what is wrong with ``value``; None if nothing is."""
        if self._compiled is None:
            # Two threads may both do this at first: they make the same.
            self._compiled = fastjsonschema.compile(
                dict(self._schema), formats={"uuid": self._uuid}, use_default=False,
                detailed_exceptions=False)
        try:
            self._compiled(value)
        except fastjsonschema.JsonSchemaValueException:
            return self._wording(value)
        return None

    def _wording(self, value: Any) -> str | None:
        formats = jsonschema.FormatChecker(formats=())
        formats.checks("uuid")(self._uuid)
        validator = jsonschema.Draft202012Validator(self._schema, format_checker=formats)
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is None:
            return None
        try:
            return self._said(error)[:_LONGEST_WORDING]
        except RecursionError:
            return "a value is nested too deeply"


def parse_body(body: bytes) -> Any:
    """Read JSON; whole floats become integers, so that ``1.0`` is one.

    :raises MalformedBody: no JSON, or JSON that nothing here can hold: NaN and
        infinities, integers beyond 64 bits, NUL characters.
    """
    try:
        value = orjson.loads(body)
        if _UNUSUAL_NUMBER.search(body):
            value = json.loads(body, parse_int=_integer, parse_float=_float)
        if b"\\u0000" in body and _holds_nul(value):
            raise ValueError("a string holds the character NUL")
    except (ValueError, RecursionError) as error:
        raise MalformedBody(error) from None
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST_INTEGER:
        raise ValueError(f"the number {text[:40]} is too large")
    return int(text)


def _float(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_INTEGER else value


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def parse_query(raw: str) -> dict[str, list[str]]:
    """Decode a WSGI query string.

    :returns: {name: [values in order]}.
    :raises InvalidQuery: it is not UTF-8, or holds a NUL.
    """
    if not raw:
        return {}
    query: dict[str, list[str]] = {}
    try:
        text = raw.encode("latin-1").decode()
        pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeError:
        raise InvalidQuery("the query string is not UTF-8") from None
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise InvalidQuery("the query string holds the character NUL")
        query.setdefault(name, []).append(value)
    return query
