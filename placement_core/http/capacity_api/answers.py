"""What is answered: JSON schemas of the bodies of successes, and of errors."""

from __future__ import annotations

from placement_core.http.json_schemas import (
    AMOUNT,
    FLAG,
    INTEGER,
    INTEGER_OR_NULL,
    NUMBER,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    answer,
    keyed,
    listed,
    or_null,
    record,
)
from placement_core.http.operations import ONLY, Answers, Ladder
from placement_core.http.placement_api import answers as placement
from placement_core.http.placement_api.bodies import UUID

#: Of lists; null on the last page.
_LINKS = {"links": record({"next": TEXT_OR_NULL})}
#: Of lists that go on for ever.
_ENDLESS = {"links": record({"next": TEXT})}
_RESOURCES = {"resources": placement.RESOURCES}
_ALLOCATIONS = {"allocations": keyed(record(_RESOURCES), UUID)}

VERSION = answer(record({"version": record({
    "id": TEXT, "status": TEXT, "links": placement.LINKS})}))
#: The document describes itself: it is one of OpenAPI 3.1.
OPENAPI = answer({"type": "object", "required": ["openapi", "info", "paths", "components"]})

# Claims

_STATE: Schema = {"type": "string", "enum": ["held", "confirmed", "expired"]}
_OWNER = {"project_id": TEXT, "user_id": TEXT, "consumer_type": TEXT_OR_NULL}
_CLAIM = record({
    "consumer_uuid": UUID, **_OWNER, "state": _STATE, "expires_at": TEXT_OR_NULL, **_ALLOCATIONS})
#: Hosts have their names; the state of a claim that is only tried is null.
_GANG = record({
    **_OWNER, "state": or_null(_STATE), "expires_at": TEXT_OR_NULL,
    "members": listed(record({
        "consumer_uuid": UUID, "host": TEXT, "domains": keyed(TEXT_OR_NULL), **_ALLOCATIONS}))})
_UUIDS = answer(record({"consumer_uuids": listed(UUID)}))

CLAIM = answer(record({"claim": _CLAIM}))
CLAIM_CREATED: Ladder[Answers] = Ladder({ONLY: {
    200: record({"claim": _GANG}),
    201: {"anyOf": [record({"claim": _CLAIM}), record({"claim": _GANG})]},
}})
CLAIMS = answer(record({"claims": listed(_CLAIM), **_LINKS}))
CONFIRMED = RELEASED = _UUIDS

# Audit and changes

_ENTRIES = listed(record({
    "at": TEXT, "transaction": TEXT, **dict.fromkeys((
        "user_id", "project_id", "request_id", "operation", "kind", "uuid", "name"),
        TEXT_OR_NULL)}))
AUDIT = answer(record({"entries": _ENTRIES, **_LINKS}))

CHANGES = answer(record({
    "changes": listed(record({
        "kind": TEXT, "id": TEXT, "name": TEXT_OR_NULL, "project_id": TEXT_OR_NULL,
        "revision": AMOUNT, "deleted": FLAG,
    }, {"document": {"type": "object"}})),
    "next": TEXT, "revision": AMOUNT, "more": FLAG}, {"audit": _ENTRIES}))

# Explanations

_FILTERS = {"filters": listed(record({"filter": TEXT, "value": TEXT, "left": AMOUNT}))}
CANDIDATES_EXPLAINED = answer(record({
    "candidates": AMOUNT, "cut": TEXT_OR_NULL, "limit": INTEGER_OR_NULL, "reason": TEXT_OR_NULL,
    "providers": AMOUNT,
    "groups": listed(record({"group": TEXT, **_FILTERS})),
    "trees": record({"total": AMOUNT, **_FILTERS}),
    "combinations": record({"examined": AMOUNT, "complete": FLAG, "dropped": keyed(AMOUNT)})}))

# Limits

_AMOUNTS = keyed(INTEGER)
EFFECTIVE_LIMITS = answer(record({
    "model": TEXT,
    "lineage": listed(record({"id": TEXT, "parent_id": TEXT_OR_NULL, "is_domain": FLAG})),
    "defaults": _AMOUNTS, "limits": keyed(_AMOUNTS), "subtrees": keyed(listed(TEXT))}))
LIMIT_HISTORY = answer(record({
    "changes": listed(record({
        "id": INTEGER, "at": TEXT, "action": TEXT, "kind": TEXT, "limit_id": TEXT,
        "service_id": TEXT, "region_id": TEXT_OR_NULL, "resource_name": TEXT,
        "project_id": TEXT_OR_NULL, "domain_id": TEXT_OR_NULL, "user_id": TEXT_OR_NULL,
        "old_value": INTEGER_OR_NULL, "new_value": INTEGER_OR_NULL,
        "by_user_id": TEXT_OR_NULL, "by_project_id": TEXT_OR_NULL,
        "request_id": TEXT_OR_NULL})),
    **_LINKS}))
