"""How two answers to one request are compared; the rules are data.

The tables below are all there is: what is read of a body, which noise has which name, and which
cause a difference is counted under.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from placement_core.shadow import candidates, microversions
from placement_core.shadow.messages import Answer, Request, find_header


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two answers came to.

    :ivar cause: why they differ; None: they are equal.
    :ivar noise: the names of known noise that they differ by.
    """

    cause: str | None = None
    noise: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class HeaderNoise:
    """Headers that differ without meaning.

    :ivar names: lower case.
    """

    noise: str
    names: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class BodyNoise:
    """What differs in bodies without meaning.

    :ivar applies: whether it does, to (status, document).
    :ivar clean: returns a document without it.
    """

    noise: str
    applies: Callable[[int, Any], bool]
    clean: Callable[[Any], Any]


def _omit_links(document: Any) -> Any:
    """Return a document without links: they begin with where a service is mounted."""
    if isinstance(document, dict):
        return {key: _omit_links(value) for key, value in document.items() if key != "links"}
    return [_omit_links(item) for item in document] if isinstance(document, list) else document


def _omit_error_texts(document: Any) -> Any:
    """Return what programs read of an error: its status and its code."""
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        return document["error"].get("code")  # As Keystone has it.
    items = document.get("errors") if isinstance(document, dict) else None
    return [(item.get("status"), item.get("code")) for item in items or ()
            if isinstance(item, dict)]


def _omit_made_ids(document: Any) -> Any:
    """Return limits without their ids: each side makes its own."""
    if isinstance(document, dict):
        return {key: _omit_made_ids(value) for key, value in document.items() if key != "id"}
    return [_omit_made_ids(item) for item in document] if isinstance(document, list) else document


def _omit_model_text(document: Any) -> Any:
    """Return a model of limits without what it says for people."""
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict):
        return document
    return {"model": {key: value for key, value in model.items() if key != "description"}}


