"""What answers look like: documents and links, by microversion.

Functions take records and return what JSON can hold. ``prefix`` is where the
app is mounted: links are absolute paths. Source: spec placement_api §1.6, §1.7
and §3.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import orjson

from placement_core.http import versions
from placement_core.http.operations import NOW, Ladder, Version
from placement_core.http.placement_api import microversions as mv
from placement_core.placement import records
from placement_core.placement.index.snapshot import ProviderEntry

Document = dict[str, Any]

_PROVIDER_LINKS: Ladder[tuple[str, ...]] = Ladder({
    mv.BASE: ("inventories", "usages"),
    mv.AGGREGATES: ("inventories", "usages", "aggregates"),
    mv.TRAITS: ("inventories", "usages", "aggregates", "traits"),
    mv.ALLOCATIONS_LINK: ("inventories", "usages", "aggregates", "traits", "allocations"),
})


class _Dated(Protocol):
    @property
    def created_at(self) -> datetime.datetime | None: ...
    @property
    def updated_at(self) -> datetime.datetime | None: ...


def find_newest_change(items: Iterable[_Dated]) -> datetime.datetime:
    """Return when the newest of ``items`` changed; now if that is not known."""
    return max((item.updated_at or item.created_at or NOW for item in items), default=NOW)


def find_newest(times: Iterable[datetime.datetime | None]) -> datetime.datetime:
    """Return the latest of ``times``; now if there is none."""
    return max((time or NOW for time in times), default=NOW)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _ProviderTemplate:
    """How providers are shown.

    :ivar between: the JSON text of the links, cut where the provider's uuid stands:
        nothing else in them differs.
    :ivar nested: parent and root are shown (1.14).
    """

    between: tuple[str, ...]
    nested: bool

    def show(self, item: records.Provider) -> bytes:
        """Return a provider as JSON."""
        uuid = item.uuid
        family = ""
        if self.nested:
            parent = f'"{item.parent_uuid}"' if item.parent_uuid else "null"
            family = f',"parent_provider_uuid":{parent},"root_provider_uuid":"{item.root_uuid}"'
        return (f'{{"uuid":"{uuid}","name":{orjson.dumps(item.name).decode()},'
                f'"generation":{item.generation},"links":[{uuid.join(self.between)}]{family}}}'
                ).encode()


@functools.lru_cache(maxsize=64)
def _make_template(rels: tuple[str, ...], nested: bool, prefix: str) -> _ProviderTemplate:
    place = "\0"
    href = prefix + get_provider_path(place)
    links = [{"rel": "self", "href": href}]
    links += [{"rel": rel, "href": f"{href}/{rel}"} for rel in rels]
    text = ",".join(orjson.dumps(link).decode() for link in links)
    return _ProviderTemplate(tuple(text.split("\\u0000")), nested)


def _get_template(version: Version, prefix: str) -> _ProviderTemplate:
    return _make_template(
        _PROVIDER_LINKS.at(version), version >= mv.NESTED_PROVIDERS, prefix)


def render_provider(item: records.Provider, version: Version, prefix: str) -> bytes:
    """Return a resource provider with its links, as JSON."""
    return _get_template(version, prefix).show(item)


def render_providers(entries: Iterable[ProviderEntry], version: Version, prefix: str) -> bytes:
    """Return resource providers with their links, as JSON.

    Each is made once in the form that was asked for last, and kept until it changes.
    """
    form = _get_template(version, prefix)
    documents = [
        cached[1] if (cached := entry.list_item) is not None and cached[0] is form
        else _render_listed(entry, form)
        for entry in entries]
    # Megabytes: put together in one go, not piece by piece.
    documents[:1] = [b'{"resource_providers":[' + b"".join(documents[:1])]
    documents[-1] += b"]}"
    return b",".join(documents)


def _render_listed(entry: ProviderEntry, form: _ProviderTemplate) -> bytes:
    document = form.show(entry.provider)
    entry.list_item = (form, document)
    return document


def get_provider_path(uuid: str) -> str:
    """Return the path of a provider below the mount point."""
    return f"/resource_providers/{uuid}"


def render_inventory(item: records.Inventory) -> Document:
    """Return the record of one inventory, without its class."""
    values = item.values
    return {
        "total": values.total,
        "reserved": values.reserved,
        "min_unit": values.min_unit,
        "max_unit": values.max_unit,
        "step_size": values.step_size,
        "allocation_ratio": values.allocation_ratio,
    }


def render_provider_inventories(item: records.ProviderInventories) -> Document:
    """Return all inventories of a provider, keyed by class."""
    return {
        "resource_provider_generation": item.generation,
        "inventories": {
            entry.resource_class: render_inventory(entry) for entry in item.inventories},
    }


def render_provider_aggregates(item: records.ProviderAggregates, version: Version) -> Document:
    """Return the aggregates of a provider."""
    document: Document = {"aggregates": list(item.uuids)}
    if version >= mv.AGGREGATES_GENERATION:
        document["resource_provider_generation"] = item.generation
    return document


def render_traits(items: Iterable[records.Named]) -> Document:
    """Return a list of traits."""
    return {"traits": [item.name for item in items]}


def render_provider_traits(item: records.ProviderTraits) -> Document:
    """Return the traits of a provider."""
    return {**render_traits(item.traits), "resource_provider_generation": item.generation}


def render_resource_class(item: records.Named, prefix: str) -> Document:
    """Return a resource class with its link."""
    return {
        "name": item.name,
        "links": [{"rel": "self", "href": prefix + get_class_path(item.name)}],
    }


def get_class_path(name: str) -> str:
    """Return the path of a resource class below the mount point."""
    return f"/resource_classes/{name}"


def render_provider_usages(item: records.ProviderUsages) -> Document:
    """Return what is used of each class a provider has."""
    return {"resource_provider_generation": item.generation, "usages": dict(item.usages)}


def render_usages(items: Iterable[records.TypeUsage]) -> Document:
    """Return what a project uses, whatever the type of its consumers (below 1.38)."""
    return {"usages": _add_up(item.resources for item in items)}


def render_usages_by_type(items: Iterable[records.TypeUsage]) -> Document:
    """Return what a project uses, by type of consumer."""
    return {
        "usages": {
            item.consumer_type or records.UNKNOWN_TYPE: {
                **item.resources, "consumer_count": item.consumer_count}
            for item in items
        },
    }


def render_usages_of_all_types(items: Iterable[records.TypeUsage]) -> Document:
    """Return what a project uses, all types under the one key ``all``."""
    usages = list(items)
    if not usages:
        return {"usages": {}}
    count = sum(item.consumer_count for item in usages)
    total = _add_up(item.resources for item in usages)
    return {"usages": {"all": {**total, "consumer_count": count}}}


def _add_up(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def render_provider_allocations(item: records.ProviderAllocations, version: Version) -> Document:
    """Return what is held on a provider, by consumer."""
    shares: Document = {}
    for consumer_uuid, share in item.consumers.items():
        shares[consumer_uuid] = {"resources": dict(share.resources)}
        if version >= mv.CONSUMER_GENERATION:
            shares[consumer_uuid]["consumer_generation"] = share.consumer_generation
    return {"allocations": shares, "resource_provider_generation": item.generation}


def render_consumer_allocations(
    item: records.ConsumerAllocations | None, version: Version
) -> Document:
    """Return what a consumer holds, by provider; nothing has no owner."""
    if item is None:
        return {"allocations": {}}
    document: Document = {
        "allocations": {
            uuid: {"generation": held.provider_generation, "resources": dict(held.resources)}
            for uuid, held in item.providers.items()
        },
    }
    if version >= mv.ALLOCATIONS_DICT:
        document["project_id"] = item.project_id
        document["user_id"] = item.user_id
    if version >= mv.CONSUMER_GENERATION:
        document["consumer_generation"] = item.generation
    if version >= mv.CONSUMER_TYPES:
        document["consumer_type"] = item.consumer_type or records.UNKNOWN_TYPE
    return document


def render_offered_versions() -> Document:
    """Return the document of the root: which microversions are offered."""
    return {
        "versions": [{
            "id": "v1.0",
            "max_version": versions.format_version(mv.NEWEST),
            "min_version": versions.format_version(mv.LOWEST),
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }],
    }
