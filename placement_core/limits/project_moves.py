"""Changing a project of our own catalog so that the limits of its tree still fit."""

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
    """Change a project; one that is moved brings its limits, and those below it, along.

    :param changes: as for ``projects.update`` of the catalog room, which says what it
        raises besides.
    :raises errors.HierarchyClash: a limit does not fit where the project would be.
    """
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.LIMITS)
        changed = projects.update(ctx, id_, max_depth=model.max_depth, **changes)
        if model.hierarchical and "parent_id" in changes:
            root = tree.lineage(session, id_)[0]
            forest = references.Forest(
                {node.id: node for node in tree.subtree(session, root.id)})
            hierarchy.check_moved(session, model, forest, id_)
    return changed