_USER_LIMIT = record({
    "id": TEXT, "project_id": TEXT, "user_id": TEXT, "service_id": TEXT,
    "region_id": TEXT_OR_NULL, "resource_name": TEXT, "resource_limit": INTEGER,
    "description": TEXT_OR_NULL})
USER_LIMIT = answer(record({"user_limit": _USER_LIMIT}))
USER_LIMITS = answer(record({"user_limits": listed(_USER_LIMIT), **_LINKS}))
USER_LIMITS_CREATED = answer(record({"user_limits": listed(_USER_LIMIT)}), 201)

# Cells, instances and compute nodes

_CHECK = {"check": record({
    "answers": FLAG, "seconds": NUMBER, "reason": TEXT_OR_NULL, "tables": or_null(listed(TEXT)),
    "missing_tables": or_null(listed(TEXT))})}
_CELL = record({
    "uuid": TEXT, "name": TEXT_OR_NULL, "disabled": FLAG, "database_connection": TEXT_OR_NULL,
    "transport_url": TEXT_OR_NULL}, _CHECK)
CELL = answer(record({"cell": _CELL}))
CELL_CREATED = answer(record({"cell": _CELL}), 201)
CELLS = answer(record({"cells": listed(_CELL)}))

_TIMES = {"created_at": TEXT_OR_NULL, "updated_at": TEXT_OR_NULL}
#: What a mapping lacks is null.
_INSTANCE = record({
    "uuid": TEXT, "project_id": TEXT_OR_NULL, "user_id": TEXT_OR_NULL,
    "cell_uuid": TEXT_OR_NULL, "queued_for_delete": {"type": ["boolean", "null"]}, **_TIMES})
INSTANCE = answer(record({"instance": _INSTANCE}))
INSTANCE_REGISTERED: Ladder[Answers] = Ladder({ONLY: {
    200: record({"instance": _INSTANCE}), 201: record({"instance": _INSTANCE})}})
INSTANCES = answer(record({"instances": listed(_INSTANCE), **_LINKS}))

_NODE = record({
    "id": INTEGER, "uuid": TEXT_OR_NULL, "host": TEXT_OR_NULL,
    "hypervisor_hostname": TEXT_OR_NULL, "hypervisor_type": TEXT_OR_NULL,
    "hypervisor_version": INTEGER_OR_NULL, "vcpus": INTEGER, "memory_mb": INTEGER,
    "local_gb": INTEGER, "cpu_allocation_ratio": NUMBER, "ram_allocation_ratio": NUMBER,
    "disk_allocation_ratio": NUMBER, **_TIMES,
    "cell": record({"uuid": TEXT, "name": TEXT_OR_NULL}),
    "inventories": keyed(record(placement.INVENTORY_FIELDS), placement.CLASS),
    "resource_provider_uuid": TEXT_OR_NULL, "migrated": FLAG,
    "state": {"type": "string", "enum": ["migrated", "pending", "gate_closed", "refused"]},
    "reason": TEXT_OR_NULL, "remarks": listed(TEXT)})
COMPUTE_NODE = answer(record({"compute_node": _NODE}))
COMPUTE_NODES = answer(record({
    "compute_nodes": listed(_NODE),
    "missing_cells": listed(record({"uuid": TEXT, "name": TEXT_OR_NULL, "reason": TEXT})),
    **_LINKS}))

# Consumers, providers and usage

CONSUMERS = answer(record({
    "consumers": listed(record({
        "uuid": UUID, "consumer_type": TEXT, "consumer_generation": INTEGER,
        "project_id": TEXT_OR_NULL, "user_id": TEXT_OR_NULL, **_TIMES, **_ALLOCATIONS})),
    **_LINKS}))
PROVIDERS = answer(record({
    "providers": listed(record({
        "uuid": UUID, "name": TEXT, "generation": INTEGER, "root_provider_uuid": UUID,
        "parent_provider_uuid": or_null(UUID),
        "inventories": keyed(
            record({**placement.INVENTORY_FIELDS, "used": AMOUNT}), placement.CLASS),
        "traits": listed(TEXT), "aggregates": listed(TEXT)})),
    **_LINKS}))
USAGES = answer(record({
    "usages": listed(record({"project_id": TEXT, "consumer_count": AMOUNT, **_RESOURCES})),
    **_LINKS}))

