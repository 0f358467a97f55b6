"""Which part of the trees of projects a caller can see.

A caller who passes a rule that the operation names sees everything (by default the system,
administrators and services); a domain-scoped token sees its tree. A project-scoped token
sees the project, its subtree and, if the enforcement model lets limits of ancestors bind it,
its ancestors, so that a caller who is refused can find out why.
Source: spec limits §2, "Policies"; requirement L7.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from placement_core.http.limits_api import policies
from placement_core.http.operations import Call


@dataclasses.dataclass(frozen=True, slots=True)
class Visibility:
    """What a caller can see.

    :ivar node_id: the root of the visible subtree; None: nothing.
    :ivar above: whether its ancestors are visible, too.
    """

    everything: bool = False
    node_id: str | None = None
    above: bool = False

    @property
    def key(self) -> str:
        """Return a text that identifies this visibility."""
        return "*" if self.everything else f"{self.node_id}:{self.above}"


def get_visibility(call: Call, everything: str = policies.ALL_PROJECTS) -> Visibility:
    """Return what a caller sees.

    :param everything: the policy rule of those who see everything.
    """
    caller = call.ctx.identity
    if call.allows(everything):
        return Visibility(everything=True)
    if caller.domain_id:
        return Visibility(node_id=caller.domain_id)
    return Visibility(node_id=caller.project_id, above=True)


def get_visibility_of_lists(call: Call) -> Visibility:
    """Return which projects and domains are listed for a caller.

    A token for a domain lists that domain's, an administrator's, too, who may be shown any one
    of them. Source: Keystone 30.0.0, which filters its lists by the domain of the token.
    """
    domain_id = call.ctx.identity.domain_id
    return Visibility(node_id=domain_id) if domain_id else get_visibility(call)


def get_visibility_of_limits(call: Call) -> Visibility:
    """Return whose limits a caller sees."""
    visibility = get_visibility(call, policies.LIMITS_OF_ALL)
    return dataclasses.replace(
        visibility, above=visibility.above and call.services.model.hierarchical)


def list_visible(
    call: Call, visibility: Visibility, only_id: str | None = None
) -> Collection[str] | None:
    """Return the ids of domains and projects that can be seen; None for all.

    :param only_id: the only one that matters, if there is one.
    """
    if visibility.everything:
        return None
    if visibility.node_id is None:
        return ()
    if only_id == visibility.node_id:
        return (only_id,)
    catalog = call.services.catalog
    visible = {node.id for node in catalog.subtree(call.ctx, visibility.node_id)}
    if visibility.above:
        visible.update(node.id for node in catalog.lineage(call.ctx, visibility.node_id))
    return visible


def can_see(call: Call, visibility: Visibility, node_id: str | None) -> bool:
    """Say whether a domain or project can be seen."""
    visible = list_visible(call, visibility, node_id)
    return visible is None or node_id in visible
