"""Blazar's hosts, and what is said of them. Pure.

Source: spec blazar §6.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping, Sequence

from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.hosts import host_capabilities
from placement_core.takeover.blazar_tables import WHOLE_HOST, Row, Tables, group_rows, write_time
from placement_core.takeover.records import (
    HOST,
    HOST_PROPERTY,
    Item,
    Outcome,
    Record,
    Surroundings,
)

_HOST_ID = re.compile("[1-9][0-9]{0,9}")
_LARGEST_ID = 2**31 - 1
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts, as far as they were read.

    :ivar records: by id.
    """

    properties: list[Record]
    records: dict[str, Record]
    left: list[Item]


def settle_hosts(tables: Tables, surroundings: Surroundings) -> Hosts:
    """Return the hosts that can be copied, and what is left of their properties and them."""
    hosts = Hosts([], {}, [])
    names = _settle_properties(hosts, tables["resource_properties"])
    capabilities = group_rows(tables["computehost_extra_capabilities"], "computehost_id")
    ids_by_name: dict[str, str] = {}
    # Numbers first: hosts with uuids get numbers that none of them has.
    for row in sorted(tables["computehosts"], key=lambda row: not _HOST_ID.fullmatch(row["id"])):
        name = row["hypervisor_hostname"] or ""
        reason = _find_host_obstacle(row, surroundings, ids_by_name)
        if reason:
            hosts.left.append(Item(HOST, row["id"], name, Outcome.REFUSED, reason))
            continue
        ids_by_name[name] = row["id"]
        values, notes = _settle_capabilities(capabilities.get(row["id"], ()), names)
        provider = surroundings.providers[name]
        if not any(provider.size.amounts()):
            notes.append("its resource provider has no inventories: nothing fits on it")
        hosts.records[row["id"]] = Record(HOST, row["id"], name, {
            "name": name, "provider_uuid": provider.uuid,
            # Columns that must not be null have "" or 0 for what is not known.
            **{field: row[field] or None for field in (
                "hypervisor_type", "hypervisor_version", "cpu_info", "service_name",
                "availability_zone", "trust_id")},
            "reservable": bool(row["reservable"]), "capabilities": values,
            # When it was changed is not: here, that changes with each lease.
            "created_at": write_time(row["created_at"] or row["updated_at"] or _EPOCH),
        }, notes)
    return hosts


def _settle_properties(hosts: Hosts, rows: Sequence[Row]) -> dict[str, str | None]:
    """Take the properties of hosts; return {id: name}, None for those that are left."""
    names: dict[str, str | None] = {}
    for row in rows:
        name = row["property_name"]
        names[row["id"]] = None
        if row["resource_type"] != WHOLE_HOST:
            hosts.left.append(Item(
                HOST_PROPERTY, row["id"], name, Outcome.SKIPPED,
                f"it is a property of {row['resource_type']}: there are no such resources here"))
            continue
        reason = _find_capability_obstacle(name, "")
        if reason:
            hosts.left.append(Item(HOST_PROPERTY, row["id"], name, Outcome.REFUSED, reason))
            continue
        names[row["id"]] = name
        hosts.properties.append(Record(HOST_PROPERTY, row["id"], name, {
            "name": name, "private": bool(row["private"])}))
    return names


def _settle_capabilities(
    rows: Sequence[Row], names: Mapping[str, str | None]
) -> tuple[dict[str, str], list[str]]:
    """Return the capabilities of a host, and notes on those that are left out."""
    values: dict[str, str] = {}
    notes = []
    for row in rows:
        name = names.get(row["property_id"])
        if name is None:
            notes.append(f"its capability {row['id']} is left out, as its property is")
            continue
        reason = _find_capability_obstacle(name, row["capability_value"])
        if reason:
            notes.append(f"its capability {name} is left out: {reason}")
            continue
        if name in values and values[name] != row["capability_value"]:
            notes.append(f"its capability {name} has several values: the newest is copied")
        values[name] = row["capability_value"]
    return values, notes


def _find_capability_obstacle(name: str, value: str) -> str:
    try:
        host_capabilities.check({name: value})
    except InvalidLease as error:
        return str(error)
    return ""


def _find_host_obstacle(
    row: Row, surroundings: Surroundings, ids_by_name: Mapping[str, str]
) -> str:
    name = row["hypervisor_hostname"]
    provider = surroundings.providers.get(name or "")
    if provider is None:
        return f"no resource provider is called {name} here: copy it first"
    if name in ids_by_name:
        return f"{ids_by_name[name]} has the same name"
    is_number = (
        _HOST_ID.fullmatch(row["id"]) is not None and int(row["id"]) <= _LARGEST_ID)
    if not is_number and row["id"] != provider.uuid:
        return "its id is neither a number nor the uuid of its resource provider"
    return ""
