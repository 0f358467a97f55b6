"""nova's quotas as a source: they become unified limits of the compute service.

nova's legacy quotas are about resources of its own, with defaults in its database, in nova.conf
or in its code. Its rows have no ids that clients know, so limits get ids made of what they are
about, the same each time.
Source: nova 34's ``DbQuotaDriver``, and the names that its unified limits have; spec nova_quota.
"""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import errors
from placement_core.quota import resources
from placement_core.takeover.records import (
    LIMIT,
    REGISTERED_LIMIT,
    USER_LIMIT,
    Contents,
    Item,
    Outcome,
    Record,
    Surroundings,
)

#: The head of the API database's schema, of nova 2026.1 (34.0.0).
SCHEMA = frozenset({"cdeec0c85668"})

KINDS = (REGISTERED_LIMIT, LIMIT, USER_LIMIT)

#: {nova's resource: the limits that it becomes}.
NAMES: Mapping[str, Sequence[str]] = {
    "instances": ("servers",),
    # Dedicated processors count as cores, too.
    "cores": ("class:VCPU", "class:PCPU"),
    "ram": ("class:MEMORY_MB",),
    "metadata_items": ("server_metadata_items",),
    "injected_files": ("server_injected_files",),
    "injected_file_content_bytes": ("server_injected_file_content_bytes",),
    "injected_file_path_bytes": ("server_injected_file_path_bytes",),
    "key_pairs": ("server_key_pairs",),
    "server_groups": ("server_groups",),
    "server_group_members": ("server_group_members",),
}
#: Of networks, which nova gave up.
_DROPPED = frozenset({
    "fixed_ips", "floating_ips", "security_groups", "security_group_rules", "networks"})
#: The class whose quotas are defaults; nova asks for no other.
DEFAULT_CLASS = "default"
_UNLIMITED = -1

#: What nova has for a default where nothing else says one.
_OPTIONS = {
    "instances": cfg.IntOpt("instances", default=10),
    "cores": cfg.IntOpt("cores", default=20),
    "ram": cfg.IntOpt("ram", default=51200),
    "metadata_items": cfg.IntOpt("metadata_items", default=128),
    "injected_files": cfg.IntOpt("injected_files", default=5),
    "injected_file_content_bytes": cfg.IntOpt("injected_file_content_bytes", default=10240),
    "injected_file_path_bytes": cfg.IntOpt("injected_file_path_length", default=255),
    "key_pairs": cfg.IntOpt("key_pairs", default=100),
    "server_groups": cfg.IntOpt("server_groups", default=10),
    "server_group_members": cfg.IntOpt("server_group_members", default=10),
}

#: Makes ids of limits of what they are about.
_NAMESPACE = uuid.UUID("5e9f4a9e-6a0b-4a4e-8d4f-0c8f6d0a5c11")

_TABLES = (
    sa.table("quotas", *map(sa.column, ("id", "project_id", "resource", "hard_limit"))),
    sa.table("quota_classes", *map(sa.column, ("id", "class_name", "resource", "hard_limit"))),
    sa.table("project_user_quotas", *map(
        sa.column, ("id", "project_id", "user_id", "resource", "hard_limit"))),
)
_SPECS = sa.table("flavor_extra_specs", sa.column("key"), sa.column("value"))
#: A flavor asks for dedicated processors.
_DEDICATED = sa.select(_SPECS.c.key).where(sa.or_(
    sa.and_(_SPECS.c.key == "hw:cpu_policy", _SPECS.c.value.in_(("dedicated", "mixed"))),
    _SPECS.c.key.like("resources%:PCPU"))).limit(1)

_Row = Mapping[str, Any]
#: {nova's resource: (the default, where it stands)}.
Defaults = Mapping[str, tuple[int, str]]


def find_cores_name(resource_map: Sequence[str]) -> str | None:
    """Return the name of limits that count shared and dedicated processors together.

    :param resource_map: as in ``[quota] resource_map``.
    """
    named = resources.parse(resource_map).named
    return next((name for name, units in named.items() if units == {"VCPU", "PCPU"}), None)


def read_defaults(path: str | None) -> Defaults:
    """Return the defaults of nova.conf, and of nova itself.

    :param path: of nova.conf; None: nothing is set there.
    :raises errors.ConfigurationError: it cannot be read, or has a value that is no number.
    """
    options = cfg.ConfigOpts()
    options.register_opts(list(_OPTIONS.values()), group="quota")
    try:
        options([], project="nova", default_config_files=[path] if path else [],
                default_config_dirs=[])
        defaults = {}
        for resource, option in _OPTIONS.items():
            place = options.get_location(option.dest, "quota")
            is_set = place is not None and place.location is cfg.Locations.user
            defaults[resource] = (
                options.quota[option.dest],
                f"[quota] {option.dest} of nova.conf" if is_set else "nova's own default")
    except (cfg.Error, ValueError) as error:
        raise errors.ConfigurationError(f"{path}: {error}") from error
    return defaults


def read(
    connection: sa.Connection, surroundings: Surroundings, defaults: Defaults
) -> Contents:
    """Return what nova's API database has of quotas."""
    if connection.execute(_DEDICATED).first() is not None:
        surroundings = dataclasses.replace(surroundings, has_dedicated=True)
    return settle({
        table.name: [dict(row) for row in connection.execute(
            sa.select(table).order_by(table.c.id)).mappings()]
        for table in _TABLES}, surroundings, defaults)


