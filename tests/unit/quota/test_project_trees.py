"""The trees of projects: who is below whom, and what each has of a resource."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core.plugin_api.catalog import Node
from placement_core.quota import project_trees
from placement_core.quota.overview import DomainLimits, Overview, ResourceColumn
from placement_core.quota.project_trees import TreeNode
from tests import base

#: {project: (parent, used, used below, limit, free, held by)}.
_PROJECTS: Mapping[str, tuple[str, int, int, int, int, str | None]] = {
    "b": ("domain", 1, 6, 10, 3, "b"), "c": ("b", 2, 4, -1, 3, "b"), "d": ("c", 4, 0, 8, 3, "b"),
    "a": ("domain", 0, 0, -1, -1, None)}


def _overview(*, ids: Sequence[str] = tuple(_PROJECTS), counted: bool = True) -> Overview:
    rows = [_PROJECTS.get(id_, (None, 5, 0, -1, -1, None)) for id_ in sorted(ids)]
    _, used, below, limits, free, held_by = map(list, zip(*rows, strict=True))
    column = ResourceColumn(
        limits, ["set"] * len(rows), used if counted else None, free if counted else None,
        held_by, below if counted else None)
    return Overview(
        sorted(ids), {id_: f"name of {id_}" for id_ in _PROJECTS}, {"VCPU": column}, None,
        {"domain": Node("domain", None, is_domain=True)} | {
            id_: Node(id_, project[0]) for id_, project in _PROJECTS.items()},
        {"domain": DomainLimits("garden", {"VCPU": 40})})


def _build(
    overview: Overview, held: Mapping[str, int] | None = None,
    visible: Collection[str] | None = None,
) -> list[TreeNode]:
    return project_trees.build(overview, "VCPU", held or {}, visible)


class TestProjectTrees(base.TestCase):
    def test_order(self) -> None:
        """Each node comes before those below it, siblings in the order of names."""
        nodes = _build(_overview(ids=(*_PROJECTS, "stranger")))
        self.assertEqual(
            [("domain", 1, True), ("a", 2, False), ("b", 2, True), ("c", 3, True),
             ("d", 4, False), ("stranger", 1, False)],
            [(node.id, node.level, node.has_children) for node in nodes])
        self.assertEqual(["garden", None], [nodes[0].name, nodes[-1].name])

    def test_amounts(self) -> None:
        nodes = {node.id: node for node in _build(_overview(), {"b": 1})}
        self.assertEqual(TreeNode(
            "b", "name of b", False, 2, True, 1, 1, 6, 10, True, 3, "name of b"), nodes["b"])
        self.assertEqual((None, None, None), (
            nodes["a"].limit, nodes["a"].free, nodes["a"].held_by))
        self.assertEqual(TreeNode(
            "domain", "garden", True, 1, True, 0, 0, 7, 40, True, None, None), nodes["domain"])

    def test_not_counted(self) -> None:
        nodes = _build(_overview(counted=False))
        self.assertEqual({(None, None, None)}, {
            (node.used, node.used_below, node.free) for node in nodes})

    def test_visible(self) -> None:
        """What is above is not there, and has no name."""
        nodes = _build(_overview(ids=("c", "d")), visible={"c", "d"})
        self.assertEqual(
            [("c", 1, "b"), ("d", 2, "b")],
            [(node.id, node.level, node.held_by) for node in nodes])
