"""Whether limits and catalog are kept here: what another service keeps is read-only here.

These are for ``Operation.check_served``: they refuse a request before its body is read.
"""

from __future__ import annotations

from placement_core import errors
from placement_core.services import Services


class ReadOnlyBackend(errors.Forbidden):
    """Another service keeps what the request is about."""

    def __init__(self, group: str, pronoun: str, driver: str) -> None:
        """Say who keeps it.

        :param group: of options, which also names what is kept.
        """
        super().__init__(
            f"This service does not keep the {group}: it asks for {pronoun} ([{group}] driver = "
            f"{driver}). Use the API of who keeps {pronoun}.")


def check_limits(services: Services) -> None:
    """Check that the limits are in our own tables.

    :raises ReadOnlyBackend: they are not; it says who keeps them.
    """
    if not services.limits.transactional:
        raise ReadOnlyBackend("limits", "them", services.conf.limits.driver)


def check_catalog(services: Services) -> None:
    """Check that the catalog is in our own tables.

    :raises ReadOnlyBackend: it is not; it says who keeps it.
    """
    if not services.catalog.local:
        raise ReadOnlyBackend("catalog", "it", services.conf.catalog.driver)
