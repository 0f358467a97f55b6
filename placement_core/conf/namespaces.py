"""Every option that may stand in placement.conf: ours, of libraries, of drivers of others.

Most are registered only by what uses them. Here they are found by the entry points with which
each distribution lists its options (``oslo.config.opts``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from oslo_config import cfg

_GROUP = "oslo.config.opts"
_DISTRIBUTION = "placement-core"
#: The options of other services, which use the library.
_ELSEWHERE = "placement_core.enforcer"
#: Entry points of every kind of driver are in groups that begin with this.
_DRIVERS = "placement_core."
#: Libraries whose options belong into placement.conf.
LIBRARIES = (
    "oslo.log", "oslo.policy", "oslo.middleware.cors", "oslo.middleware.healthcheck",
    "oslo.middleware.http_proxy_to_wsgi", "keystonemiddleware.auth_token",
)


def list_own() -> list[str]:
    """Return the namespaces of this distribution's options, its plugins included."""
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
