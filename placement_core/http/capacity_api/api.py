"""The capacity API as the pipeline takes it: its routes and its habits."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import jsonschema
from pyramid.response import Response

from placement_core import errors
from placement_core.changes.errors import PositionLost
from placement_core.feed import tokens
from placement_core.http import errors as http_errors
from placement_core.http.apis import Api
from placement_core.http.capacity_api import answers, exceeded_limits, policies, routes, windows
from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions
from placement_core.http.versions import Versions
from placement_core.masking import mask_text
from placement_core.placement.gangs.errors import NoRoomForGang
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.quota.errors import QuotaExceeded
from placement_core.reservations.errors import NoRoom


def _render_document(
    status: int,
    error: errors.Error | http_errors.HTTPError,
    environ: dict[str, Any],
    _version: Version | None,
) -> Response:
    """Make the error document: the Placement API's, always with a code.

    What exceeds limits says which, in ``excesses``, too; a lease that does not fit says
    what is ``missing``, ``during`` which part of it, and at which start it ``fits_at``; a
    gang that does not, how many members all hosts hold, and the ``largest`` domain of each level;
    a token of changes that is too old, the ``oldest`` that works, and when the oldest change that
    is known was made (``oldest_at``).
    """
    members: dict[str, Any] = {}
    if isinstance(error, QuotaExceeded):
        members["excesses"] = [
            exceeded_limits.render_exceeded_limit(exceeded) for exceeded in error.exceeded_limits]
    if isinstance(error, PositionLost):
        members["oldest"] = tokens.encode(tokens.Token(error.oldest))
        members["oldest_at"] = error.oldest_at and error.oldest_at.replace(tzinfo=datetime.UTC)
    if isinstance(error, NoRoomForGang):
        members["holds"] = error.holds
        members["largest"] = [dataclasses.asdict(largest) for largest in error.largest]
    if isinstance(error, DoesNotFit):
        members["missing"] = dict(error.missing)
        members["during"] = error.during and windows.render_window(error.during)
    if isinstance(error, NoRoom):
        members["fits_at"] = error.fits_at
    return http_errors.render_document(status, error, environ, coded=True, members=members)


def _describe(error: jsonschema.ValidationError) -> str:
    """Say what is wrong with a body, which may hold the URLs of databases."""
    return mask_text(str(error))


API = Api(
    name="capacity",
    prefix="/capacity/v1",
    operations=routes.OPERATIONS,
    # In this tree, the microversion says how a request in Placement's words is meant.
    versions=Versions(
        microversions.SERVICE_TYPE, lowest=microversions.LOWEST, newest=microversions.NEWEST,
        default=microversions.NEWEST),
    cache_headers_since=microversions.LOWEST,
    render_document=_render_document,
    error_text=_describe,
    public_paths=("", "/openapi.json"),
    rules=policies.RULES,
    error_schema=answers.ERROR,
)
