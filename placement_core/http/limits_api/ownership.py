"""Checks that limits or catalog are stored here; those of another service are read-only.

These are for ``Operation.check_served``: they refuse a request before its body is read.
"""

from __future__ import annotations

from placement_core import errors
from placement_core.services import Services


class ReadOnlyBackend(errors.Forbidden):
    """Another service stores what the request would change."""

    def __init__(self, group: str, pronoun: str, driver: str) -> None:
        """Describe the service that stores it.

        :param group: the group of options, which is also the name of what is stored.
        """
        super().__init__(
            f"This service does not keep the {group}: it asks for {pronoun} ([{group}] driver = "
            f"{driver}). Use the API of who keeps {pronoun}.")


def check_limits(services: Services) -> None:
    """Check that the limits are in our own tables.

    :raises ReadOnlyBackend: they are not; it names the driver.
    """
    if not services.limits.transactional:
        raise ReadOnlyBackend("limits", "them", services.conf.limits.driver)


def check_catalog(services: Services) -> None:
    """Check that the catalog is in our own tables.

    :raises ReadOnlyBackend: it is not; it names the driver.
    """
    if not services.catalog.local:
        raise ReadOnlyBackend("catalog", "it", services.conf.catalog.driver)
