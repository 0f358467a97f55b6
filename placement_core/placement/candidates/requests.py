"""What a client asks of allocation candidates, as plain values.

Names are not resolved yet: ``search`` does, against the index it searches.
Source: spec placement_api §4.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from placement_core.conf.placement import DEFAULT_DEAD_ENDS


@dataclasses.dataclass(frozen=True, slots=True)
class TraitFilter:
    """Traits a provider must and must not have.

    :ivar required: one set for each condition: at least one trait of every set.
    :ivar forbidden: none of these.
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateFilter:
    """Aggregates (uuids) a provider must and must not be a member of."""

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class RequestGroup:
    """The part of a request that one suffix names; ``""`` is the unsuffixed one."""

    suffix: str
    resources: Mapping[str, int]
    traits: TraitFilter = TraitFilter()
    aggregates: AggregateFilter = AggregateFilter()
    in_tree: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CandidatesRequest:
    """The groups of a request and how they combine.

    :ivar isolate: no two granular groups on one provider.
    :ivar same_subtree: sets of suffixes whose providers share a subtree.
    :ivar limit: how many allocation requests at most; None is all.
    :ivar nested: candidates may use several providers of one tree (1.29).
    :ivar most_dead_ends: the budget of its search (``search_budget``).
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    root_traits: TraitFilter = TraitFilter()
    same_subtree: tuple[frozenset[str], ...] = ()
    limit: int | None = None
    nested: bool = True
    most_dead_ends: int = DEFAULT_DEAD_ENDS


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderFilter:
    """What GET /resource_providers filters by; every part is optional.

    Source: spec placement_api §3.2: judged on the provider alone.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict)
    traits: TraitFilter = TraitFilter()
    aggregates: AggregateFilter = AggregateFilter()
