"""Whether the fields of a reservation are what its plugin's schemas accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema
import jsonschema

from placement_core.plugin_api.reservations import InvalidReservation, ReservationPlugin

#: So much is said about a fault at most: it may repeat what was sent.
_LONGEST = 300


class PluginSchemas:
    """The schemas of a plugin, compiled."""

    def __init__(self, plugin: ReservationPlugin) -> None:
        self._create = _Schema(plugin.create_schema)
        self._update = _Schema(plugin.update_schema)

    def check_new(self, given: Mapping[str, Any]) -> None:
        """Check the fields of a reservation that shall be made.

        :raises InvalidReservation: naming the first that is wrong.
        """
        self._create.check(given)

    def check_change(self, given: Mapping[str, Any]) -> None:
        """Check the fields that shall change.

        :raises InvalidReservation: naming the first that is wrong.
        """
        self._update.check(given)


class _Schema:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)
        self._check: Callable[[Any], Any] = fastjsonschema.compile(
            self._schema, use_default=False, detailed_exceptions=False)

    def check(self, given: Mapping[str, Any]) -> None:
        try:
            self._check(dict(given))
        except (fastjsonschema.JsonSchemaValueException, RecursionError):
            raise self._fault(given) from None

    def _fault(self, given: Mapping[str, Any]) -> InvalidReservation:
        """Say it in the words of ``jsonschema``, which names what is wrong."""
        error = jsonschema.exceptions.best_match(
            jsonschema.Draft202012Validator(self._schema).iter_errors(dict(given)))
        if error is None:
            return InvalidReservation("The fields of the reservation make no sense.", "")
        if error.validator == "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return InvalidReservation(f"Missing parameter {missing}", missing)
        field = str(error.absolute_path[0]) if error.absolute_path else ""
        message = f"{field}: {error.message}" if field else error.message
        return InvalidReservation(
            message if len(message) <= _LONGEST else f"{message[:_LONGEST - 1]}…", field)
