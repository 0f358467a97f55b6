"""What the names of limits count: ``[quota] resource_map``, read."""

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

    :ivar named: {name: units}, as the option says.
    """

    named: Mapping[str, frozenset[str]]

    def knows(self, name: str) -> bool:
        """Say whether a name stands for anything that is counted."""
        return name in self.named or _class_of(name) is not None

    def units(self, name: str) -> frozenset[str]:
        """Return the units that a name stands for.

        :raises errors.UnknownResource: it stands for none.
        """
        units = self.named.get(name)
        if units is None:
            resource_class = _class_of(name)
            if resource_class is None:
                raise UnknownResource(name)
            units = frozenset((resource_class,))
        return units

    def name_of(self, resource_class: str) -> str:
        """Return the name of a limit on a resource class alone."""
        return f"{_CLASS_PREFIX}{resource_class}"

    def guarded(self, name: str) -> bool:
        """Say whether claims of placement are all that a name counts."""
        return self.knows(name) and INSTANCES not in self.units(name)


def parse(listed: Sequence[str]) -> Resources:
    """Read the option.

    :raises errors.ConfigurationError: an item makes no sense.
    """
    named: dict[str, frozenset[str]] = {}
    for item in listed:
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
