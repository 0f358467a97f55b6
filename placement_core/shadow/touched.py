"""Which objects a request touches: what has to be applied in order, and what to read again."""

from __future__ import annotations

import dataclasses
import enum
import re
import uuid as uuids
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from placement_core.shadow.messages import Answer, Request, parse, parse_object

#: JSON may have these, but no file and no URL; so nothing has such a name.
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
#: Of how many consumers the providers are remembered.
_MOST_CONSUMERS = 100_000


class Kind(enum.StrEnum):
    """What can be read again by itself."""

    RESOURCE_CLASS = "resource class"
    TRAIT = "trait"
    PROVIDER = "resource provider"
    CONSUMER = "consumer"
    REGISTERED_LIMIT = "registered limit"
    LIMIT = "limit"


#: Collections of Keystone's API whose records get their ids from the service.
COLLECTIONS = {"registered_limits": Kind.REGISTERED_LIMIT, "limits": Kind.LIMIT}


class Key(NamedTuple):
    """One object."""

    kind: Kind
    id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Touched:
    """What a request touches.

    :ivar objects: those that it names.
    :ivar alone: whether it may depend on others, so that nothing may be applied beside it.
    """

    objects: frozenset[Key] = frozenset()
    alone: bool = False

    def overlaps(self, other: Touched) -> bool:
        """Tell whether the order of two requests matters."""
        return self.alone or other.alone or not self.objects.isdisjoint(other.objects)


class Holdings:
    """Which providers consumers hold something of, as far as writes told it.

    A request that replaces or deletes what a consumer holds does not name the providers that it
    frees, and what comes next may need that room.
    """

    def __init__(self) -> None:
        self._providers: OrderedDict[str, frozenset[str]] = OrderedDict()

    def get(self, consumer: str) -> frozenset[str] | None:
        """Return the providers of a consumer; None: unknown."""
        return self._providers.get(consumer)

    def learn(self, request: Request, answer: Answer | None = None) -> None:
        """Take note of a write that was acknowledged."""
        for consumer in _find_claimed(request, answer)[0]:
            self._providers.pop(consumer, None)
        for consumer, section in _list_sections(request):
            self._providers[consumer] = _list_providers(section)
            self._providers.move_to_end(consumer)
        while len(self._providers) > _MOST_CONSUMERS:
            self._providers.popitem(last=False)


def find_touched(request: Request, holdings: Holdings, answer: Answer | None = None) -> Touched:
    """Return what a request touches.

    :param answer: of a write, if there is one: it may name what the request does not.
    """
    parts = _split_path(request)
    match parts:
        case ["resource_providers"] if request.method == "POST":
            return _touch_new_provider(request, answer)
        case ["resource_providers", uuid]:
            # The tree, its names, and who may be deleted: that depends on other providers.
            parent = parse_object(request.body).get("parent_provider_uuid")
            return Touched(
                _make_keys(Kind.PROVIDER, [uuid, parent]), alone=not request.is_read)
        case ["resource_providers", uuid, *_]:
            return Touched(_make_keys(Kind.PROVIDER, [uuid]))
        case ["allocations"] | ["allocations", _] | ["reshaper"]:
            return _touch_allocations(request, parts, holdings)
        case ["resource_classes" | "traits" as collection, *names]:
            kind = Kind.TRAIT if collection == "traits" else Kind.RESOURCE_CLASS
            keys = _make_keys(kind, [*names, parse_object(request.body).get("name")])
            return Touched(frozenset(key for key in keys if is_custom(key.id)), alone=True)
        case ["capacity", "v1", "claims", *_] if not request.is_read:
            # Upstream knows no claims: what these are about is read from ours again.
            consumers, providers = _find_claimed(request, answer)
            return Touched(
                _make_keys(Kind.CONSUMER, consumers) | _make_keys(Kind.PROVIDER, providers),
                alone=True)
        case ["v3", "limits", "model"]:
            return Touched()
        case ["v3", "registered_limits" | "limits" as collection, *ids]:
            # Limits depend on registered limits, and on each other in a tree of projects.
            made = [record.get("id") for record in list_records(collection, answer)]
            return Touched(_make_keys(COLLECTIONS[collection], [*ids, *made]), alone=True)
        case _:
            return Touched(alone=True)


def is_of_keystone(target: str) -> bool:
    """Tell whether a request is for Keystone, not for Placement."""
    return target == "/v3" or target.startswith(("/v3/", "/v3?"))


def is_followed(target: str) -> bool:
    """Tell whether a request is about what both sides have: of Keystone's only the limits."""
    parts = target.partition("?")[0].split("/")
    return not is_of_keystone(target) or (len(parts) > 2 and parts[2] in COLLECTIONS)


def is_custom(name: str) -> bool:
    """Tell whether a trait or resource class can be made: the others come with a release."""
    return name.startswith("CUSTOM_")


