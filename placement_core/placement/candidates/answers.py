"""The document of GET /allocation_candidates, put together from text.

The summaries of a tree in the newest form are made once and kept in the index,
with its root, until one of its providers changes. Allocation requests are made
from a template for each way in which the parts of a request fall together on
providers. Every text in the document is one that the API only lets in when
JSON needs no escapes for it: uuids, suffixes, names of classes and traits.
Source: spec placement_api §4.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Candidates
from placement_core.placement.index.snapshot import CapacitySnapshot, ProviderEntry


@dataclasses.dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What a microversion shows; the default is the newest.

    :ivar keyed: allocations are keyed by provider (1.12), not a list.
    :ivar mappings: which provider serves which group (1.34).
    :ivar all_classes: summaries show all classes (1.27), not only the asked.
    :ivar traits: summaries show traits (1.17).
    :ivar trees: summaries show parent and root (1.29).
    """

    keyed: bool = True
    mappings: bool = True
    all_classes: bool = True
    traits: bool = True
    trees: bool = True


NEWEST = ResponseFormat()
#: From so many combinations on, arrays are faster than tuples.
_FEW = 50
_UUID_LENGTH = 36


def render(
    snapshot: CapacitySnapshot, request: CandidatesRequest, candidates: Candidates,
    form: ResponseFormat = NEWEST,
) -> bytes:
    """Return the JSON document that answers ``request``."""
    requests = ",".join(_render_requests(snapshot, candidates, form))
    summaries = _render_summaries(snapshot, request, candidates, form)
    # Megabytes when there is no limit: put together in one go, not piece by piece.
    head = f'{{"allocation_requests":[{requests}],"provider_summaries":{{'.encode()
    summaries[:1] = [head + b"".join(summaries[:1])]
    summaries[-1] += b"}}"
    return b",".join(summaries)


