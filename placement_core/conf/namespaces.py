"""All options that placement.conf may have: of the service, of libraries and of drivers.

Most options are registered only by the code that uses them. This module finds all of them by the
entry points with which distributions list their options (``oslo.config.opts``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from oslo_config import cfg

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


def load_options() -> dict[str, list[cfg.Opt]]:
    """Return all options by the name of their group."""
    options: dict[str, list[cfg.Opt]] = {}
    for entry_point in _find_entry_points():
        for group, group_options in entry_point.load()():
            name = str(getattr(group, "name", group) or "DEFAULT")
            options.setdefault(name, []).extend(group_options)
    return options


def _find_entry_points() -> Iterator[metadata.EntryPoint]:
    own = {*list_own(), *LIBRARIES}
    for distribution in metadata.distributions():
        entry_points = distribution.entry_points
        has_drivers = distribution.name != _DISTRIBUTION and _have_drivers(entry_points)
        for entry_point in entry_points.select(group=_GROUP):
            if has_drivers or entry_point.name in own:
                yield entry_point


def _have_drivers(entry_points: Iterable[metadata.EntryPoint]) -> bool:
    return any(entry_point.group.startswith(_DRIVERS) for entry_point in entry_points)
