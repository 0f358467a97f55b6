"""Makes objects of one service the same as the other's: what differs is read again and written.

Over HTTP, as any client: so it works in both directions, and with every release. Generations
cannot be set that way, only raised. What sets one that is ahead of the other side's may be handed
in; without it, such a provider stays unresolved.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from placement_core.shadow import microversions
from placement_core.shadow.messages import Answer, Headers, Request, Service
from placement_core.shadow.touched import COLLECTIONS, Key, Kind, is_custom, list_records

#: How a consumer is read that has no type; nobody can write that.
_NO_TYPE = "unknown"
#: By how much a generation is raised, one request for each.
_MOST_RAISES = 100
#: What one pass writes may need what a later step of it changes.
_PASSES = 2
#: How many providers are compared at a time.
_SIDE_BY_SIDE = 8
_PATHS = {kind: f"/v3/{collection}" for collection, kind in COLLECTIONS.items()}
#: What can be changed of a limit; the rest says what it is about.
_CHANGEABLE = ("default_limit", "resource_limit", "description")

Report = Callable[[str, int, int], None]
#: Sets the generation of a provider: (uuid, the generation that it has, the one that it gets).
SetGeneration = Callable[[str, int, int], Awaitable[None]]


class Refused(Exception):
    """A service refused a request."""


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A provider, with what is its own.

    :ivar generation: the last, so that ``is_alike`` can leave it out.
    """

    name: str
    parent: str | None
    inventories: Mapping[str, Any]
    traits: frozenset[str]
    aggregates: frozenset[str]
    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that holds something.

    :ivar allocations: {provider: {resource class: amount}}.
    """

    allocations: Mapping[str, Mapping[str, int]]
    project: str
    user: str
    type: str | None
    generation: int


class Client:
    """Reads and writes one service as an administrator.

    :param credentials: headers that let it in.
    :param version: the microversion that both services speak.
    :param translate: returns the id that something has here.
    """

    def __init__(
        self, service: Service, credentials: Headers, version: tuple[int, int],
        translate: Callable[[Key], str] = lambda key: key.id,
    ) -> None:
        self._service = service
        self.translate = translate
        self._version = version
        self._headers: Headers = (*credentials, ("Accept", "application/json"))

    async def call(
        self, method: str, path: str, body: object = None,
        version: tuple[int, int] | None = None,
    ) -> Answer:
        """Send a request.

        :param path: as plain text, without a query.
        """
        major, minor = version or self._version
        headers: Headers = (
            *self._headers, ("OpenStack-API-Version", f"placement {major}.{minor}"))
        data = b""
        if body is not None:
            headers, data = (*headers, ("Content-Type", "application/json")), json.dumps(
                body).encode()
        # Consumers are called as clients like: with blanks, or signs that end a path.
        return await self._service.ask(Request(method, quote(path), headers, data))

    async def get(self, path: str) -> Any:
        """Return a document; None: there is none."""
        answer = await self.call("GET", path)
        if answer.status == 404:
            return None
        return _require(answer, "GET", path).document()

    async def write(
        self, method: str, path: str, body: object = None,
        version: tuple[int, int] | None = None,
    ) -> None:
        """Send a request that must succeed; what is to be deleted may be gone."""
        answer = await self.call(method, path, body, version)
        if not (method == "DELETE" and answer.status == 404):
            _require(answer, method, path)

    async def has_name(self, key: Key) -> bool:
        """Tell whether there is a trait or a resource class."""
        path = _find_name_path(key)
        answer = await self.call("GET", path)
        return answer.status != 404 and _require(answer, "GET", path).is_success

    async def read_provider(self, uuid: str) -> Provider | None:
        """Return a provider; None: there is none."""
        path = f"/resource_providers/{uuid}"
        record = await self.get(path)
        if record is None:
            return None
        parts = [(await self.get(f"{path}/{part}") or {}).get(part) or () for part in (
            "inventories", "traits", "aggregates")]
        return Provider(
            record["name"], record["parent_provider_uuid"], dict(parts[0] or {}),
            frozenset(parts[1]), frozenset(parts[2]), record["generation"])

    async def read_consumer(self, uuid: str) -> Consumer | None:
        """Return a consumer; None: it holds nothing."""
        record = await self.get(f"/allocations/{uuid}")
        if not (record and record["allocations"]):
            return None
        return Consumer(
            {provider: part["resources"] for provider, part in record["allocations"].items()},
            record["project_id"], record["user_id"], record.get("consumer_type"),
            record["consumer_generation"])

    async def read(self, key: Key) -> object:
        """Return an object as it is to be compared."""
        if key.kind is Kind.PROVIDER:
            return await self.read_provider(key.id)
        if key.kind is Kind.CONSUMER:
            return await self.read_consumer(key.id)
        if key.kind in _PATHS:
            return await self.read_limit(key)
        return await self.has_name(key)

    async def read_limit(self, key: Key) -> Mapping[str, Any] | None:
        """Return a limit or a registered limit, without its id; None: there is none."""
        document = await self.get(self.find_limit_path(key))
        return None if document is None else _omit_id(next(iter(document.values())))

    async def list_limits(self, kind: Kind) -> dict[str, Mapping[str, Any]]:
        """Return all limits or registered limits: {id: the others of its fields}."""
        path = _PATHS[kind]
        answer = _require(await self.call("GET", path), "GET", path)
        return {record["id"]: _omit_id(record)
                for record in list_records(path.rpartition("/")[2], answer)}

    def find_limit_path(self, key: Key) -> str:
        """Return where a limit is here."""
        return f"{_PATHS[key.kind]}/{self.translate(key)}"

    async def write_consumer(
        self, uuid: str, consumer: Consumer, generation: int | None
    ) -> None:
        """Let a consumer hold what it holds elsewhere."""
        body: dict[str, object] = {
            "allocations": {provider: {"resources": dict(amounts)}
                            for provider, amounts in consumer.allocations.items()},
            "project_id": consumer.project, "user_id": consumer.user,
            "consumer_generation": generation}
        version = min(self._version, microversions.BEFORE_CONSUMER_TYPES)
        if self._version >= microversions.CONSUMER_TYPES and consumer.type not in (None, _NO_TYPE):
            body["consumer_type"], version = consumer.type, self._version
        await self.write("PUT", f"/allocations/{uuid}", body, version)


class Copier:
    """Makes objects of a target the same as those of a source."""

    def __init__(
        self, source: Client, target: Client, learn: Callable[[Key, str], None],
        set_generation: SetGeneration | None = None,
    ) -> None:
        """Take both.

        :param learn: is told which id the target made of what it got.
        :param set_generation: sets generations of the target; raises Refused. None: nothing does.
        """
        self._source = source
        self._target = target
        self._learn = learn
        self._set_generation = set_generation

    async def copy(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Read objects of the source, and write those that differ into the target.

        :returns: {object: why it differs still}.
        :raises NoAnswer: one of the services did not answer.
        """
        reasons: dict[Key, str] = {}
        for _ in range(_PASSES):
            wanted = await self._extend(frozenset(keys))
            reasons = await self._pass(wanted)
            if not reasons:
                break
        return reasons

    async def _extend(self, keys: frozenset[Key]) -> frozenset[Key]:
        """Add who holds something else of a provider, and what consumers hold something of.

        What is written for a consumer raises the generations of its providers.
        """
        consumers = {key for key in keys if key.kind is Kind.CONSUMER}
        for key in keys:
            if key.kind is Kind.PROVIDER:
                consumers |= await find_differing_consumers(self._source, self._target, key.id)
        providers = set()
        for key in consumers:
            for client in (self._source, self._target):
                consumer = await client.read_consumer(key.id)
                providers |= set(consumer.allocations if consumer else ())
        return keys | consumers | {Key(Kind.PROVIDER, uuid) for uuid in providers}

    async def _pass(self, keys: frozenset[Key]) -> dict[Key, str]:
        """Do it once: what others need comes first, what needs others goes first."""
        refusals: dict[Key, str] = {}
        steps = (
            (Kind.RESOURCE_CLASS, self._make_name), (Kind.TRAIT, self._make_name),
            (Kind.PROVIDER, self._write_provider), (Kind.CONSUMER, self._write_consumer),
            (Kind.PROVIDER, self._finish_provider),
            (Kind.RESOURCE_CLASS, self._delete_name), (Kind.TRAIT, self._delete_name),
            (Kind.REGISTERED_LIMIT, self._write_limit), (Kind.LIMIT, self._write_limit),
            (Kind.REGISTERED_LIMIT, self._delete_limit), (Kind.LIMIT, self._delete_limit))
        for kind, step in steps:
            for key in sorted(key for key in keys if key.kind is kind):
                try:
                    await step(key)
                except Refused as error:
                    refusals[key] = str(error)
        differing = [key for key in keys if not await self._is_same(key)]
        return {key: refusals.get(key, "it changed meanwhile, or differs in what it holds")
                for key in differing}

    async def _is_same(self, key: Key) -> bool:
        return await is_same(self._source, self._target, key)

    async def _make_name(self, key: Key) -> None:
        if await self._source.has_name(key) and not await self._target.has_name(key):
            await self._target.write("PUT", _find_name_path(key))

    async def _delete_name(self, key: Key) -> None:
        if not await self._source.has_name(key) and await self._target.has_name(key):
            await self._target.write("DELETE", _find_name_path(key))

    async def _write_limit(self, key: Key) -> None:
        theirs = await self._source.read_limit(key)
        ours = await self._target.read_limit(key)
        if theirs is None or theirs == ours:
            return
        collection = _PATHS[key.kind].rpartition("/")[2]
        if ours is not None:
            await self._target.write("PATCH", self._target.find_limit_path(key), {
                collection.removesuffix("s"): {name: theirs[name] for name in _CHANGEABLE
                                               if name in theirs}})
            return
        path = _PATHS[key.kind]
        answer = _require(await self._target.call("POST", path, {collection: [
            {name: value for name, value in theirs.items() if value is not None}]}), "POST", path)
        made = list_records(collection, answer)
        self._learn(key, str(made[-1]["id"]))

    async def _delete_limit(self, key: Key) -> None:
        if (await self._source.read_limit(key) is None
                and await self._target.read_limit(key) is not None):
            await self._target.write("DELETE", self._target.find_limit_path(key))

    async def _write_provider(self, key: Key) -> None:
        """Make a provider, and what is its own, without its generation."""
        theirs = await self._source.read_provider(key.id)
        if theirs is None:
            return
        path = f"/resource_providers/{key.id}"
        ours = await self._target.read_provider(key.id)
        if ours is None:
            if theirs.parent:
                await self._write_provider(Key(Kind.PROVIDER, theirs.parent))
            await self._target.write("POST", "/resource_providers", {
                "uuid": key.id, "name": theirs.name, **_name_parent(theirs)})
            ours = await self._target.read_provider(key.id)
            assert ours is not None
        elif (ours.name, ours.parent) != (theirs.name, theirs.parent):
            # Without one, it would keep the one that it has.
            await self._target.write("PUT", path, {
                "name": theirs.name, "parent_provider_uuid": theirs.parent})
        await self._write_parts(path, theirs, ours)

    async def _write_parts(self, path: str, theirs: Provider, ours: Provider) -> None:
        for name in theirs.inventories:
            await self._make_name(Key(Kind.RESOURCE_CLASS, name))
        for name in theirs.traits:
            await self._make_name(Key(Kind.TRAIT, name))
        for part, wanted, present in (
                ("inventories", theirs.inventories, ours.inventories),
                ("traits", sorted(theirs.traits), sorted(ours.traits)),
                ("aggregates", sorted(theirs.aggregates), sorted(ours.aggregates))):
            if wanted != present:
                await self._target.write("PUT", f"{path}/{part}", {
                    "resource_provider_generation": await self._find_generation(path),
                    part: wanted})

    async def _finish_provider(self, key: Key) -> None:
        """Delete a provider that is gone, or bring its generation to what it is to be."""
        path = f"/resource_providers/{key.id}"
        theirs = await self._source.read_provider(key.id)
        if theirs is None:
            await self._target.write("DELETE", path)
            return
        generation = await self._find_generation(path)
        is_out_of_reach = not 0 <= theirs.generation - generation <= _MOST_RAISES
        if is_out_of_reach and self._set_generation is not None:
            await self._set_generation(key.id, generation, theirs.generation)
            return
        if generation > theirs.generation:
            raise Refused(f"its generation {generation} is ahead of {theirs.generation}")
        if is_out_of_reach:
            raise Refused(f"its generation {generation} is far behind {theirs.generation}")
        if generation < theirs.generation and await find_differing_consumers(
                self._source, self._target, key.id):
            # What is to be written for these raises it, too, and nothing lowers it again.
            raise Refused("who holds something of it changed meanwhile")
        for number in range(generation, theirs.generation):
            await self._target.write("PUT", f"{path}/inventories", {
                "resource_provider_generation": number,
                "inventories": dict(theirs.inventories)})

    async def _write_consumer(self, key: Key) -> None:
        theirs = await self._source.read_consumer(key.id)
        ours = await self._target.read_consumer(key.id)
        if theirs == ours:
            return
        if ours is not None and (theirs is None or ours.generation >= theirs.generation):
            await self._target.write("DELETE", f"/allocations/{key.id}")
            ours = None
        if theirs is None:
            return
        for provider in theirs.allocations:
            await self._make_provider(provider)
        generation = ours.generation if ours else None
        for _ in range(_MOST_RAISES):
            await self._target.write_consumer(key.id, theirs, generation)
            ours = await self._target.read_consumer(key.id)
            if ours is None or ours.generation >= theirs.generation:
                return
            generation = ours.generation
        raise Refused(f"its generation {generation} is far behind {theirs.generation}")

    async def _make_provider(self, uuid: str) -> None:
        """Make what a consumer holds something of, if it is missing."""
        if await self._target.read_provider(uuid) is None:
            await self._write_provider(Key(Kind.PROVIDER, uuid))

    async def _find_generation(self, path: str) -> int:
        record = await self._target.get(path)
        if record is None:
            raise Refused("it is missing")
        return int(record["generation"])


