"""Who keeps limits and catalog: what another service keeps is not changed here."""

from __future__ import annotations

from placement_core import errors
from placement_core.http.operations import Call


class KeptElsewhere(errors.Forbidden):
    """Another service keeps what was asked for."""


def limits_here(call: Call) -> None:
    """Go on only where the limits are in our own tables.

    :raises KeptElsewhere: they are not; it says who keeps them.
    """
    if not call.services.limits.transactional:
        driver = call.services.conf.limits.driver
        raise KeptElsewhere(
            f"This service does not keep the limits: it asks for them ([limits] driver = "
            f"{driver}). Use the API of who keeps them.")


def catalog_here(call: Call) -> None:
    """Go on only where the catalog is in our own tables.

    :raises KeptElsewhere: it is not; it says who keeps it.
    """
    if not call.services.catalog.local:
        driver = call.services.conf.catalog.driver
        raise KeptElsewhere(
            f"This service does not keep the catalog: it asks for it ([catalog] driver = "
            f"{driver}). Use the API of who keeps it.")
