"""The language in which reservations ask for properties of hosts.

JSON text: ``["=", "$key", "value"]``, or ``["and", c1, c2, …]``, or ``["or", c1, …]``;
the comparisons are = == != < <= > >=. Nothing, or an empty list, is no condition. A
host that lacks the property never meets a comparison, != included. Two numbers compare
as numbers, also where they are written as text; anything else as text.
Source: spec blazar §2; differs: ``or``, numbers, unknown properties are refused.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from placement_core.plugin_api.reservations import InvalidReservation

#: Bounds of one requirement: characters, levels of and and or, comparisons.
LONGEST, DEEPEST, MOST = 4096, 8, 64

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)

#: A property of one host.
Value = int | str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A property, how it is compared, and with what."""

    key: str
    sign: str
    value: int | str


@dataclasses.dataclass(frozen=True, slots=True)
class Combination:
    """Conditions of which all (``and``), or at least one (``or``), must be met."""

    word: str
    conditions: tuple[Comparison | Combination, ...]


#: None: no condition.
Requirement = Comparison | Combination | None


def parse(text: str, field: str) -> Requirement:
    """Read a requirement.

    :param field: the field it is from, for error messages.
    :raises InvalidReservation: it is malformed, too long, too deep or too large.
    """
    if not text.strip():
        return None
    if len(text) > LONGEST:
        raise InvalidReservation(
            f"{field} is longer than {LONGEST} characters.", field)
    try:
        document = json.loads(text, parse_float=_keep_spelling, parse_constant=_keep_spelling)
    except (ValueError, RecursionError):
        raise _malformed(field, "it is no JSON") from None
    if document == []:
        return None
    requirement = _parse_condition(document, field, 1)
    if sum(1 for _ in _comparisons(requirement)) > MOST:
        raise _malformed(field, f"it has more than {MOST} comparisons")
    return requirement


def keys(requirement: Requirement) -> frozenset[str]:
    """Return the names of the properties that a requirement looks at."""
    return frozenset(comparison.key for comparison in _comparisons(requirement))


def hosts_that_meet(
    requirement: Requirement, properties: Mapping[str, Sequence[Value]], count: int, *,
    field: str,
) -> np.ndarray:
    """Return for each of ``count`` hosts whether it meets a requirement.

    :param properties: {name: the value of each host}.
    :raises InvalidReservation: no host has a property of that name.
    """
    for key in sorted(keys(requirement)):
        if key not in properties:
            raise InvalidReservation(
                f"{field} names the property {_quote(key)}, which no host has.", field)
    return _evaluate(requirement, properties, count)


def _evaluate(
    condition: Requirement, properties: Mapping[str, Sequence[Value]], count: int
) -> np.ndarray:
    match condition:
        case None:
            return np.ones(count, dtype=bool)
        case Comparison(key, sign, value):
            return _compare(properties[key], sign, value, count)
        case Combination(word, conditions):
            join = np.logical_and if word == "and" else np.logical_or
            meets: np.ndarray = join.reduce(
                [_evaluate(condition, properties, count) for condition in conditions])
            return meets


def _compare(
    column: Sequence[Value], sign: str, value: int | str, count: int
) -> np.ndarray:
    compare, number, text = _COMPARISONS[sign], _parse_number(value), str(value)
    answers: dict[Value, bool] = {None: False}
    for host_value in set(column) - {None}:
        host_number = _parse_number(host_value)
        answers[host_value] = (
            compare(host_number, number) if host_number is not None and number is not None
            else compare(str(host_value), text))
    return np.fromiter((answers[host_value] for host_value in column), dtype=bool, count=count)


def _parse_number(value: Value) -> Decimal | None:
    if isinstance(value, int) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return Decimal(value)
    return None


def _parse_condition(document: object, field: str, depth: int) -> Comparison | Combination:
    if not isinstance(document, list) or not document:
        raise _malformed(field, f"{_quote(document)} is no condition")
    if depth > DEEPEST:
        raise _malformed(field, f"it has more than {DEEPEST} levels")
    word, *rest = document
    if word in ("and", "or"):
        if not rest:
            raise _malformed(field, f'"{word}" has no conditions')
        return Combination(word, tuple(
            _parse_condition(condition, field, depth + 1) for condition in rest))
    return _parse_comparison(document, field)


def _parse_comparison(document: list[Any], field: str) -> Comparison:
    if len(document) != 3:
        raise _malformed(field, f"{_quote(document)} has not three parts")
    sign, key, value = document
    if not isinstance(sign, str) or sign not in _COMPARISONS:
        raise _malformed(field, f"{_quote(sign)} is no comparison")
    if not isinstance(key, str) or not key.startswith("$") or key == "$":
        raise _malformed(field, f"{_quote(key)} is no property: its name follows a $")
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _malformed(field, f"{_quote(value)} is neither text nor a number")
    return Comparison(key[1:], sign, value)


def _comparisons(requirement: Requirement) -> Iterator[Comparison]:
    match requirement:
        case Comparison():
            yield requirement
        case Combination(_, conditions):
            for condition in conditions:
                yield from _comparisons(condition)


def _keep_spelling(text: str) -> str:
    """Keep a number as it is written: floats are not exact; 1e5 and NaN are refused."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return text


def _malformed(field: str, reason: str) -> InvalidReservation:
    return InvalidReservation(f"Malformed requirements in {field}: {reason}.", field)


def _quote(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
