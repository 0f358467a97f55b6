"""Whose leases a caller sees: their project's; administrators everybody's."""

from __future__ import annotations

from placement_core.context import Identity
from placement_core.http.errors import NotAllowed


def is_administrator(caller: Identity) -> bool:
    """Say whether a caller sees the leases of all projects."""
    return "admin" in caller.roles


def visible(caller: Identity, rule: str, asked: str | None = None) -> str | None:
    """Return the project whose leases a caller sees; None: all of them.

    :param rule: the policy rule of the operation.
    :param asked: the only project whose leases they want to see.
    :raises NotAllowed: they want to see those of another one, or have none.
    """
    if is_administrator(caller):
        return asked
    if caller.project_id is None or asked not in (None, caller.project_id):
        raise NotAllowed(rule)
    return caller.project_id
