"""Registration of a service's whole list of resources at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.limits import errors, references, registered
from placement_core.limits.inputs import Key
from placement_core.limits.records import RegisteredLimit
from placement_core.plugin_api.catalog import CatalogDriver

#: ``skipped``: would have been created or changed, had nothing been refused.
State = Literal["created", "changed", "unchanged", "refused", "skipped"]


@dataclasses.dataclass(frozen=True, slots=True)
class RegisterResult:
    """The result for one resource.

    :ivar old_default: None: it was not registered.
    :ivar new_default: the requested default.
    :ivar reason: why it was refused.
    """

    resource_name: str
    state: State
    old_default: int | None
    new_default: int
    reason: str = ""


@db.retry_writes
def register(
    ctx: Context, catalog: CatalogDriver, items: Sequence[Mapping[str, Any]]
) -> list[RegisterResult]:
    """Register resources, and change the defaults of those that are registered already.

    All or nothing: if one is refused, because limits refer to it, none is changed. Resources
    and descriptions that are not in ``items`` stay as they are.

    :param items: as for ``registered.create_many``.
    :returns: one for each, in the order of the items.
    :raises errors.InvalidLimit: an item is invalid.
    :raises errors.UnknownLimitReference: a service or region does not exist.
    :raises errors.DuplicateLimit: a resource is there twice.
    """
    new_limits = [registered.parse(item) for item in items]
    keys = [registered.key_of(limit) for limit in new_limits]
    if len(set(keys)) < len(keys):
        raise errors.DuplicateLimit("registered_limit", "it is given twice")
    with references.open_write(
            ctx, catalog, lambda: references.check(ctx, catalog, keys)) as (session, _):
        rows = registered.find_rows(session, keys)
        before = {key: registered.from_row(row) for key, row in rows.items()}
        after = {key: _merge(before.get(key), limit)
                 for key, limit in zip(keys, new_limits, strict=True)}
        changed = [key for key in keys if key in before and after[key] != before[key]]
        refused = _in_use(session, rows, changed)
        if not refused:
            registered.insert(ctx, session, [after[key] for key in keys if key not in before])
            for key in changed:
                registered.update_row(ctx, session, rows[key].id, before[key], after[key])
    return [_result(before.get(key), after[key], key in refused, bool(refused)) for key in keys]


def _in_use(
    session: db.Session, rows: Mapping[Key, sa.Row[Any]], changed: Sequence[Key]
) -> set[Key]:
    used_row_ids = registered.in_use(session, [rows[key].id for key in changed])
    return {key for key in changed if rows[key].id in used_row_ids}


def _merge(before: RegisteredLimit | None, new: RegisteredLimit) -> RegisteredLimit:
    """Return the new state of a registered limit."""
    if before is None:
        return new
    description = before.description if new.description is None else new.description
    return dataclasses.replace(
        before, default_limit=new.default_limit, description=description)


def _result(
    before: RegisteredLimit | None, after: RegisteredLimit, refused: bool, rolled_back: bool
) -> RegisterResult:
    old_default = None if before is None else before.default_limit
    if after == before:
        return RegisterResult(after.resource_name, "unchanged", old_default, after.default_limit)
    if refused:
        return RegisterResult(
            after.resource_name, "refused", old_default, after.default_limit,
            "limits refer to it: delete them first, or keep the default")
    if rolled_back:
        return RegisterResult(after.resource_name, "skipped", old_default, after.default_limit)
    return RegisterResult(
        after.resource_name, "created" if before is None else "changed", old_default,
        after.default_limit)