_COMPLETE_SINCE = {"complete_since": TEXT}
USAGE_INTERVALS = answer(record({
    "intervals": listed(record({
        "consumer_uuid": TEXT, "consumer_type": TEXT, "project_id": TEXT_OR_NULL,
        "user_id": TEXT_OR_NULL, "provider_uuid": UUID, "resource_class": TEXT, "amount": AMOUNT,
        "started_at": TEXT, "ended_at": TEXT_OR_NULL})),
    **_COMPLETE_SINCE, **_LINKS}))
USAGE_TOTALS = answer(record({
    "totals": listed(record({
        "project_id": TEXT_OR_NULL, "resource_class": TEXT, "amount_seconds": AMOUNT})),
    **_COMPLETE_SINCE}))

# Thresholds

_REACHED = {"uuid": UUID, "level": INTEGER, "reached_at": TEXT}
_LEFT = {**_REACHED, "left_at": TEXT}
_OF_LIMIT = {
    "kind": {"enum": ["limit"]}, "node_id": TEXT,
    "scope": {"type": "string", "enum": ["own", "subtree", "user"]}, "resource_name": TEXT,
    "user_id": TEXT_OR_NULL}
_OF_CAPACITY = {"kind": {"enum": ["capacity"]}, **_RESOURCES}
#: What was left has no numbers where the limit was no more.
THRESHOLDS = answer(record({
    "thresholds": listed({"anyOf": [
        record({**_REACHED, **_OF_LIMIT, "limit": INTEGER, "used": INTEGER}),
        record({**_REACHED, **_OF_CAPACITY, "fewest": INTEGER, "fits": AMOUNT})]}),
    "left": listed({"anyOf": [
        record({**_LEFT, **_OF_LIMIT, "limit": INTEGER_OR_NULL, "used": INTEGER_OR_NULL}),
        record({**_LEFT, **_OF_CAPACITY, "fewest": INTEGER_OR_NULL,
                "fits": INTEGER_OR_NULL})]}),
    **_LINKS}))

# Workers

WORKERS = answer(record({"workers": listed(record({
    "uuid": UUID, "host": TEXT, "process_id": INTEGER, "version": TEXT, "started_at": TEXT,
    "seen_at": TEXT, "alive": FLAG, "index_read_at": TEXT_OR_NULL,
    "index_providers": INTEGER_OR_NULL, "in_flight": AMOUNT, "requests": AMOUNT,
    "refusals": AMOUNT, "refusals_last_minute": AMOUNT, "codes": keyed(AMOUNT)}))}))
REFUSALS = answer(record({"refusals": listed(record({
    "at": TEXT, "first_at": TEXT, "times": AMOUNT, "operation": TEXT, "status": INTEGER,
    "code": TEXT, **dict.fromkeys((
        "project_id", "user_id", "request_id", "detail"), TEXT_OR_NULL)}))}))

# Room

_ROOM = {"resources": keyed(record(dict.fromkeys((
    "total", "reserved", "capacity", "used", "held", "promised", "free", "largest"),
    INTEGER)), placement.CLASS)}
_HOST = {"uuid": UUID, "name": TEXT}
ROOM = answer({"anyOf": [
    record(_ROOM),
    record({
        "group_by": {"type": "string", "enum": ["root", "aggregate", "trait"]},
        # Traits have no uuid, aggregates have no name.
        "groups": listed(record(_ROOM, {"uuid": TEXT, "name": TEXT})), **_LINKS})]})
ROOM_HOSTS = answer(record({"hosts": listed(record({**_HOST, **_ROOM})), **_LINKS}))
FITS = answer(record({
    "fits": AMOUNT, "exact": FLAG, "host_count": AMOUNT,
    "hosts": listed(record({**_HOST, "fits": AMOUNT})),
    "stopped_by": record({
        "reason": TEXT,
        "obstacles": listed(record({"filter": TEXT, "value": TEXT, "hosts": AMOUNT}))})}))
STRANDED = answer(record({
    "resource_classes": keyed(
        record({"free": AMOUNT, "stranded": AMOUNT, "by_cause": keyed(AMOUNT)}),
        placement.CLASS),
    "host_count": AMOUNT,
    # Null: the caller may not see hosts.
    "hosts": or_null(listed(record({
        **_HOST, "stranded": keyed(record({"amount": AMOUNT, "cause": TEXT}))}))),
    "shapes": listed(record({
        **_RESOURCES, "weight": NUMBER, "fits": AMOUNT, "exact": FLAG}))}))

# Quota

_COUNT = {
    "source": TEXT_OR_NULL,
    "missing_cells": listed(record({
        "uuid": TEXT, "name": TEXT_OR_NULL, "reason": TEXT,
        "known_since_seconds": {"type": ["number", "null"]}})),
    "seconds": keyed(NUMBER)}
