"""Validates the fields of reservations against the schemas of their plugins."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema
import jsonschema

from placement_core.plugin_api.reservations import InvalidReservation, ReservationPlugin

#: The longest error message: it may quote what the client sent.
_LONGEST = 300
#: More than there are plugins in a process.
_MOST_COMPILED = 128


class PluginSchemas:
    """The schemas of a plugin, compiled."""

    def __init__(self, plugin: ReservationPlugin) -> None:
        self._create = _Schema(plugin.create_schema)
        self._update = _Schema(plugin.update_schema)

    def check_new(self, raw_fields: Mapping[str, Any]) -> None:
        """Check the fields of a new reservation.

        :raises InvalidReservation: naming the first field that is wrong.
        """
        self._create.check(raw_fields)

    def check_change(self, raw_fields: Mapping[str, Any]) -> None:
        """Check the fields that are to change.

        :raises InvalidReservation: naming the first field that is wrong.
        """
        self._update.check(raw_fields)


@functools.lru_cache(_MOST_COMPILED)
def _compile(schema: str) -> Callable[[Any], Any]:
    """Return the validator of a schema, which takes tens of milliseconds to make.

    A process may build the services several times, as tests do.
    """
    compiled: Callable[[Any], Any] = fastjsonschema.compile(
        json.loads(schema), use_default=False, detailed_exceptions=False)
    return compiled


class _Schema:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)
        self._check = _compile(json.dumps(self._schema))

    def check(self, raw_fields: Mapping[str, Any]) -> None:
        try:
            self._check(dict(raw_fields))
        except (fastjsonschema.JsonSchemaValueException, RecursionError):
            raise self._build_error(raw_fields) from None

    def _build_error(self, raw_fields: Mapping[str, Any]) -> InvalidReservation:
        """Build the error with ``jsonschema``, whose message names what is wrong."""
        error = jsonschema.exceptions.best_match(
            jsonschema.Draft202012Validator(self._schema).iter_errors(dict(raw_fields)))
        if error is None:
            return InvalidReservation("The fields of the reservation make no sense.", "")
        if error.validator == "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return InvalidReservation(f"Missing parameter {missing}", missing)
        field = str(error.absolute_path[0]) if error.absolute_path else ""
        message = f"{field}: {error.message}" if field else error.message
        return InvalidReservation(
            message if len(message) <= _LONGEST else f"{message[:_LONGEST - 1]}…", field)
