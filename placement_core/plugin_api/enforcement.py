"""What an enforcement model decides: is this tree of limits valid, does this claim fit.

One class has both, so that they cannot drift apart (requirement L5). A model is
pure: it is handed numbers and returns verdicts, it asks nobody.

A limit that was *set* for a node binds the node. The registered *default* is what a
project without a limit of its own may use itself. Which of the limits of a
lineage bind a claim, and whether against what a node uses itself or what its
whole subtree uses, is for the model to say (``bindings``).
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

#: What counts against a limit: what the node uses itself, or its subtree with it.
Scope = Literal["own", "subtree"]


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """A bound on what a node may use of one resource.

    :ivar source: the limit was set for the node, or it is the registered default.
    """

    node_id: str
    limit: Amount
    scope: Scope
    source: Literal["set", "default"]


@dataclasses.dataclass(frozen=True, slots=True)
class Excess:
    """A bound that a claim would break.

    :ivar usage: what counts against the bound now.
    """

    resource_name: str
    binding: Binding
    usage: int
    delta: int


@dataclasses.dataclass(frozen=True, slots=True)
class LimitTree:
    """The limits of one registered resource over some trees of projects.

    :ivar nodes: by id; the parents of all of them are there too.
    :ivar limits: what was set, by node id; of nodes that are in ``nodes``.
    :ivar default: the registered default.
    """

    nodes: Mapping[str, Node]
    limits: Mapping[str, Amount]
    default: Amount


@dataclasses.dataclass(frozen=True, slots=True)
class Clash:
    """Two limits that may not stand side by side.

    :ivar node_id: whose limit is too high (or, above its children, too low).
    :ivar other_id: whose limit it clashes with; None: the registered default, or
        nobody's (the node is too deep).
    :ivar reason: a sentence for people, which names both and their values.
    """

    node_id: str
    other_id: str | None
    reason: str


class EnforcementModel(abc.ABC):
    """A way to read limits over a tree of projects.

    Used from any thread; holds no state but its options. Trees may be damaged: a
    parent that is missing, or a loop, ends the way up.

    :cvar api_version: the version of this class that a model was written for.
    :cvar name: as ``GET /v3/limits/model`` shows it.
    :cvar description: likewise.
    :cvar hierarchical: a claim may be bound by more than the project's own limit,
        so the lineage is worth asking for.
    :cvar max_depth: the deepest tree that it can read, a domain being level 1;
        None for any.
    """

    api_version = 1
    name: str
    description: str
    hierarchical = False
    max_depth: int | None = None

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a model with some of its own registers them here.

        :raises errors.ConfigurationError: one of them makes no sense.
        """

    @abc.abstractmethod
    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return what is wrong with a tree of limits.

        :param tree: as it would be after the change.
        :param changed: the nodes whose limits are about to change (also those that
            lose theirs): faults that have nothing to do with them are not
            reported, so that a tree that is broken elsewhere (after a change of
            the model, say) can be mended. When a project is moved: it and
            everything below it.
        """

    @abc.abstractmethod
    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return what binds a claim of the last node of ``lineage``.

        :param lineage: the root first.
        :param limits: what was set for nodes of the lineage.
        :returns: the project's own bound first, then upwards; unlimited ones
            are left out.
        """

    def judge(
        self, resource_name: str, bindings: Sequence[Binding],
        usages: Mapping[tuple[str, Scope], int], delta: int,
    ) -> list[Excess]:
        """Return the bounds that ``delta`` more of a resource would break.

        :param usages: {(node id, scope): what counts}, one for each binding.
        :param delta: 0 asks whether a bound is broken already; what shrinks
            (a negative one) breaks nothing.
        """
        if delta < 0:
            return []
        return [
            Excess(resource_name, binding, usage, delta)
            for binding in bindings
            if amounts.is_over(
                binding.limit, usage := usages[binding.node_id, binding.scope], delta)]
