"""/capacity/v1/limits/users: limits of single users in a project.

Keystone does not know them: nova's old quotas had them, and some sites still count by
user.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core.http import pages
from placement_core.http.capacity_api.queries import USER_LIMIT_FIELDS
from placement_core.http.limits_api import queries
from placement_core.http.operations import Call, Reply
from placement_core.limits import users
from placement_core.limits.records import UserLimit

_PATH = "/capacity/v1/limits/users"
#: The default size of a page.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the users' limits that pass every filter of the query."""
    page = call.parse_page()
    size = page.size or _PAGE
    limits = users.list_(
        call.ctx, queries.parse_filters(call.query, USER_LIMIT_FIELDS),
        marker=page.marker, limit=size + 1)
    next_url = None
    if len(limits) > size:
        limits = limits[:size]
        next_url = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, limits[-1].id)
    return Reply(body={
        "user_limits": [dataclasses.asdict(limit) for limit in limits],
        "links": {"next": next_url}})


def create(call: Call) -> Reply:
    """Set limits of users, all or nothing."""
    limits = users.create_many(call.ctx, call.services.catalog, call.body["user_limits"])
    return Reply(201, {"user_limits": [dataclasses.asdict(limit) for limit in limits]})


def show(call: Call) -> Reply:
    """Return one user's limit."""
    return Reply(body=_wrap(users.get(call.ctx, call.path["id"])))


def update(call: Call) -> Reply:
    """Change the value or the description of a user's limit."""
    return Reply(body=_wrap(users.update(call.ctx, call.path["id"], call.body["user_limit"])))


def delete(call: Call) -> Reply:
    """Remove a user's limit."""
    users.delete(call.ctx, call.path["id"])
    return Reply(204)


def _wrap(limit: UserLimit) -> dict[str, Any]:
    return {"user_limit": dataclasses.asdict(limit)}
