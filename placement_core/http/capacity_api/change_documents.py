"""The documents of changes: those that the other operations answer."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from placement_core.feed.records import Answer, Change
from placement_core.feed.tokens import encode
from placement_core.http.capacity_api.views import claims, consumers, providers, usages
from placement_core.http.leases_api import representations as lease_representations
from placement_core.http.limits_api import representations as limit_representations
from placement_core.thresholds import monitor

Document = dict[str, Any]

#: {kind: makes the document of its record; the second argument is the URL of ``/v3``}.
_RENDERERS: Mapping[str, Callable[[Any, str], Document]] = {
    "resource_class": lambda name, _base: {"name": name},
    "trait": lambda name, _base: {"name": name},
    "provider": lambda provider, _base: providers.render(provider),
    "consumer": lambda consumer, _base: consumers.render(consumer),
    "claim": lambda claim, _base: claims.render(claim),
    "project_usage": lambda usage, _base: usages.render(usage),
    "registered_limit": limit_representations.render_registered_limit,
    "limit": limit_representations.render_limit,
    "user_limit": lambda limit, _base: dataclasses.asdict(limit),
    "lease": lambda lease, _base: lease_representations.render_lease(lease),
    "threshold": lambda reached, _base: monitor.render(reached),
}


def render(
    answer: Answer, base: str, *, with_documents: bool, with_hosts: bool
) -> Document:
    """Return the document of an answer.

    :param base: the URL of ``/v3``.
    :param with_documents: whether each object that there is comes with its document.
    :param with_hosts: whether the reader may know on which providers something is allocated.
    """
    return {
        "changes": [
            _render_change(change, answer.revision, base, with_documents, with_hosts)
            for change in answer.changes],
        "next": encode(answer.token),
        "revision": answer.revision,
        "more": answer.more,
    }


def _render_change(
    change: Change, revision: int, base: str, with_documents: bool, with_hosts: bool
) -> Document:
    document: Document = {
        "kind": change.kind, "id": change.id, "name": change.name,
        "project_id": change.project_id, "revision": revision,
        "deleted": change.record is None}
    if with_documents and change.record is not None:
        rendered = _RENDERERS[change.kind](change.record, base)
        document["document"] = rendered if with_hosts else _hide_hosts(rendered)
    return document


def _hide_hosts(document: Document) -> Document:
    """Return a document with sums in place of allocations by provider."""
    if "allocations" not in document:
        return document
    resources: collections.Counter[str] = collections.Counter()
    for share in document["allocations"].values():
        resources.update(share["resources"])
    rest = {name: value for name, value in document.items() if name != "allocations"}
    return {**rest, "resources": dict(resources)}
