"""Our limits of the compute service, as rows of nova's tables of quotas.

nova counts cores of both kinds together, so limits of class:VCPU and class:PCPU become one quota,
where they are the same. What nova's quotas have no resource for is left out.
Source: nova 34's ``DbQuotaDriver``, and the names of ``takeover.nova_quotas``.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from placement_core import errors
from placement_core.context import Context
from placement_core.limits import limits, registered, users
from placement_core.limits.records import Limit, RegisteredLimit, UserLimit
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.takeover import records
from placement_core.takeover.exports import Exporter, LeftOut, Row
from placement_core.takeover.nova_quotas import DEFAULT_CLASS, NAMES, SCHEMA

_TABLES = ("quota_classes", "quotas", "project_user_quotas")
_CORES = "cores"


@dataclasses.dataclass(frozen=True, slots=True)
class Present:
    """What we have.

    :ivar service_id: the service whose limits become quotas, with ``region_id``.
    :ivar project_ids: all projects.
    :ivar cores_name: the name of limits on processors of both kinds together, if there is one.
    """

    service_id: str
    region_id: str | None
    project_ids: Collection[str]
    registered: Sequence[RegisteredLimit]
    limits: Sequence[Limit]
    user_limits: Sequence[UserLimit]
    cores_name: str | None = None


def make_exporter(
    catalog: CatalogDriver, *, service_type: str, region_id: str | None,
    cores_name: str | None = None,
) -> Exporter:
    """Return what exports to nova's API database.

    :param service_type: of the service whose limits become quotas.
    :param region_id: the region of these limits; None: those without a region.
    :param cores_name: the name of limits on processors of both kinds together, if there is one.
    """
    def read(ctx: Context) -> Present:
        services = catalog.services(ctx, service_type=service_type)
        if len(services) != 1:
            raise errors.ConfigurationError(
                f"[quota] service_type = {service_type}: the catalog has {len(services)} services "
                "of this type; expected one, whose limits become nova's quotas")
        return Present(
            services[0].id, region_id, {project.id for project in catalog.projects(ctx)},
            registered.list_(ctx), limits.list_(ctx), users.list_(ctx), cores_name)

    def list_rows(ctx: Context) -> Iterator[Row]:
        return iter(convert(read(ctx))[0])

    def list_left_out(ctx: Context) -> Iterable[LeftOut]:
        return convert(read(ctx))[1]

    return Exporter("nova-quotas", SCHEMA, _TABLES, list_rows, list_left_out)


def convert(present: Present) -> tuple[list[Row], list[LeftOut]]:
    """Return the rows that nova is to have, and what it cannot have. Pure."""
    conversion = _Conversion(present)
    conversion.convert_defaults()
    conversion.convert_limits()
    conversion.convert_user_limits()
    conversion.leave_other_services()
    return conversion.rows, conversion.left_out


#: {the name of a limit: its value}.
_Limits = Mapping[str, int]


class _Conversion:
    """The rows so far, and what was left out."""

    def __init__(self, present: Present) -> None:
        self.rows: list[Row] = []
        self.left_out: list[LeftOut] = []
        self._present = present
        #: {nova's resource: the names of its limits}.
        self._names: dict[str, Sequence[str]] = dict(NAMES)
        if present.cores_name is not None:
            self._names[_CORES] = list(dict.fromkeys((present.cores_name, *NAMES[_CORES])))
        self._limit_names = {name for names in self._names.values() for name in names}
        self._defaults: dict[str, int] = {}
        #: {project: limits}, of those that nova has names for.
        self._of_projects: dict[str, dict[str, int]] = collections.defaultdict(dict)

    def convert_defaults(self) -> None:
        """Make registered limits the quotas of nova's class of defaults."""
        of_class: dict[str, RegisteredLimit] = {}
        for limit in filter(self._is_of_service, self._present.registered):
            if not self._leave_nameless(records.REGISTERED_LIMIT, limit, limit.resource_name):
                of_class[limit.resource_name] = limit
                self._defaults[limit.resource_name] = limit.default_limit
        for resource, value in self._merge(
                records.REGISTERED_LIMIT, of_class, self._defaults, self._defaults, ""):
            self.rows.append(("quota_classes", {
                "class_name": DEFAULT_CLASS, "resource": resource, "hard_limit": value}))

    def convert_limits(self) -> None:
        """Make limits the quotas of projects."""
        of_projects: dict[str, dict[str, Limit]] = collections.defaultdict(dict)
        for limit in filter(self._is_of_service, self._present.limits):
            title = f"{limit.resource_name} of {limit.project_id or limit.domain_id}"
            if limit.project_id is None:
                self._leave(records.LIMIT, limit.id, title, "nova has no quotas of domains")
            elif limit.project_id not in self._present.project_ids:
                self._leave(records.LIMIT, limit.id, title,
                            f"its project {limit.project_id} is not there")
            elif not self._leave_nameless(records.LIMIT, limit, title):
                of_projects[limit.project_id][limit.resource_name] = limit
                self._of_projects[limit.project_id][limit.resource_name] = limit.resource_limit
        for project_id, of_project in of_projects.items():
            values = self._of_projects[project_id]
            for resource, value in self._merge(
                    records.LIMIT, of_project, values, {**self._defaults, **values},
                    f" of {project_id}"):
                self.rows.append(("quotas", {
                    "project_id": project_id, "resource": resource, "hard_limit": value}))

    def convert_user_limits(self) -> None:
        """Make limits of users the quotas of users in projects."""
        of_users: dict[tuple[str, str], dict[str, UserLimit]] = collections.defaultdict(dict)
        for limit in filter(self._is_of_service, self._present.user_limits):
            title = f"{limit.resource_name} of {limit.user_id} of {limit.project_id}"
            if limit.project_id not in self._present.project_ids:
                self._leave(records.USER_LIMIT, limit.id, title,
                            f"its project {limit.project_id} is not there")
            elif not self._leave_nameless(records.USER_LIMIT, limit, title):
                of_users[limit.project_id, limit.user_id][limit.resource_name] = limit
        for (project_id, user_id), of_user in of_users.items():
            values = {name: limit.resource_limit for name, limit in of_user.items()}
            around = {**self._defaults, **self._of_projects.get(project_id, {}), **values}
            for resource, value in self._merge(
                    records.USER_LIMIT, of_user, values, around,
                    f" of {user_id} of {project_id}"):
                self.rows.append(("project_user_quotas", {
                    "project_id": project_id, "user_id": user_id, "resource": resource,
                    "hard_limit": value}))

    def leave_other_services(self) -> None:
        """Name what is limited of other services, or in other regions: once for each resource."""
        def get_key(limit: RegisteredLimit | Limit | UserLimit) -> tuple[str, str, str]:
            return limit.service_id, limit.region_id or "", limit.resource_name

        set_limits: list[Limit | UserLimit] = [
            *self._present.limits, *self._present.user_limits]
        counts = collections.Counter(map(get_key, set_limits))
        for limit in self._present.registered:
            if self._is_of_service(limit):
                continue
            name = " ".join(filter(None, (
                limit.service_id, limit.resource_name, limit.region_id)))
            self._leave(records.REGISTERED_LIMIT, limit.id, name, (
                "nova has quotas of the compute service in its region only; limits of this "
                f"resource: {counts[get_key(limit)]}"))

    def _merge(
        self, kind: str, of_owner: Mapping[str, RegisteredLimit | Limit | UserLimit],
        values: _Limits, effective: _Limits, title: str,
    ) -> Iterator[tuple[str, int]]:
        """Yield nova's resources with the limits of an owner; leave out those that differ.

        :param values: the owner's own limits.
        :param effective: what binds the owner: its own limits, or else those around it.
        :param title: says whose they are.
        """
        for resource, names in self._names.items():
            own = [name for name in names if name in values]
            if not own:
                continue
            bounds = {name: effective[name] for name in names if name in effective}
            if len(set(bounds.values())) == 1:
                yield resource, values[own[0]]
                continue
            spelled = " and ".join(f"{name} {value}" for name, value in bounds.items())
            for name in own:
                self._leave(kind, of_owner[name].id, f"{name}{title}",
                            f"nova has one quota of {resource} for {spelled}")

    def _is_of_service(self, limit: RegisteredLimit | Limit | UserLimit) -> bool:
        return (limit.service_id, limit.region_id) == (
            self._present.service_id, self._present.region_id)

    def _leave_nameless(
        self, kind: str, limit: RegisteredLimit | Limit | UserLimit, title: str
    ) -> bool:
        """Leave out a limit of a resource that nova's quotas do not have; say whether it was."""
        if limit.resource_name in self._limit_names:
            return False
        self._leave(kind, limit.id, title, f"nova has no quota of {limit.resource_name}")
        return True

    def _leave(self, kind: str, id_: str, name: str, reason: str) -> None:
        self.left_out.append(LeftOut(kind, id_, name, reason))
