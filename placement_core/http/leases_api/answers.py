"""What is answered: JSON schemas of the bodies of successes, and of errors.

``representations`` makes what they describe.
"""

from __future__ import annotations

from placement_core.http.json_schemas import (
    FLAG,
    INTEGER,
    INTEGER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    answer,
    listed,
    record,
)
from placement_core.http.operations import ONLY, Ladder

_LINKS = listed(record({"rel": TEXT, "href": TEXT}))
_RECORD = {"created_at": TEXT_OR_NULL, "updated_at": TEXT_OR_NULL}

VERSIONS = answer(record({"versions": listed(record({
    "id": TEXT, "status": TEXT, "min_version": TEXT, "max_version": TEXT,
    "links": _LINKS}))}), 300)

# Leases

#: Other members are the fields of its resource type.
_RESERVATION: Schema = {
    **record({
        "id": TEXT, "lease_id": TEXT, "resource_id": TEXT, "resource_type": TEXT, "status": TEXT,
        "missing_resources": FLAG, "resources_changed": FLAG, **_RECORD}),
    "additionalProperties": True,
}
_EVENT = record({
    "id": TEXT, "lease_id": TEXT, "event_type": TEXT, "time": TEXT, "status": TEXT, **_RECORD})
_LEASE = record({
    "id": TEXT, "name": TEXT, "user_id": TEXT, "project_id": TEXT, "start_date": TEXT,
    "end_date": TEXT, "trust_id": TEXT_OR_NULL, "status": TEXT, "degraded": FLAG,
    "reservations": listed(_RESERVATION), "events": listed(_EVENT), **_RECORD})

LEASE = answer(record({"lease": _LEASE}))
LEASE_CREATED = answer(record({"lease": _LEASE}), 201)
#: The link to the next page is there if there is one.
LEASES = answer(record({"leases": listed(_LEASE)}, {"leases_links": _LINKS}))

# Hosts

#: Other members are its capabilities.
_HOST: Schema = {
    **record({
        "status": TEXT_OR_NULL, "id": TEXT, "hypervisor_hostname": TEXT,
        "hypervisor_type": TEXT_OR_NULL, "hypervisor_version": INTEGER_OR_NULL,
        "service_name": TEXT_OR_NULL, "availability_zone": TEXT_OR_NULL, "vcpus": INTEGER,
        "memory_mb": INTEGER, "local_gb": INTEGER, "cpu_info": TEXT_OR_NULL,
        "trust_id": TEXT_OR_NULL, "reservable": FLAG, "down_reason": TEXT_OR_NULL, **_RECORD}),
    "additionalProperties": True,
}
HOST = answer(record({"host": _HOST}))
HOST_CREATED = answer(record({"host": _HOST}), 201)
HOSTS = answer(record({"hosts": listed(_HOST)}, {"hosts_links": _LINKS}))

_ALLOCATION = record({
    "resource_id": TEXT,
    "reservations": listed(record({
        "id": TEXT, "lease_id": TEXT, "start_date": TEXT, "end_date": TEXT}))})
ALLOCATION = answer(record({"allocation": _ALLOCATION}))
ALLOCATIONS = answer(record({"allocations": listed(_ALLOCATION)}))

#: Values are there if the query asks for details.
PROPERTIES = answer(record({"resource_properties": listed(record(
    {"property": TEXT}, {"private": FLAG, "values": listed(TEXT)}))}))
PROPERTY = answer(record({"resource_property": record({
    "id": TEXT, "resource_type": TEXT, "property_name": TEXT, "private": FLAG, **_RECORD})}))

# Errors

ERROR_BEFORE = record({"error": INTEGER, "error_message": TEXT})
ERROR: Ladder[Schema] = Ladder({ONLY: {"anyOf": [
    record({"error_code": INTEGER, "error_message": TEXT, "error_name": TEXT}),
    # The request did not reach an operation.
    ERROR_BEFORE,
]}})
