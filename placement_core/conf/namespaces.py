"""All options that placement.conf may have: of the service, of libraries and of drivers.

Most options are registered only by the code that uses them. This module finds all of them by the
entry points with which distributions list their options (``oslo.config.opts``).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator
from importlib import metadata

from oslo_config import cfg

LOG = logging.getLogger(__name__)

_GROUP = "oslo.config.opts"
_DISTRIBUTION = "placement-core"
#: The options of the enforcer library, which belong in the configuration of other services.
_ELSEWHERE = "placement_core.enforcer"
#: The prefix of the entry point groups of all kinds of drivers.
_DRIVERS = "placement_core."
#: Libraries whose options belong in placement.conf.
LIBRARIES = (
    "oslo.log", "oslo.policy", "oslo.middleware.cors", "oslo.middleware.healthcheck",
    "oslo.middleware.http_proxy_to_wsgi", "keystonemiddleware.auth_token",
)


def list_own() -> list[str]:
    """Return the namespaces of this distribution's options, including its plugins."""
    entry_points = metadata.distribution(_DISTRIBUTION).entry_points
    return sorted({entry.name for entry in entry_points.select(group=_GROUP)} - {_ELSEWHERE})


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedOptions:
    """The options that could be loaded.

    :ivar groups: {the name of a group: its options}.
    :ivar is_complete: False: the options of some drivers are missing.
    """

    groups: dict[str, list[cfg.Opt]]
    is_complete: bool


def load_options() -> LoadedOptions:
    """Load all options; why those of a driver cannot be loaded is logged."""
    own = {*list_own(), *LIBRARIES}
    groups: dict[str, list[cfg.Opt]] = {}
    is_complete = True
    for distribution, entry_point in _find_entry_points(own):
        try:
            groups_of_one = _load_groups(entry_point)
        except Exception as error:
            if entry_point.name in own:
                raise
            # Nobody may have chosen the driver. If somebody has, the loader says what is wrong.
            LOG.warning(
                "the options of %s %s cannot be loaded: %s: %s", distribution.name,
                distribution.version, type(error).__name__, str(error).strip().partition("\n")[0])
            is_complete = False
            continue
        for name, group_options in groups_of_one:
            groups.setdefault(name, []).extend(group_options)
    return LoadedOptions(groups, is_complete)


def _load_groups(entry_point: metadata.EntryPoint) -> list[tuple[str, list[cfg.Opt]]]:
    return [(str(getattr(group, "name", group) or "DEFAULT"), list(group_options))
            for group, group_options in entry_point.load()()]


def _find_entry_points(
    own: Collection[str]
) -> Iterator[tuple[metadata.Distribution, metadata.EntryPoint]]:
    for distribution in metadata.distributions():
        entry_points = distribution.entry_points
        has_drivers = distribution.name != _DISTRIBUTION and _have_drivers(entry_points)
        for entry_point in entry_points.select(group=_GROUP):
            if has_drivers or entry_point.name in own:
                yield distribution, entry_point


def _have_drivers(entry_points: Iterable[metadata.EntryPoint]) -> bool:
    return any(entry_point.group.startswith(_DRIVERS) for entry_point in entry_points)
