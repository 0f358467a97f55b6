"""The interface of enforcement models: whether limits are consistent, and whether a claim fits.

One class decides both, so that the decisions cannot diverge (requirement L5). A model is
pure: it computes with the numbers that it receives, and reads nothing.

A limit that is *set* for a node binds the node. The registered *default* limits the own usage of
a project without a limit. The model decides which limits of a lineage bind a claim, and whether
each applies to the usage of a node alone or of its subtree (``bindings``).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from oslo_config import cfg

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node

#: The usage that counts against a limit: that of the node alone, or of its whole subtree.
Scope = Literal["own", "subtree"]


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """A limit on the usage of one resource by a node or its subtree.

    :ivar source: whether the limit is set for the node, or is the registered default.
    """

    node_id: str
    limit: Amount
    scope: Scope
    source: Literal["set", "default"]


@dataclasses.dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a claim would exceed.

    :ivar usage: the present usage that counts against the limit.
    """

    resource_name: str
    binding: Binding
    usage: int
    delta: int


@dataclasses.dataclass(frozen=True, slots=True)
class LimitTree:
    """The limits of one registered resource in some trees of projects.

    :ivar nodes: by id, with the parents of all nodes.
    :ivar limits: the limits that are set, by id of a node in ``nodes``.
    :ivar default: the registered default.
    """

    nodes: Mapping[str, Node]
    limits: Mapping[str, Amount]
    default: Amount


@dataclasses.dataclass(frozen=True, slots=True)
class Clash:
    """Two limits that are inconsistent.

    :ivar node_id: the node whose limit is too high or, compared to its children, too low.
    :ivar other_id: the node with whose limit it clashes; None: it clashes with the registered
        default, or the node is too deep.
    :ivar reason: a sentence for people with both nodes and their limits.
    """

    node_id: str
    other_id: str | None
    reason: str


class EnforcementModel(abc.ABC):
    """A model of limits in a tree of projects.

    Used from any thread; has no state but its options. Trees may be damaged: the lineage of a
    node ends at a parent that is missing, and where a loop closes.

    :cvar api_version: the version of this class that a model was written for.
    :cvar name: the name in ``GET /v3/limits/model``.
    :cvar description: the description in ``GET /v3/limits/model``.
    :cvar hierarchical: whether limits of other nodes than the project can bind a claim;
        otherwise ``bindings`` receives the project alone.
    :cvar max_depth: the number of levels that a tree may have, where a domain is level 1;
        None: any number.
    """

    api_version = 1
    name: str
    description: str
    hierarchical = False
    max_depth: int | None = None

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a model registers its own options here.

        :raises errors.ConfigurationError: an option of the model is not valid.
        """

    @abc.abstractmethod
    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return the clashes between limits that a change would cause.

        :param tree: the tree after the change.
        :param changed: the nodes whose limits change. Clashes that do not involve them are not
            reported, so that a tree with other clashes (after a change of the model, for
            example) can be corrected step by step. Nodes that lose their limit or are moved
            are included, because their descendants get another limit above them.
        """

    @abc.abstractmethod
    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the limits that bind a claim of the last node of ``lineage``.

        :param lineage: the node and its ancestors, the root first.
        :param limits: the limits that are set for nodes of the lineage.
        :returns: the project's own limit first, then those of its ancestors upwards, without
            unlimited ones. Projects that a limit of the same node binds have the last binding in
            common, too: claims lock the nodes of their bindings, and are charged to these only.
        """

    def judge(
        self, resource_name: str, bindings: Sequence[Binding],
        usages: Mapping[tuple[str, Scope], int], delta: int,
    ) -> list[Excess]:
        """Return the limits that ``delta`` more of a resource would exceed.

        What fits every limit is never refused: the quota guard does not ask where it knows that
        all limits of the claim allow more than is used.

        :param usages: {(node id, scope): the usage that counts}, for each binding.
        :param delta: 0: return the limits that are exceeded already. A negative delta exceeds
            nothing.
        """
        if delta < 0:
            return []
        return [
            Excess(resource_name, binding, usage, delta)
            for binding in bindings
            if amounts.is_over(
                binding.limit, usage := usages[binding.node_id, binding.scope], delta)]
