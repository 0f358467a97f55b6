"""The experimental model ``overcommit``: the limits below a node may exceed its own by a factor.

The sum of the nearest limits below a node, and the usage of its subtree, may be as large as the
node's limit times the factor. No single limit below it may exceed its plain limit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from oslo_config import cfg

from placement_core import amounts, errors
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, EnforcementModel, LimitTree
from placement_plugins.enforcement import ancestry

GROUP = "overcommit"

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "factor",
        default=1.0,
        help="With [limits] enforcement_model = overcommit: by how much the limits next below a "
        "project or domain may together exceed its own, and what all of them use too; a "
        "number from 1 on, and products are rounded down. 1 promises nothing twice. Raise it "
        "where projects seldom use all they were given. After it was lowered, limits that are "
        "now too high together stay, and bind as far as the tree has room.",
    ),
]


class Overcommit(EnforcementModel):
    """Lets the sum of the limits below a node exceed its own limit by a factor."""

    api_version = 1
    name = "overcommit"
    description = (
        "Trees of any depth: no limit is above the nearest one over it, and the limits next "
        "below a node, and what its subtree uses, stay together within the node's limit times "
        "a factor."
    )
    hierarchical = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts(OPTIONS, group=GROUP)
        self._factor = _read_factor(conf)

    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return the limits that are too high, alone or in sum."""
        allowed = {
            node_id: amounts.scale(limit, self._factor)
            for node_id, limit in tree.limits.items()}
        return [
            *ancestry.find_too_high(tree, changed),
            *ancestry.find_sums_too_high(tree, changed, allowed),
        ]

    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the plain limit of the project's own usage, and limit × factor of subtrees."""
        found = ancestry.bindings(lineage, limits, default)
        own = [dataclasses.replace(each, scope="own") for each in found
               if each.node_id == lineage[-1].id and each.source == "set"]
        return own + [self._stretch(each) for each in found]

    def _stretch(self, binding: Binding) -> Binding:
        if binding.source == "default":
            return binding
        return dataclasses.replace(binding, limit=amounts.scale(binding.limit, self._factor))


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the model's own options for oslo-config-generator."""
    return [(GROUP, OPTIONS)]


def _read_factor(conf: cfg.ConfigOpts) -> Fraction:
    """Return the factor as it was written: 1.1 is exactly 11/10, not the nearest float."""
    try:
        factor = conf[GROUP].factor
    except ValueError as error:
        reason = str(error).partition(" is not valid: ")[2]
        raise errors.ConfigurationError(
            f"[{GROUP}] factor: expected a number from 1 on: {reason}") from None
    if factor is None or not math.isfinite(factor) or factor < 1:
        raise errors.ConfigurationError(
            f"[{GROUP}] factor = {factor}: expected a number from 1 on")
    return Fraction(repr(factor))
