"""The resource map, ``[quota] resource_map``: which units the names of limits count."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from placement_core import errors
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES
from placement_core.quota.errors import UnknownResource

#: How a limit names a resource class, as nova does.
_CLASS_PREFIX = "class:"
_CLASS = re.compile(r"[A-Z0-9_]{1,255}")


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """The resource map: which units a name stands for.

    :ivar named: {name: units}, from the option.
    """

    named: Mapping[str, frozenset[str]]

    def knows(self, name: str) -> bool:
        """Say whether a name maps to units."""
        return name in self.named or _class_of(name) is not None

    def units(self, name: str) -> frozenset[str]:
        """Return the units that a name counts.

        :raises errors.UnknownResource: it counts none.
        """
        units = self.named.get(name)
        if units is None:
            resource_class = _class_of(name)
            if resource_class is None:
                raise UnknownResource(name)
            units = frozenset((resource_class,))
        return units

    def name_of(self, resource_class: str) -> str:
        """Return the name of a limit on one resource class."""
        return f"{_CLASS_PREFIX}{resource_class}"

    def is_guarded(self, name: str) -> bool:
        """Say whether a name counts only what placement allocates, which the guard enforces."""
        return self.knows(name) and INSTANCES not in self.units(name)


def parse(items: Sequence[str]) -> Resources:
    """Parse the option.

    :raises errors.ConfigurationError: an item is malformed, or a name is there twice.
    """
    named: dict[str, frozenset[str]] = {}
    for item in items:
        name, equals, counted = (part.strip() for part in item.partition("="))
        units = [unit.strip() for unit in counted.split("+")]
        if not name or not equals or not all(map(_is_unit, units)):
            raise errors.ConfigurationError(
                f"[quota] resource_map: {item}: expected name=unit+unit, each unit a resource "
                f"class, {CONSUMERS} or {INSTANCES}")
        if name in named:
            raise errors.ConfigurationError(f"[quota] resource_map: {name} is there twice")
        named[name] = frozenset(units)
    return Resources(named)


def _class_of(name: str) -> str | None:
    prefix, _, resource_class = name.partition(_CLASS_PREFIX)
    return resource_class if not prefix and _CLASS.fullmatch(resource_class) else None


def _is_unit(text: str) -> bool:
    return text in (CONSUMERS, INSTANCES) or _CLASS.fullmatch(text) is not None