def settle(
    tables: Mapping[str, Sequence[_Row]], surroundings: Surroundings, defaults: Defaults
) -> Contents:
    """Return what the rows of nova's tables mean here. Pure.

    :param tables: {name: rows, in the order of their ids}.
    """
    settled = _Settled(surroundings)
    settled.settle_defaults(tables["quota_classes"], defaults)
    settled.settle_quotas(LIMIT, tables["quotas"])
    settled.settle_quotas(USER_LIMIT, tables["project_user_quotas"])
    settled.warn_of_cores()
    settled.refuse_kinds()
    return Contents(settled.records, settled.left)


class _Settled:
    """What the rows mean, as far as they were read."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.records: list[Record] = []
        self.left: list[Item] = []
        self._surroundings = surroundings
        #: {kind: how many limits there are of it that belong to no service}.
        self._unplaced: collections.Counter[str] = collections.Counter()

    def settle_defaults(self, rows: Iterable[_Row], defaults: Defaults) -> None:
        """Make a registered limit of each resource that nova has.

        :param rows: of quota classes; nova takes the last of several for one resource.
        """
        of_class = {}
        for row in rows:
            resource = row["resource"]
            reason = self._find_meaningless(resource) or (
                "" if row["class_name"] == DEFAULT_CLASS
                else f"nova asks for no class but {DEFAULT_CLASS}")
            if reason:
                self._leave(REGISTERED_LIMIT, row, f"{row['class_name']} {resource}", reason)
                continue
            earlier = of_class.get(resource)
            if earlier is not None:
                self._leave(REGISTERED_LIMIT, earlier, f"{DEFAULT_CLASS} {resource}",
                            f"{row['id']} is for the same resource, and newer: nova takes that")
            of_class[resource] = row
        for resource in NAMES:
            if resource in of_class:
                value = _parse_limit(of_class[resource]["hard_limit"])
                place = f"quota class {DEFAULT_CLASS} of nova"
            else:
                value, place = _parse_limit(defaults[resource][0]), defaults[resource][1]
            for name in self._list_names(resource):
                self._keep(REGISTERED_LIMIT, name, (name,), {
                    "default_limit": value, "description": f"{resource}: {place}"})

    def settle_quotas(self, kind: str, rows: Iterable[_Row]) -> None:
        """Make limits of the quotas of projects, or of users in them."""
        for row in rows:
            project_id = row["project_id"]
            owner = {"project_id": project_id}
            if kind == USER_LIMIT:
                owner["user_id"] = row["user_id"]
            title = " of ".join([row["resource"], *map(str, reversed(owner.values()))])
            reason = self._find_meaningless(row["resource"])
            if not reason and self._surroundings.service_id is None:
                # The catalog may lack the projects, too: it may be another one.
                self._unplaced[kind] += len(self._list_names(row["resource"]))
                continue
            if not reason and project_id not in self._surroundings.project_ids:
                reason = f"its project {project_id} was deleted"
            if reason:
                self._leave(kind, row, title, reason)
                continue
            for name in self._list_names(row["resource"]):
                fields = {**owner, "resource_limit": _parse_limit(row["hard_limit"]),
                          "description": None}
                if kind == LIMIT:
                    fields["domain_id"] = None
                self._keep(kind, name, (*owner.values(), name), fields)

    def warn_of_cores(self) -> None:
        """Say that shared and dedicated processors are limited apart, if nothing joins them."""
        if self._surroundings.has_dedicated and self._surroundings.cores_name is None:
            self.left.append(Item(
                REGISTERED_LIMIT, "", "class:PCPU", Outcome.WARNING,
                "nova counts shared and dedicated processors together, as cores; class:VCPU and "
                "class:PCPU each allow as much: [quota] resource_map with cores=VCPU+PCPU joins "
                "them"))

    def refuse_kinds(self) -> None:
        """Refuse limits as a whole, if it is not clear which service they are of.

        Their ids are made of that one's, so it is not clear either which of ours they are.
        """
        self.left += [
            Item(kind, "", "", Outcome.REFUSED,
                 "the catalog has not exactly one service of [quota] service_type", count=count)
            for kind, count in self._unplaced.items()]

    def _list_names(self, resource: str) -> list[str]:
        """Return the names of the limits that a resource becomes.

        One for shared and dedicated processors together is another limit beside theirs.
        """
        names = list(NAMES[resource])
        cores_name = self._surroundings.cores_name
        if resource == "cores" and cores_name is not None and cores_name not in names:
            names.append(cores_name)
        return names

    def _keep(self, kind: str, name: str, key: tuple[str, ...], fields: dict[str, Any]) -> None:
        service_id, region_id = self._surroundings.service_id, self._surroundings.region_id
        if service_id is None:
            self._unplaced[kind] += 1
            return
        title = " of ".join([name, *reversed(key[:-1])])
        about = (kind, service_id, region_id or "", *key)
        id_ = uuid.uuid5(_NAMESPACE, "\n".join(about)).hex
        self.records.append(Record(kind, id_, title, {
            "service_id": service_id, "region_id": region_id,
            "resource_name": name, **fields}))

    def _leave(self, kind: str, row: _Row, name: str, reason: str) -> None:
        self.left.append(Item(kind, str(row["id"]), name, Outcome.SKIPPED, reason))

    @staticmethod
    def _find_meaningless(resource: str) -> str:
        """Say why a quota of a resource means nothing in nova; "": it does."""
        if resource in _DROPPED:
            return "nova gave up its networks, and the quotas of them"
        return "" if resource in NAMES else f"nova has no resource {resource}"


def _parse_limit(hard_limit: int | None) -> int:
    """Return a limit: for nova, none and all that is negative is no limit."""
    return _UNLIMITED if hard_limit is None or hard_limit < 0 else hard_limit
