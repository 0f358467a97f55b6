"""Reservations of software licences: they float, no host has them.

``{"resource_type": "virtual:licence", "product": "matlab", "amount": 3}``; how many
there are says ``[licence_pool] licences = matlab:20,ansys:4``.
"""

from oslo_config import cfg, types

from placement_core import errors
from placement_core.plugin_api.reservations import (
    LARGEST,
    Amounts,
    InvalidReservation,
    NotChangeable,
    ReservationPlugin,
)

OPTIONS = [
    cfg.Opt("licences", type=types.Dict(types.String()), default={},
            help="How many licences there are of each product."),
]

_FIELDS = {
    "product": {"type": "string", "minLength": 1, "maxLength": 64},
    "amount": {"type": "integer", "minimum": 1, "maximum": LARGEST},
}


class LicenceReservations(ReservationPlugin):
    """``virtual:licence``: an amount of licences of one product."""

    api_version = 1
    resource_type = "virtual:licence"
    create_schema = {
        "type": "object", "properties": _FIELDS, "required": ["product", "amount"],
        "additionalProperties": False,
    }
    update_schema = {**create_schema, "required": []}

    def __init__(self, conf):
        conf.register_opts(OPTIONS, group="licence_pool")
        try:
            self._licences = {
                product: int(amount) for product, amount in conf.licence_pool.licences.items()}
        except ValueError as error:
            raise errors.ConfigurationError(f"[licence_pool] licences: {error}") from None

    def values(self, given, before=None, *, started=False):
        """Return the fields; in force, only more licences may be asked for."""
        said = {**(before or {}), **given}
        if type(said["amount"]) is not int:
            raise InvalidReservation("amount must be a whole number.", "amount")
        if said["product"] not in self._licences:
            raise InvalidReservation(f"There is no product {said['product']!r}.", "product")
        if started and before and (
                said["product"] != before["product"] or said["amount"] < before["amount"]):
            raise NotChangeable("Licences that are in use are not taken back.")
        return said

    def need(self, asked, hosts):
        """Return how many licences are needed."""
        return Amounts({asked.values["product"]: asked.values["amount"]})

    def capacities(self):
        """Return how many licences there are of each product."""
        return self._licences
