"""Updates of projects in our own catalog that keep the limits of their trees consistent."""

from __future__ import annotations

from typing import Unpack

from placement_core import db
from placement_core.catalog import projects, tree
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.limits import hierarchy, references
from placement_core.plugin_api.catalog import Project
from placement_core.plugin_api.enforcement import EnforcementModel


@db.retry_writes
def update_project(
    ctx: Context, model: EnforcementModel, id_: str, **changes: Unpack[projects.ProjectChanges]
) -> Project:
    """Update a project; a move takes its limits, and those below it, along.

    :param changes: as for ``projects.update`` of the catalog room, which documents its
        errors.
    :raises errors.HierarchyClash: a limit would not fit at the project's new place.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        changed = projects.update(ctx, id_, max_depth=model.max_depth, **changes)
        if model.hierarchical and "parent_id" in changes:
            root = tree.lineage(session, id_)[0]
            forest = references.Forest(
                {node.id: node for node in tree.subtree(session, root.id)})
            hierarchy.check_moved(session, model, forest, id_)
    return changed
