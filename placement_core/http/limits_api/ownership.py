"""Who keeps limits and catalog: what another service keeps is not changed here.

These are for ``Operation.check_served``: who is sent elsewhere is sent before a body is read.
"""

from __future__ import annotations

from placement_core import errors
from placement_core.services import Services


class ReadOnlyBackend(errors.Forbidden):
    """Another service keeps what was asked for."""


def check_limits(services: Services) -> None:
    """Go on only where the limits are in our own tables.

    :raises ReadOnlyBackend: they are not; it says who keeps them.
    """
    if not services.limits.transactional:
        driver = services.conf.limits.driver
        raise ReadOnlyBackend(
            f"This service does not keep the limits: it asks for them ([limits] driver = "
            f"{driver}). Use the API of who keeps them.")


def check_catalog(services: Services) -> None:
    """Go on only where the catalog is in our own tables.

    :raises ReadOnlyBackend: it is not; it says who keeps it.
    """
    if not services.catalog.local:
        driver = services.conf.catalog.driver
        raise ReadOnlyBackend(
            f"This service does not keep the catalog: it asks for it ([catalog] driver = "
            f"{driver}). Use the API of who keeps it.")