async def is_same(first: Client, second: Client, key: Key) -> bool:
    """Tell whether an object is the same in two services, down to its generation."""
    theirs, ours = await asyncio.gather(first.read(key), second.read(key))
    return theirs == ours


async def find_differences(first: Client, second: Client, report: Report) -> set[Key]:
    """Compare all providers of two services with what they have and what is held of them.

    And custom traits and resource classes: a request that names one that nobody uses is refused
    where it is missing.

    :param report: is told how far it is.
    :returns: the objects that differ, or that changed meanwhile.
    """
    theirs, ours = await asyncio.gather(_list_providers(first), _list_providers(second))
    differing = {Key(Kind.PROVIDER, uuid) for uuid in theirs.keys() | ours.keys()
                 if theirs.get(uuid) != ours.get(uuid)}
    their_names, our_names = await asyncio.gather(_list_names(first), _list_names(second))
    differing |= their_names ^ our_names
    uuids = sorted(theirs.keys() & ours.keys())
    turns, done = asyncio.Semaphore(_SIDE_BY_SIDE), 0

    async def compare(uuid: str) -> None:
        nonlocal done
        async with turns:
            differing.update(await _compare_parts(first, second, uuid))
        done += 1
        report("providers compared", done, len(uuids))

    await asyncio.gather(*map(compare, uuids))
    return differing


