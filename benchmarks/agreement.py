"""Whether both sides say the same.

Order is not part of an answer. Where a limit bites, each side may choose: ours must
then be a legal choice out of everything that upstream knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from benchmarks import client, limits

_LIMIT = re.compile(r"&limit=(\d+)")


def same(ours: client.Target, upstream: client.Target, path: str) -> str | None:
    """Compare one answer; return what differs, or None."""
    found = [side.call("GET", path) for side in (ours, upstream)]
    if found[0][0] != found[1][0]:
        return f"status {found[0][0]} and {found[1][0]}: {path}"
    return None if canonical(found[0][1]) == canonical(found[1][1]) else f"bodies differ: {path}"


def legal(ours: client.Target, upstream: client.Target, path: str) -> str | None:
    """Compare candidates under a limit with everything there is; say what is wrong, or None."""
    limit = int(_LIMIT.search(path)[1])  # type: ignore[index]
    status, chosen = ours.call("GET", path)
    everything_status, everything = upstream.call("GET", _LIMIT.sub("", path))
    if status != everything_status:
        return f"status {status} and {everything_status}: {path}"
    return chosen_from(chosen, everything, limit)


def chosen_from(chosen: Any, everything: Any, limit: int) -> str | None:
    """Say what is wrong with an answer as a choice of at most ``limit`` candidates."""
    few = [canonical(one) for one in chosen["allocation_requests"]]
    many = {canonical(one) for one in everything["allocation_requests"]}
    if len(set(few)) != len(few):
        return f"{len(few) - len(set(few))} candidates are there twice"
    if len(few) > limit:
        return f"{len(few)} candidates, limit {limit}"
    if unknown := set(few) - many:
        return f"{len(unknown)} candidates that the other side does not have: {min(unknown)}"
    if len(few) < min(limit, len(many)):
        # Equal devices make permutations: one of each kind is enough (design, section 3).
        if len(many) <= limit:
            return f"{len(few)} of {len(many)} candidates although no limit bites"
        if not few:
            return f"no candidate of {len(many)}"
    known = everything["provider_summaries"]
    for uuid, summary in chosen["provider_summaries"].items():
        if canonical(summary) != canonical(known.get(uuid)):
            return f"the summary of {uuid} differs"
    return None


def same_limits(
    found: Sequence[tuple[int, Any]], ids: Sequence[limits.Ids], path: str
) -> str | None:
    """Compare answers with limits, each with names in place of its side's ids.

    :param found: status and document of both sides.
    :param ids: what both sides call things.
    """
    if found[0][0] != found[1][0] or found[0][0] != 200:
        return f"status {found[0][0]} and {found[1][0]}: {path}"
    rows = [_named(document, known) for (_, document), known in zip(found, ids, strict=True)]
    return None if canonical(rows[0]) == canonical(rows[1]) else f"bodies differ: {path}"


def _named(document: dict[str, Any], ids: limits.Ids) -> dict[str, Any]:
    names = ids.names
    rows = []
    for limit in document["limits"]:
        row = {key: names.get(value, value) if isinstance(value, str) else value
               for key, value in limit.items()}
        # An id of the side's own; the link must lead to it.
        row["links"] = row["links"]["self"].endswith(f"/v3/limits/{row.pop('id')}")
        rows.append(row)
    around = {key: value for key, value in document["links"].items() if key != "self"}
    return {**document, "limits": rows, "links": around}


def canonical(value: Any) -> str:
    """Return a document as text, lists in an order that does not depend on theirs."""
    return json.dumps(_ordered(value), sort_keys=True)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [_ordered(item) for item in value]
        if all(isinstance(item, str) for item in items):
            return sorted(items)
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return value
