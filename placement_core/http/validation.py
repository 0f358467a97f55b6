"""Validation of bodies and query strings against JSON schemas.

A compiled validator decides; only values that it refuses are validated again by
``jsonschema``, whose wording clients and the upstream suite know. Where that finds no error,
the value is accepted: the two differ in corner cases, and ``jsonschema`` is the contract.
Source: spec placement_api §1.4.

``jsonschema`` gathers all errors and repeats the value in each of them: it costs a thousand
times as much. So it validates small values only; of larger ones clients learn the first error
of the compiled validator.
"""

from __future__ import annotations

import functools
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastjsonschema
import jsonschema
import orjson

from placement_core import errors

#: The wording repeats the value that it refuses; a longer text is cut off.
_LONGEST_ERROR_TEXT = 8000
_LONGEST_FIRST_ERROR = 1000
#: What ``jsonschema`` validates again: values, and characters in them.
_MOST_VALUES = 1000
_MOST_CHARACTERS = 100_000
#: The defaults of the bounds that ``[api]`` has (``conf.api``).
_MOST_LEVELS = 32
_LONGEST_QUERY = 65_536
_MOST_PARAMETERS = 500
#: More than the service has schemas.
_MOST_COMPILED = 1024

_UUID_LIKE = re.compile(r"[0-9a-fA-F]{32}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# Numbers that orjson reads otherwise than we want: floats, and integers that
# may not fit into 64 bits. It may also match inside a string, which costs time.
_UNUSUAL_NUMBER = re.compile(rb"(?:^|[\s:\[,-])[0-9]+[.eE]|[0-9]{19}")
_LARGEST_INTEGER = 2**63 - 1


class MalformedBody(errors.Invalid):
    """The body is not JSON."""

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


def is_uuid_like(value: object) -> bool:
    """Say whether a value of a body is a UUID in any common spelling."""
    if not isinstance(value, str):
        return True
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return _UUID_LIKE.fullmatch(bare) is not None


def is_strict_uuid(value: object) -> bool:
    """Say whether a value of a query string is a UUID with its dashes."""
    return not isinstance(value, str) or _UUID.fullmatch(value) is not None


#: Makes the text of an error of jsonschema.
ErrorText = Callable[[jsonschema.ValidationError], str]


def describe_in_one_line(error: jsonschema.ValidationError) -> str:
    """Name the field, the value and what is wrong with it, as Keystone does."""
    names = [str(part) for part in error.absolute_path if isinstance(part, str)]
    field = f" for field/attribute {names[-1]}" if names else ""
    return f"Invalid input{field}: {error.message}"


class Schema:
    """A JSON schema, compiled when it is first used.

    :param uuid: checks the format ``uuid``.
    :param error_text: makes the text of an error.
    """

    def __init__(
        self, schema: Mapping[str, Any], uuid: Callable[[object], bool],
        error_text: ErrorText = str,
    ) -> None:
        self._schema = schema
        self._uuid = uuid
        self._error_text = error_text
        self._compiled: Callable[..., Any] | None = None

    def validate(self, value: Any) -> str | None:
        """Return what is wrong with a value; None if nothing is."""
        if self._compiled is None:
            # Two threads may both do this at first, with the same result.
            self._compiled = _compile(orjson.dumps(self._schema), self._uuid)
        try:
            self._compiled(value, name_prefix="instance")
        except fastjsonschema.JsonSchemaValueException as first:
            error = self._find_best_error(value) if _is_small(value) else (
                jsonschema.ValidationError(first.message[:_LONGEST_FIRST_ERROR]))
            return None if error is None else self._error_text(error)[:_LONGEST_ERROR_TEXT]
        return None

    def _find_best_error(self, value: Any) -> jsonschema.ValidationError | None:
        formats = jsonschema.FormatChecker(formats=())
        formats.checks("uuid")(self._uuid)
        validator = _Validator(self._schema, format_checker=formats)
        return jsonschema.exceptions.best_match(validator.iter_errors(value))


@functools.lru_cache(_MOST_COMPILED)
def _compile(schema: bytes, uuid: Callable[[object], bool]) -> Callable[..., Any]:
    """Return the validator of a schema, which takes tens of milliseconds to make.

    A process may have several applications, as in tests.
    """
    compiled: Callable[..., Any] = fastjsonschema.compile(
        _check_items_first(orjson.loads(schema)), formats={"uuid": uuid}, use_default=False,
        detailed_exceptions=False)
    return compiled


def _check_items_first(schema: Any) -> Any:
    """Return the same schema, in which ``uniqueItems`` is checked after the items are valid.

    The compiled validator hashes items to compare them, and checks ``allOf`` before that: so
    no client can send it nested items whose hashes collide.
    """
    if isinstance(schema, list):
        return [_check_items_first(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    schema = {name: _check_items_first(inner) for name, inner in schema.items()}
    if schema.get("uniqueItems") is True:
        checked_first = {
            name: schema.pop(name) for name in ("maxItems", "items") if name in schema}
        schema["allOf"] = [*schema.get("allOf", ()), checked_first]
    return schema


def _check_unique_items(
    validator: Any, unique: bool, instance: Any, _schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """Check ``uniqueItems`` in one pass; ``jsonschema`` compares mixed items pair by pair."""
    if not unique or not validator.is_type(instance, "array"):
        return
    if len({orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in instance}) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"uniqueItems": _check_unique_items})


def _is_small(value: Any) -> bool:
    """Say whether a value is small enough for ``jsonschema``, in as many steps at most."""
    values = characters = 0
    to_visit = [value]
    while to_visit:
        value = to_visit.pop()
        values += 1
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, (dict, list)):
            if len(value) + len(to_visit) > _MOST_VALUES:
                return False
            if isinstance(value, dict):
                characters += sum(map(len, value))
                value = value.values()
            to_visit.extend(value)
        if values > _MOST_VALUES or characters > _MOST_CHARACTERS:
            return False
    return True


def parse_body(body: bytes, most_levels: int = _MOST_LEVELS) -> Any:
    """Parse JSON; whole floats become integers, so that ``1.0`` is one.

    :param most_levels: of values inside of each other.
    :raises MalformedBody: no JSON, or JSON that cannot be stored: NaN and
        infinities, integers beyond 64 bits, NUL characters, more levels.
    """
    try:
        value = orjson.loads(body)
        if body.count(b"[") + body.count(b"{") > most_levels and _nests_deeper(value, most_levels):
            raise ValueError(f"values are nested more than {most_levels} levels deep")
        if _UNUSUAL_NUMBER.search(body):
            value = json.loads(body, parse_int=_parse_integer, parse_float=_parse_float)
        if b"\\u0000" in body and _holds_nul(value):
            raise ValueError("a string holds the character NUL")
    except ValueError as error:
        raise MalformedBody(error) from None
    return value


def _nests_deeper(value: Any, levels: int) -> bool:
    """Say whether containers are nested in more than so many levels."""
    containers = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        containers = [
            inner for outer in containers
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))]
        if not containers:
            return False
    return True


def _parse_integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST_INTEGER:
        raise ValueError(f"the number {text[:40]} is too large")
    return int(text)


def _parse_float(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_INTEGER else value


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def parse_query(
    raw: str, longest: int = _LONGEST_QUERY, most_parameters: int = _MOST_PARAMETERS
) -> dict[str, list[str]]:
    """Decode a WSGI query string.

    :param longest: in characters as they were sent.
    :returns: {name: [values in order]}.
    :raises InvalidQuery: it is not UTF-8, holds a NUL, or is too large.
    """
    if not raw:
        return {}
    if len(raw) > longest:
        raise InvalidQuery(f"the query string is longer than {longest} characters")
    query: dict[str, list[str]] = {}
    try:
        text = raw.encode("latin-1").decode()
        pairs = urllib.parse.parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=most_parameters)
    except UnicodeError:
        raise InvalidQuery("the query string is not UTF-8") from None
    except ValueError:
        raise InvalidQuery(
            f"the query string has more than {most_parameters} parameters") from None
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise InvalidQuery("the query string holds the character NUL")
        query.setdefault(name, []).append(value)
    return query