def list_records(collection: str, answer: Answer | None) -> list[Mapping[str, Any]]:
    """Return the records that an answer has of a collection."""
    return _list_objects(parse_object(answer.body), collection) if answer else []


def find_new_uuid(request: Request, answer: Answer) -> str | None:
    """Return the uuid that the service gave to what a request made; None: there is no such."""
    if request.method != "POST" or request.path.strip("/") != "resource_providers":
        return None
    location = re.search(r"/resource_providers/([^/?]+)\Z", answer.get("location") or "")
    return location[1] if location else parse_object(answer.body).get("uuid")


def _touch_new_provider(request: Request, answer: Answer | None) -> Touched:
    body = parse_object(request.body)
    made = find_new_uuid(request, answer) if answer else None
    return Touched(
        _make_keys(Kind.PROVIDER, [body.get("uuid"), made, body.get("parent_provider_uuid")]),
        alone=True)


def _touch_allocations(request: Request, parts: list[str], holdings: Holdings) -> Touched:
    if request.is_read:
        # The answer has generations of providers.
        held = holdings.get(parts[1]) if len(parts) == 2 else None
        return Touched(
            _make_keys(Kind.CONSUMER, parts[1:]) | _make_keys(Kind.PROVIDER, held or ()),
            alone=held is None)
    inventories = parse_object(request.body).get("inventories") if parts == ["reshaper"] else None
    consumers, alone = set(), parts == ["reshaper"]
    providers = set(inventories) if isinstance(inventories, dict) else set()
    for consumer, section in _list_sections(request):
        consumers.add(consumer)
        providers |= _list_providers(section)
        earlier = holdings.get(consumer)
        if earlier is None:
            alone |= not _is_new(section)
        else:
            providers |= earlier
    return Touched(
        _make_keys(Kind.CONSUMER, consumers) | _make_keys(Kind.PROVIDER, providers), alone)


def _list_sections(request: Request) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what a write of allocations says of each consumer."""
    parts = request.path.strip("/").split("/")
    body = parse(request.body)
    if parts == ["reshaper"]:
        body = body.get("allocations") if isinstance(body, dict) else None
    elif parts[0] != "allocations" or request.is_read:
        return []
    elif len(parts) == 2:
        body = {parts[1]: body if isinstance(body, dict) else {}}
    if not isinstance(body, dict):
        return []
    return [(consumer, section) for consumer, section in body.items()
            if isinstance(section, dict)]


def _find_claimed(request: Request, answer: Answer | None) -> tuple[set[str], set[str]]:
    """Return the consumers and the providers that a request for claims, or its answer, names.

    None, if it is for something else.
    """
    parts = _split_path(request)
    if parts[:3] != ["capacity", "v1", "claims"]:
        return set(), set()
    ids: list[object] = [*parts[3:]]
    providers: set[str] = set()
    for body in (request.body, answer.body if answer else b""):
        document = parse_object(body)
        claim = _get_object(document, "claim")
        for selection in (document, _get_object(claim, "find")):
            ids += _get_list(selection, "consumer_uuids")
        for section in (claim, *_list_objects(claim, "members")):
            ids.append(section.get("consumer_uuid"))
            providers |= _list_providers(section)
    return {uuid for uuid in map(_normalize_uuid, ids) if uuid is not None}, providers


def _split_path(request: Request) -> list[str]:
    return [unquote(part) for part in request.path.strip("/").split("/")]


def _normalize_uuid(value: object) -> str | None:
    """Return a uuid as services spell it; None: it is none."""
    try:
        return str(uuids.UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _list_providers(section: Mapping[str, Any]) -> frozenset[str]:
    allocations = section.get("allocations") or {}
    if isinstance(allocations, dict):
        return frozenset(allocations)
    # Before microversion 1.12 it is a list. A body that is something else was refused.
    named = [_get_object(item, "resource_provider").get("uuid")
             for item in _list_objects(section, "allocations")]
    return frozenset(uuid for uuid in named if isinstance(uuid, str))


def _get_object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that is an object; an empty one if it is none."""
    member = document.get(name)
    return member if isinstance(member, dict) else {}


def _get_list(document: Mapping[str, Any], name: str) -> list[Any]:
    """Return a member that is a list; an empty one if it is none."""
    member = document.get(name)
    return member if isinstance(member, list) else []


def _list_objects(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a member that is a list."""
    return [item for item in _get_list(document, name) if isinstance(item, dict)]


def _is_new(section: Mapping[str, Any]) -> bool:
    """Tell whether a request says that a consumer holds nothing yet."""
    return "consumer_generation" in section and section["consumer_generation"] is None


def _make_keys(kind: Kind, ids: Iterable[object]) -> frozenset[Key]:
    return frozenset(Key(kind, id_) for id_ in ids
                     if isinstance(id_, str) and id_ and not _HALF_CHARACTER.search(id_))


def describe(objects: Collection[Key]) -> str:
    """Return the names of objects, in one line."""
    return ", ".join(f"{key.kind} {key.id}" for key in sorted(objects))