def sort_lists(document: Any) -> Any:
    """Return a document whose lists are in one order: no list of the API has a meaningful one."""
    if isinstance(document, dict):
        return {key: sort_lists(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        if all(isinstance(item, str) for item in document):
            return sorted(document)  # Traits: by far the most there is to put in order.
        return sorted(map(sort_lists, document), key=_spell)
    return document


def _spell(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


def _is_error(status: int, _document: Any) -> bool:
    return status >= 400


def _is_document(_status: int, document: Any) -> bool:
    return document is not None


def _has_limits(_status: int, document: Any) -> bool:
    return isinstance(document, dict) and not _LIMITS.isdisjoint(document)


#: As the header of an answer has its microversion.
_VERSION = re.compile("placement ([0-9]{1,3})[.]([0-9]{1,3})")

#: The members of documents that have limits.
_LIMITS = {"limit", "limits", "registered_limit", "registered_limits"}

#: Headers that are not compared. What is not here is.
HEADER_NOISE = (
    HeaderNoise("request id", frozenset({"x-openstack-request-id", "openstack-request-id"})),
    HeaderNoise("time of the answer", frozenset({"date"})),
    HeaderNoise("time of the last change", frozenset({"last-modified"})),
    HeaderNoise("web server", frozenset({"server", "connection", "keep-alive", "via",
                                         "transfer-encoding", "content-length"})),
    HeaderNoise("what caches may do", frozenset({"etag", "cache-control", "vary"})),
    HeaderNoise("headers that scripts of other origins may read", frozenset({
        "access-control-expose-headers"})),
    HeaderNoise("address of the service", frozenset({"location", "www-authenticate"})),
)

#: What is not compared of bodies, in the order in which it is taken out.
BODY_NOISE = (
    BodyNoise("text of an error", _is_error, _omit_error_texts),
    BodyNoise("links", _is_document, _omit_links),
    BodyNoise("id of a limit", _has_limits, _omit_made_ids),
    BodyNoise("text of the model of limits", _is_document, _omit_model_text),
    BodyNoise("order of a list", _is_document, sort_lists),
)

#: What differs, by what is asked: the first pattern that matches names it.
SUBJECTS = (
    (r"/allocation_candidates", "candidates"),
    (r"/resource_providers/[^/]+/inventories.*", "inventories"),
    (r"/resource_providers/[^/]+/usages", "usages of a provider"),
    (r"/resource_providers/[^/]+/aggregates", "aggregates"),
    (r"/resource_providers/[^/]+/traits", "traits of a provider"),
    (r"/resource_providers/[^/]+/allocations", "allocations of a provider"),
    (r"/resource_providers/[^/]+", "provider"),
    (r"/resource_providers", "providers"),
    (r"/allocations.*", "allocations"),
    (r"/usages", "usages"),
    (r"/traits.*", "traits"),
    (r"/resource_classes.*", "resource classes"),
    (r"/reshaper", "reshaping"),
    (r"/capacity/v1/claims.*", "claims"),
    (r"/v3/registered_limits.*", "registered limits"),
    (r"/v3/limits.*", "limits"),
    (r".*", "other"),
)


def compare(request: Request, first: Answer, second: Answer) -> Comparison:
    """Compare the answers of two services to one request."""
    subject = find_subject(request.path)
    if first.status != second.status:
        return Comparison(f"{subject}: status {second.status}, not {first.status}")
    headers, noise = _compare_headers(first, second)
    if headers is not None:
        return Comparison(f"{subject}: header {headers}", noise)
    if first.body == second.body:
        return Comparison(None, noise)
    ours, theirs = second.document(), first.document()
    if ours is None or theirs is None:
        if first.status >= 400:
            return Comparison(None, (*noise, "text of an error"))
        return Comparison(f"{subject}: body", noise)
    if theirs == ours:
        return Comparison(None, noise)
    if first.status == 200 and is_limited(request, theirs):
        cause = find_illegal(request, _read_version(second), theirs, ours)
        return Comparison(f"{subject}: {cause}" if cause else None, (*noise, "choice of a limit"))
    for rule in BODY_NOISE:
        if theirs == ours:
            return Comparison(None, noise)
        if rule.applies(first.status, theirs):
            cleaned = rule.clean(theirs), rule.clean(ours)
            if cleaned != (theirs, ours):
                noise = (*noise, rule.noise)
            theirs, ours = cleaned
    return Comparison(None if theirs == ours else f"{subject}: body", noise)


def find_subject(path: str) -> str:
    """Return what a path is about."""
    return next(
        subject for pattern, subject in SUBJECTS if re.fullmatch(pattern, path.rstrip("/")))


def is_limited(request: Request, document: Any) -> bool:
    """Tell whether a limit may have left candidates out of a document.

    So it is if there are as many as the limit; fewer are all there are.
    """
    if find_subject(request.path) != "candidates":
        return False
    limit = candidates.find_limit(request.query)
    return limit is not None and candidates.count(document) >= limit


def find_illegal(
    request: Request, version: tuple[int, int], theirs: Any, ours: Any
) -> str | None:
    """Return what is wrong with our candidates where a limit chose; None: nothing.

    On both sides there are to be as many as the limit says; of ours none twice, each what the
    query asks for and within what its providers have left; and of a provider that both name,
    both say the same.

    :param version: the microversion of the answers.
    """
    their_answer, our_answer = candidates.read(theirs), candidates.read(ours)
    if their_answer is None or our_answer is None:
        return "body"
    limit = candidates.find_limit(request.query)
    if any(len(answer.candidates) != limit for answer in (their_answer, our_answer)):
        return "number of candidates"
    query = candidates.parse_query(request.query, version)
    return (candidates.find_illegal(query, our_answer)
            or _compare_summaries(theirs["provider_summaries"], ours["provider_summaries"]))


def _compare_summaries(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the summaries of providers that both sides name."""
    for uuid in ours.keys() & theirs.keys():
        if ours[uuid] != theirs[uuid] and sort_lists(ours[uuid]) != sort_lists(theirs[uuid]):
            return "summary of a provider"
    return None


def _read_version(answer: Answer) -> tuple[int, int]:
    """Return the microversion of an answer; the first if it does not say."""
    match = _VERSION.search(answer.get("openstack-api-version") or "")
    return (int(match[1]), int(match[2])) if match else microversions.FIRST


def _compare_headers(first: Answer, second: Answer) -> tuple[str | None, tuple[str, ...]]:
    """Return the first header that differs, and the names of noise in the others."""
    noise = []
    for name in sorted(_list_names(first) | _list_names(second)):
        theirs, ours = (find_header(answer.headers, name) for answer in (first, second))
        if theirs == ours:
            continue
        known = next((rule.noise for rule in HEADER_NOISE if name in rule.names), None)
        if known is None or (name == "location" and _cut_address(theirs) != _cut_address(ours)):
            return name, tuple(dict.fromkeys(noise))
        noise.append(known)
    return None, tuple(dict.fromkeys(noise))


def _cut_address(location: str | None) -> str:
    """Return what a URL names, without where the service is mounted."""
    return (location or "").rpartition("/")[2]


def _list_names(answer: Answer) -> set[str]:
    return {name.lower() for name, _ in answer.headers}


def list_noise() -> Iterable[str]:
    """Return the names of all known noise."""
    return [*(rule.noise for rule in HEADER_NOISE), *(rule.noise for rule in BODY_NOISE),
            "choice of a limit"]
