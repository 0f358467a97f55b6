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
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Candidates
from placement_core.placement.index.layout import UUID_LENGTH
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
#: From so many combinations on, arrays are faster than tuples and texts.
_FEW = 50


def render(
    snapshot: CapacitySnapshot, request: CandidatesRequest, candidates: Candidates,
    form: ResponseFormat = NEWEST,
) -> bytes:
    """Return the JSON document that answers ``request``."""
    requests = _render_requests(snapshot, candidates, form)
    summaries = _render_summaries(snapshot, request, candidates, form)
    # Megabytes when there is no limit: put together in one go, not piece by piece.
    summaries[:1] = [b"".join((
        b'{"allocation_requests":[', requests, b'],"provider_summaries":{', *summaries[:1]))]
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
    return max(1, size // (len(template) + UUID_LENGTH * len(gaps) + 1))


def _render_requests(
    snapshot: CapacitySnapshot, candidates: Candidates, form: ResponseFormat
) -> bytes | memoryview:
    """Make the members of allocation_requests."""
    parts, columns = candidates.parts, candidates.columns
    texts = [b""] * len(candidates)
    for pattern, places in _group_by_pattern(columns).items():
        template, gaps = _make_template(snapshot, parts, pattern, form)
        rows = {gap: columns[gap] if len(places) == len(texts)
                else [columns[gap][place] for place in places] for gap in set(gaps)}
        filled = _fill_together(snapshot, template, gaps, rows)
        if filled is None:
            some = _fill_each(snapshot, template, gaps, rows)
        elif len(places) == len(texts):
            return memoryview(filled)[:-1]
        else:
            length = len(filled) // len(places)
            some = [bytes(filled[at:at + length - 1]) for at in range(0, len(filled), length)]
        for place, text in zip(places, some, strict=True):
            texts[place] = text
    return b",".join(texts)


def _fill_together(
    snapshot: CapacitySnapshot, template: str, gaps: Sequence[int],
    rows: Mapping[int, Sequence[int]],
) -> bytearray | None:
    """Make texts of a template, each with a comma at its end.

    :param gaps: for each gap the part whose providers it names.
    :param rows: for each such part the rows of its providers.
    :returns: all in one; None: they are few, or not as long as each other.
    """
    count = len(rows[gaps[0]])
    if count < _FEW:
        return None
    uuids = {gap: snapshot.layout.uuid_characters.take(column, axis=0)
             for gap, column in rows.items()}
    if not all(characters[:, 0].all() for characters in uuids.values()):
        return None
    pieces = f"{template},".encode().split(b"%s")
    blank = bytearray(UUID_LENGTH).join(pieces)
    filled = blank * count
    texts = np.frombuffer(filled, dtype=np.uint8).reshape(count, len(blank))
    at = 0
    for piece, gap in zip(pieces, gaps, strict=False):
        at += len(piece)
        texts[:, at:at + UUID_LENGTH] = uuids[gap]
        at += UUID_LENGTH
    return filled


def _fill_each(
    snapshot: CapacitySnapshot, template: str, gaps: Sequence[int],
    rows: Mapping[int, Sequence[int]],
) -> list[bytes]:
    """Make the same texts one by one, without commas."""
    uuids = {gap: [entry.provider.uuid for entry in snapshot.entries.select(column)]
             for gap, column in rows.items()}
    return [(template % names).encode()
            for names in zip(*[uuids[gap] for gap in gaps], strict=True)]


def _group_by_pattern(columns: list[list[int]]) -> dict[tuple[int, ...], list[int]]:
    """Group combinations by which part is the first on each part's provider.

    :returns: {for each part the first one on the same provider: places in the columns}.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    if all(column is columns[0] for column in columns):
        return {(0,) * len(columns): list(range(len(columns[0])))}
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
        return [entry.summary or _keep_summary(snapshot, entry)
                for entry in snapshot.entries.select(tops)]
    return [_render_tree_summary(snapshot, top, form, classes) for top in tops]


def _find_roots(snapshot: CapacitySnapshot, rows: dict[int, None]) -> Iterable[int]:
    """Return the roots of rows, each once."""
    if not snapshot.layout.trees:
        return rows
    return dict.fromkeys(snapshot.layout.root[np.fromiter(rows, dtype=np.intp)].tolist())


def _keep_summary(snapshot: CapacitySnapshot, root: ProviderEntry) -> bytes:
    top = snapshot.layout.row_of_uuid[root.provider.uuid]
    summary = root.summary = _render_tree_summary(snapshot, top, NEWEST, None)
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