async def find_differing_limits(first: Client, second: Client) -> set[Key]:
    """Return the limits that are not the same in two services, whichever ids they have."""
    differing = set()
    for kind in _PATHS:
        theirs, ours = await asyncio.gather(first.list_limits(kind), second.list_limits(kind))
        counterparts = {second.translate(Key(kind, id_)): id_ for id_ in theirs}
        differing |= {Key(kind, id_) for id_, record in theirs.items()
                      if ours.get(second.translate(Key(kind, id_))) != record}
        differing |= {Key(kind, first.translate(Key(kind, id_))) for id_ in ours
                      if id_ not in counterparts}
    return differing


async def find_newest_version(service: Service) -> tuple[int, int]:
    """Return the newest microversion that a service speaks.

    :raises NoAnswer: it does not answer.
    :raises ValueError: it is no Placement.
    """
    answer = await service.ask(Request("GET", "/", (("Accept", "application/json"),)))
    try:
        major, minor = answer.document()["versions"][0]["max_version"].split(".")
        return int(major), int(minor)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"expected a Placement; GET / answers {answer.status}") from error


async def _list_providers(client: Client) -> dict[str, object]:
    document = await client.get("/resource_providers")
    return {record["uuid"]: {name: value for name, value in record.items() if name != "links"}
            for record in document["resource_providers"]}