_LIMITS_OF = {"limits_of": record({
    "service_type": TEXT, "service_id": TEXT_OR_NULL, "region_ids": listed(TEXT_OR_NULL)})}
_SCOPES = {"scope": {"type": "string", "enum": ["own", "subtree", "user"]}, "source": TEXT}
_BOUND = record({
    "node_id": TEXT, **_SCOPES, "limit": INTEGER, "used": INTEGER, "user_id": TEXT_OR_NULL})
_EXCEEDED = {
    "node_id": TEXT, "resource_name": TEXT, **_SCOPES, "limit": INTEGER, "used": INTEGER,
    "asked": INTEGER, "over_by": INTEGER, "user_id": TEXT_OR_NULL}
EXCEEDED_LIMITS = listed(record(_EXCEEDED))
_SHARE = {"limit": INTEGER, "source": TEXT, "used": INTEGER_OR_NULL, "free": INTEGER_OR_NULL}
_SHARES = {"resources": keyed(record({**_SHARE, "tightest": or_null(_BOUND)}))}

QUOTAS = answer(record({
    "projects": listed(record({
        "project_id": TEXT, "name": TEXT_OR_NULL,
        "resources": keyed(record({**_SHARE, "held_by": TEXT_OR_NULL}))})),
    **_COUNT, **_LIMITS_OF, **_LINKS}))
QUOTA = answer(record(
    {"project_id": TEXT, **_SHARES, **_COUNT, **_LIMITS_OF},
    {"user": record({"user_id": TEXT, **_SHARES})}))
_CHECKED = {
    "project_id": TEXT, "fits": FLAG, "excesses": EXCEEDED_LIMITS, **_COUNT, **_LIMITS_OF,
    "unregistered": listed(TEXT)}
#: What a question about equal items is answered besides.
_COUNTED = {"count": AMOUNT, "held_by": EXCEEDED_LIMITS}
QUOTA_CHECKED = answer(record(_CHECKED, _COUNTED))
QUOTA_EXPLAINED = answer(record({
    **_CHECKED,
    "stops": listed(record({
        **_EXCEEDED, "sentence": TEXT, "enough": FLAG,
        "consumers": listed(record({"uuid": TEXT, "project_id": TEXT, "amount": INTEGER}))})),
    "more": keyed(record({"amount": INTEGER, "tightest": or_null(_BOUND), "sentence": TEXT})),
    "summary": listed(TEXT)}, _COUNTED))
SERVER_GROUP_MEMBERS = answer(record({
    "members": AMOUNT, "limit": INTEGER, "asked": AMOUNT, "fits": FLAG, **_COUNT, **_LIMITS_OF}))

# Reservations

_WINDOW = {"start_at": TEXT, "end_at": TEXT}
_SLOTS = {"vcpus": INTEGER, "memory_mb": INTEGER, "disk_gb": INTEGER}
_FREE = {"hosts": INTEGER, **_SLOTS}
LEASE_FITS = answer(record({"fits": FLAG}))
TIMELINE = answer(record({
    "timeline": listed(record({**_WINDOW, **_FREE})), "total": record(_FREE), **_LINKS}))
NEXT_FIT = answer(record({"next_fit": or_null(record({**_WINDOW, "earliest": FLAG}))}))
RESERVATION_HISTORY = answer(record({
    "history": listed(record({
        "host_id": INTEGER, "host_name": TEXT, "lease_id": TEXT, "lease_name": TEXT,
        "project_id": TEXT, "user_id": TEXT, "reservation_id": TEXT, "resource_type": TEXT,
        "slots": INTEGER, "size": record(_SLOTS), "whole": FLAG, **_WINDOW, "ended": FLAG,
        "deleted": FLAG})),
    **_LINKS}))
NOTICES = answer(record({
    "notices": listed(record({
        "position": INTEGER, "lease_id": TEXT, "project_id": TEXT, "event": TEXT, "at": TEXT,
        "lease": {"type": "object"}})),
    **_ENDLESS}))

# Errors

ERROR: Ladder[Schema] = Ladder({ONLY: placement.make_error(
    required=("code",), code=TEXT,
    # Limits are exceeded.
    excesses=EXCEEDED_LIMITS,
    # A gang finds no room.
    holds=AMOUNT,
    largest=listed(record({"level": TEXT, "name": TEXT_OR_NULL, "holds": AMOUNT})),
    # A token of changes is too old.
    oldest=TEXT, oldest_at=TEXT_OR_NULL,
    # A lease does not fit.
    missing=keyed(INTEGER), during=or_null(record(_WINDOW)), fits_at=TEXT_OR_NULL)})
