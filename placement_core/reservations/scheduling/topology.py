"""How the hosts of a reservation are to lie: within one rack, in few racks, in many.

Clients write it where they write requirements, because Blazar's clients send nothing else:
``["==", "$within", "aggregate:trait=CUSTOM_RACK"]``, alone, or with others under ``and``. The
words are those of claims of several members, and so are the levels, but for parts of hosts; a
lease can also name a property of hosts (``property:rack``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from placement_core.db import texts
from placement_core.placement.gangs import errors, levels
from placement_core.placement.gangs.levels import Level
from placement_core.plugin_api.reservations import (
    Hosts,
    HostTopology,
    InvalidReservation,
    LevelDomains,
)
from placement_core.reservations.scheduling import requirements
from placement_core.reservations.scheduling.requirements import (
    Combination,
    Comparison,
    Requirement,
    Value,
)

#: The words of rules; no property of a host has such a name.
WORDS = ("within", "pack_by", "spread_by")

#: How texts of levels begin that are not properties: no property has such a name.
AGGREGATES = "aggregate:"

_HOST, _PROPERTY = "host", "property:"
#: The property that distinguishes hosts.
_HOST_NAME = "hypervisor_hostname"


@dataclasses.dataclass(frozen=True, slots=True)
class TopologyRules:
    """The rules of a reservation: each is a level, as clients write it, or None.

    ``within``: all in one domain of the level; ``pack_by``: in as few as possible;
    ``spread_by``: as evenly among them as possible.
    """

    within: str | None = None
    pack_by: str | None = None
    spread_by: str | None = None

    @property
    def properties(self) -> frozenset[str]:
        """Return the names of the properties that say in which domains hosts are."""
        return frozenset(_find_property(text) for text in dataclasses.astuple(self) if text)


def parse(fields: Mapping[str, str]) -> tuple[dict[str, Requirement], TopologyRules]:
    """Read the requirements of a reservation, and the rules among them.

    :param fields: {field: text}.
    :returns: {field: what is left without the rules}, and the rules.
    :raises InvalidReservation: a text is malformed, or the rules contradict each other.
    """
    conditions: dict[str, Requirement] = {}
    rules: dict[str, str] = {}
    for field, text in fields.items():
        rest, comparisons = _split(requirements.parse(text, field))
        _check_no_rules(rest, field)
        conditions[field] = rest
        for rule in comparisons:
            if rule.key in rules:
                raise InvalidReservation(f"{field}: {rule.key} is given twice.", field)
            rules[rule.key] = _parse_level(rule, field)
    if "pack_by" in rules and "spread_by" in rules:
        raise InvalidReservation("pack_by and spread_by exclude each other.", next(iter(fields)))
    return conditions, TopologyRules(**rules)


def find_properties(fields: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the properties of hosts that requirements and rules look at."""
    conditions, rules = parse(fields)
    return rules.properties.union(*map(requirements.keys, conditions.values()))


def find_topology(rules: TopologyRules, hosts: Hosts, *, field: str) -> HostTopology:
    """Return in which domains of the levels of some rules hosts are.

    :param field: the field that the rules are from, for error messages.
    :raises InvalidReservation: no host is in any domain of a level.
    """
    return HostTopology(**{
        word: None if text is None else _find_domains(text, hosts, field)
        for word, text in dataclasses.asdict(rules).items()})


def _find_domains(text: str, hosts: Hosts, field: str) -> LevelDomains:
    values: Sequence[Value] = hosts.properties.get(_find_property(text), ())
    if text == _HOST and not len(hosts):
        return number_domains(text, ())
    if not any(value is not None for value in values):
        raise InvalidReservation(
            f"{field} names the level {text}, and no host is in a domain of it.", field)
    return number_domains(text, values)


def number_domains(text: str, values: Sequence[Value]) -> LevelDomains:
    """Return the domains of a level.

    :param values: the name of each host's domain; None: it is in none.
    """
    names = sorted({str(value) for value in values if value is not None})
    number_of = {name: number for number, name in enumerate(names)}
    return LevelDomains(text, np.fromiter(
        (-1 if value is None else number_of[str(value)] for value in values),
        dtype=np.int64, count=len(values)), names)


def _split(requirement: Requirement) -> tuple[Requirement, list[Comparison]]:
    """Take the rules out of a requirement: itself, or parts of an ``and`` at its top."""
    if isinstance(requirement, Comparison) and requirement.key in WORDS:
        return None, [requirement]
    if isinstance(requirement, Combination) and requirement.word == "and":
        parts = [_split(condition) for condition in requirement.conditions]
        rest = tuple(condition for condition, _ in parts if condition is not None)
        return (Combination("and", rest) if rest else None,
                [rule for _, rules in parts for rule in rules])
    return requirement, []


def _check_no_rules(condition: Requirement, field: str) -> None:
    words = requirements.keys(condition).intersection(WORDS)
    if words:
        raise InvalidReservation(
            f"{field}: {min(words)} is a rule for the whole reservation: it stands alone, or "
            'under "and".', field)


def _parse_level(rule: Comparison, field: str) -> str:
    text = rule.value
    if rule.sign not in ("=", "==") or not isinstance(text, str):
        raise InvalidReservation(
            f'{field}: {rule.key} is the name of a level: ["==", "${rule.key}", "host"].', field)
    if not (text.startswith(_PROPERTY) and len(text) > len(_PROPERTY)):
        try:
            level = levels.parse(text)
        except errors.InvalidLevel as error:
            raise InvalidReservation(
                f"{field}: {rule.key}: {error} Leases have the level {_PROPERTY}NAME, too.",
                field) from None
        if level.kind == "tree":
            raise InvalidReservation(
                f"{field}: {rule.key} is {text}: leases book hosts, whose parts are no level.",
                field)
    return text


def _find_property(text: str) -> str:
    """Return the name of the property whose value is the name of a host's domain."""
    return _HOST_NAME if text == _HOST else text.removeprefix(_PROPERTY)


def find_levels(properties: Iterable[str]) -> Iterator[Level]:
    """Return the levels of aggregates among the names of properties.

    A name that only begins like one is no property of any host.
    """
    for name in sorted(properties):
        if name.startswith(AGGREGATES) and texts.is_storable(name):
            try:
                yield levels.parse(name)
            except errors.InvalidLevel:
                continue