async def _list_names(client: Client) -> set[Key]:
    """Return the custom traits and resource classes."""
    traits, classes = await asyncio.gather(client.get("/traits"), client.get("/resource_classes"))
    keys = {Key(Kind.TRAIT, name) for name in traits["traits"]} | {
        Key(Kind.RESOURCE_CLASS, record["name"]) for record in classes["resource_classes"]}
    return {key for key in keys if is_custom(key.id)}


async def _compare_parts(first: Client, second: Client, uuid: str) -> Collection[Key]:
    """Return what differs of a provider that both have: itself, or consumers."""
    key = Key(Kind.PROVIDER, uuid)
    same, consumers = await asyncio.gather(
        is_same(first, second, key), find_differing_consumers(first, second, uuid))
    return consumers if same else {key, *consumers}


async def find_differing_consumers(first: Client, second: Client, uuid: str) -> set[Key]:
    """Return the consumers that do not hold the same of a provider in two services."""
    path = f"/resource_providers/{uuid}/allocations"
    documents = await asyncio.gather(first.get(path), second.get(path))
    theirs, ours = ((document or {}).get("allocations", {}) for document in documents)
    return {Key(Kind.CONSUMER, consumer) for consumer in theirs.keys() | ours.keys()
            if theirs.get(consumer) != ours.get(consumer)}


def _omit_id(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in record.items() if name not in ("id", "links")}


def _name_parent(provider: Provider) -> dict[str, str]:
    return {"parent_provider_uuid": provider.parent} if provider.parent else {}


def _find_name_path(key: Key) -> str:
    return f"/{'traits' if key.kind is Kind.TRAIT else 'resource_classes'}/{key.id}"


def _require(answer: Answer, method: str, path: str) -> Answer:
    if not answer.is_success:
        raise Refused(f"{method} {path} answers {answer.status}")
    return answer
