"""What a request body must look like: JSON schemas."""

from __future__ import annotations

from typing import Any

from placement_core.http.limits_api import bodies
from placement_core.http.limits_api.bodies import Schema

#: Users are Keystone's, or somebody's LDAP directory's: any text.
USER_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"}

_CHANGES: dict[str, Any] = {
    "resource_limit": bodies.VALUE, "description": bodies.DESCRIPTION}
_USER_LIMIT: dict[str, Any] = {
    "project_id": bodies.NODE_ID, "user_id": USER_ID, **bodies.LIMIT_KEY, **_CHANGES}

USER_LIMITS_CREATE = bodies.batch("user_limits", bodies.record(_USER_LIMIT, (
    "project_id", "user_id", "service_id", "resource_name", "resource_limit")))
USER_LIMIT_UPDATE = bodies.wrapped("user_limit", bodies.record(_CHANGES))