def count_room(
    snapshot: CapacitySnapshot, parts: Sequence[RequestPart], form: ResponseFormat, size: int, *,
    on_one_provider: bool,
) -> int:
    """Return how many allocation requests of some parts fit into so many bytes; at least one.

    :param on_one_provider: whether all parts of each are on the same provider.
    """
    pattern = (0,) * len(parts) if on_one_provider else tuple(range(len(parts)))
    template, gaps = _make_template(snapshot, list(parts), pattern, form)
    return max(1, size // (len(template) + _UUID_LENGTH * len(gaps) + 1))


def _render_requests(
    snapshot: CapacitySnapshot, candidates: Candidates, form: ResponseFormat
) -> list[str]:
    parts, columns = candidates.parts, candidates.columns
    entries = snapshot.entries
    if all(column is columns[0] for column in columns):
        template, _ = _make_template(snapshot, parts, (0,) * len(parts), form)
        pieces = template.split("%s")
        return [entry.provider.uuid.join(pieces) for entry in entries.select(columns[0])]
    texts = [""] * len(candidates)
    for pattern, places in _group_by_pattern(columns).items():
        template, gaps = _make_template(snapshot, parts, pattern, form)
        uuids = {
            gap: [entry.provider.uuid
                  for entry in entries.select(map(columns[gap].__getitem__, places))]
            for gap in set(gaps)}
        filled = map(template.__mod__, zip(*[uuids[gap] for gap in gaps], strict=True))
        for place, text in zip(places, filled, strict=True):
            texts[place] = text
    return texts


def _group_by_pattern(columns: list[list[int]]) -> dict[tuple[int, ...], list[int]]:
    """Group combinations by which part is the first on each part's provider.

    :returns: {for each part the first one on the same provider: places in the columns}.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    if len(columns[0]) < _FEW:
        for place, combination in enumerate(zip(*columns, strict=True)):
            groups.setdefault(tuple(map(combination.index, combination)), []).append(place)
        return groups
    rows = np.array(columns)
    first = np.array([np.argmax(rows == row, axis=0) for row in rows])
    if (first == first[:, :1]).all():
        return {tuple(first[:, 0].tolist()): list(range(len(columns[0])))}
    for place, pattern in enumerate(zip(*first.tolist(), strict=True)):
        groups.setdefault(pattern, []).append(place)
    return groups


def _make_template(
    snapshot: CapacitySnapshot, parts: list[RequestPart], pattern: tuple[int, ...],
    form: ResponseFormat,
) -> tuple[str, list[int]]:
    """Make the text of a request with gaps for uuids.

    :param pattern: for each part the first part on the same provider.
    :returns: the text, and for each gap the part whose provider it names.
    """
    gaps: list[int] = []
    allocations = []
    for first in dict.fromkeys(pattern):
        amounts: dict[int, int] = {}
        for part, at in zip(parts, pattern, strict=True):
            if at == first:
                for class_id, amount in part.resources.items():
                    amounts[class_id] = amounts.get(class_id, 0) + amount
        if amounts:
            resources = ",".join(
                f'"{snapshot.names.class_names[class_id]}":{amount}'
                for class_id, amount in amounts.items())
            gaps.append(first)
            allocations.append(
                f'"%s":{{"resources":{{{resources}}}}}' if form.keyed else
                f'{{"resource_provider":{{"uuid":"%s"}},"resources":{{{resources}}}}}')
    text = ",".join(allocations)
    text = f'{{"allocations":{{{text}}}' if form.keyed else f'{{"allocations":[{text}]'
    if form.mappings:
        serving: dict[str, list[int]] = {}
        for part, first in zip(parts, pattern, strict=True):
            providers = serving.setdefault(part.suffix, [])
            if first not in providers:
                providers.append(first)
        groups = []
        for suffix, providers in serving.items():
            gaps.extend(providers)
            groups.append(f'"{suffix}":[{",".join(["%s"] * len(providers))}]'.replace(
                "%s", '"%s"'))
        text += f',"mappings":{{{",".join(groups)}}}'
    return text + "}", gaps


def _render_summaries(
    snapshot: CapacitySnapshot, request: CandidatesRequest, candidates: Candidates,
    form: ResponseFormat,
) -> list[bytes]:
    """Make the members of provider_summaries, those of a tree as one text."""
    used: dict[int, None] = {}
    for part, column in zip(candidates.parts, candidates.columns, strict=True):
        if part.resources and (column is not candidates.columns[0] or not used):
            used.update(dict.fromkeys(column))
    classes = None if form.all_classes else frozenset(
        class_id for part in candidates.parts for class_id in part.resources)
    if not request.nested:
        return [_render_summary(snapshot, entry, form, classes)
                for entry in snapshot.entries.select(used)]
    tops = _find_roots(snapshot, used)
    if form.all_classes and form.traits and form.trees:
        return [entry.summary or _keep_summary(snapshot, top)
                for top, entry in zip(tops, snapshot.entries.select(tops), strict=True)]
    return [_render_tree_summary(snapshot, top, form, classes) for top in tops]


def _find_roots(snapshot: CapacitySnapshot, rows: dict[int, None]) -> Iterable[int]:
    """Return the roots of rows, each once."""
    if not snapshot.layout.trees:
        return rows
    return dict.fromkeys(snapshot.layout.root[np.fromiter(rows, dtype=np.intp)].tolist())


def _keep_summary(snapshot: CapacitySnapshot, top: int) -> bytes:
    summary = snapshot.entry(top).summary = _render_tree_summary(snapshot, top, NEWEST, None)
    return summary


def _render_tree_summary(
    snapshot: CapacitySnapshot, top: int, form: ResponseFormat, classes: frozenset[int] | None
) -> bytes:
    return b",".join([_render_summary(snapshot, snapshot.entry(row), form, classes)
                      for row in snapshot.layout.tree(top)])


def _render_summary(
    snapshot: CapacitySnapshot, entry: ProviderEntry, form: ResponseFormat,
    classes: frozenset[int] | None,
) -> bytes:
    """Make the member of provider_summaries that is about one provider."""
    provider = entry.provider
    class_names, trait_names = snapshot.names.class_names, snapshot.names.trait_names
    resources = ",".join(
        f'"{class_names[inventory.class_id]}":{{"capacity":{inventory.capacity},"used":{inventory.used}}}'
        for inventory in entry.inventories if classes is None or inventory.class_id in classes)
    text = f'"{provider.uuid}":{{"resources":{{{resources}}}'
    if form.traits:
        names = ",".join(f'"{trait_names[trait_id]}"' for trait_id in sorted(entry.traits))
        text += f',"traits":[{names}]'
    if form.trees:
        parent = f'"{provider.parent_uuid}"' if provider.parent_uuid else "null"
        text += f',"parent_provider_uuid":{parent},"root_provider_uuid":"{provider.root_uuid}"'
    return (text + "}").encode()
