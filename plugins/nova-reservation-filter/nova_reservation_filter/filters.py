"""``ReservationFilter``: admits requests to hosts by the reservations that they carry.

The aggregates of a host determine the reservations it belongs to:

- The aggregate of a host reservation is named after the reservation and has the metadata key
  ``owner_key``. A request carries the reservation by the scheduler hint ``reservation=<id>``.
- The aggregate of an instance reservation has the metadata key ``reservation``. A request
  carries the reservation by its flavor's extra spec
  ``aggregate_instance_extra_specs:reservation``.
- The aggregate ``aggregate_freepool_name`` belongs to no reservation; it has the hosts that can
  be reserved.

The filter sees only the hosts that Placement returns, and a Placement that protects reserved
hosts returns them only to requests that name a reservation, as a flavor that takes slots does.
Placement knows neither the hint nor the extra spec: for requests with only these,
``require_reserved_hosts`` requires the reservation's aggregate, as nova does for availability
zones.

Source: spec blazar §4. Differs from Blazar's filter: a request with the flavor of an instance
reservation is confined to the hosts of that reservation here, too, and a host is open to ordinary
requests by the metadata of its aggregates, not by the name of its availability zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nova import objects
from nova.scheduler import filters, request_filter
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import strutils

LOG = logging.getLogger(__name__)

GROUP = "reservation_filter"
_REFERENCE = "blazar:physical:host"

#: The scheduler hint that carries a host reservation.
HINT = "reservation"
#: The metadata key of an instance reservation's aggregate.
SLOTS_KEY = "reservation"
#: The extra spec that carries an instance reservation.
SLOTS_SPEC = f"aggregate_instance_extra_specs:{SLOTS_KEY}"
#: The prefix of extra specs that request slots of which Placement has inventories.
SLOTS_CLASS_PREFIX = "resources:CUSTOM_RESERVATION_"
#: The extra spec of servers that are deleted when a host reservation starts on their host.
PREEMPTIBLE_SPEC = "blazar:preemptible"
#: The prefix of the metadata keys that nova's AggregateMultiTenancyIsolation reads.
_TENANTS_KEY = "filter_tenant_id"


def _list_old_names(name: str) -> list[cfg.DeprecatedOpt]:
    """Return deprecated names, with which a nova.conf for Blazar's filter keeps working."""
    return [cfg.DeprecatedOpt(name, group=_REFERENCE)]


OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "aggregate_freepool_name", default="freepool",
        deprecated_opts=_list_old_names("aggregate_freepool_name"),
        help="The aggregate of the hosts that can be reserved: [nova] aggregate_freepool_name "
        "of the reservation service. Requests without a reservation are kept off its hosts."),
    cfg.StrOpt(
        "owner_key", default="blazar:owner", deprecated_opts=_list_old_names("blazar_owner"),
        help="The metadata key with the id of the project that reserved the hosts of an "
        "aggregate: [nova] blazar_owner of the reservation service."),
    cfg.StrOpt(
        "project_id_key", default="blazar:tenant",
        deprecated_opts=_list_old_names("project_id_key"),
        help="What an operator sets to let another project use reserved hosts: metadata of the "
        "reservation's aggregate with the project's id as its key and this as its value."),
    cfg.BoolOpt(
        "allow_preemptibles", default=False, deprecated_opts=_list_old_names("allow_preemptibles"),
        help="Let servers whose flavor has the extra spec blazar:preemptible=true run on hosts "
        "of the freepool that nobody has reserved at the moment, and nowhere else. They are "
        "deleted when a host reservation starts there. They do not go with "
        "AggregateMultiTenancyIsolation, which closes the freepool to every project."),
]

cfg.CONF.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for oslo-config-generator."""
    return [(GROUP, OPTIONS)]


class ReservationFilter(filters.BaseHostFilter):
    """Passes reserved hosts to requests that carry their reservation, and to no others."""

    # All servers of a request have the same project, hints and flavor.
    run_filter_once_per_request = True

    # A server that is rebuilt stays on its host, even if its reservation has ended.
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        """Add ``require_reserved_hosts`` to the request filters of the scheduler."""
        super().__init__()
        if require_reserved_hosts not in request_filter.ALL_REQUEST_FILTERS:
            request_filter.ALL_REQUEST_FILTERS.append(require_reserved_hosts)

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """Return whether a request may use a host.

        :param host_state: nova's HostState; its aggregates decide.
        :param spec_obj: nova's RequestSpec; its project, hints and flavor decide.
        """
        aggregates = host_state.aggregates
        specs = _get_extra_specs(spec_obj)
        slots = specs.get(SLOTS_SPEC)
        named = _list_reservation_ids(spec_obj)
        if slots is not None and not _has_slots(aggregates, slots, spec_obj.project_id):
            return _refuse(host_state, f"no slots of the reservation {slots}")
        if named:
            if slots in named or _is_host_of(aggregates, named, spec_obj.project_id):
                return True
            return _refuse(host_state, f"not a host of the reservation {', '.join(named)}")
        if slots is not None:
            return True
        if any(_is_of_host_reservation(each) for each in aggregates):
            return _refuse(host_state, "reserved")
        if any(key.startswith(SLOTS_CLASS_PREFIX) for key in specs):
            return True  # Placement returned only hosts with such slots.
        if any(SLOTS_KEY in each.metadata for each in aggregates):
            return _refuse(host_state, "reserved slots")
        return self._suits_ordinary(host_state, specs)

    @staticmethod
    def _suits_ordinary(host_state: Any, specs: dict[str, str]) -> bool:
        """Return whether a host without reservations is open to a request without one."""
        options = cfg.CONF[GROUP]
        in_freepool = any(
            each.name == options.aggregate_freepool_name for each in host_state.aggregates)
        preemptible = options.allow_preemptibles and strutils.bool_from_string(
            specs.get(PREEMPTIBLE_SPEC, ""))
        if in_freepool == preemptible:
            return True
        return _refuse(host_state, "in the freepool" if in_freepool else "not in the freepool")


def require_reserved_hosts(context: Any, spec_obj: Any) -> bool:
    """Require the aggregate of the reservation that a request carries.

    Requests whose flavor takes slots need no aggregate, because Placement knows the slots. If a
    reservation does not exist, ``ReservationFilter`` refuses every host.

    :param context: nova's RequestContext.
    :param spec_obj: nova's RequestSpec, whose requested destination is changed.
    :returns: whether it was changed.
    """
    specs = _get_extra_specs(spec_obj)
    named, slots = _list_reservation_ids(spec_obj), specs.get(SLOTS_SPEC)
    if slots is not None and not any(key.startswith(SLOTS_CLASS_PREFIX) for key in specs):
        aggregates = objects.AggregateList.get_by_metadata(context, key=SLOTS_KEY, value=slots)
    elif named:
        aggregates = objects.AggregateList.get_by_metadata_key(
            context, cfg.CONF[GROUP].owner_key)
        aggregates = [each for each in aggregates if each.name in named]
    else:
        return False
    uuids = [each.uuid for each in aggregates]
    if not uuids:
        return False
    if "requested_destination" not in spec_obj or spec_obj.requested_destination is None:
        spec_obj.requested_destination = objects.Destination()
    spec_obj.requested_destination.require_aggregates(uuids)
    LOG.debug("hosts of the reservation %s are in the aggregates %s", slots or named, uuids)
    return True


def _get_extra_specs(spec_obj: Any) -> dict[str, str]:
    flavor = spec_obj.flavor
    return flavor.extra_specs if "extra_specs" in flavor else {}


def _list_reservation_ids(spec_obj: Any) -> list[str]:
    """Return the ids of the host reservations that a request carries, usually none or one."""
    hint = spec_obj.get_scheduler_hint(HINT)
    hints = hint if isinstance(hint, list) else [hint]
    return [each for each in hints if each]


def _is_of_host_reservation(aggregate: Any) -> bool:
    return cfg.CONF[GROUP].owner_key in aggregate.metadata


def _is_host_of(aggregates: Iterable[Any], named: list[str], project_id: str) -> bool:
    """Return whether a host belongs to one of these reservations that is open to a project."""
    options = cfg.CONF[GROUP]
    return any(
        each.name in named and _is_of_host_reservation(each)
        and (each.metadata[options.owner_key] == project_id
             or each.metadata.get(project_id) == options.project_id_key)
        for each in aggregates)


def _has_slots(aggregates: Iterable[Any], reservation_id: str, project_id: str) -> bool:
    """Return whether a host has slots of an instance reservation that is open to a project.

    Hosts of host reservations have none.
    """
    return any(
        each.metadata.get(SLOTS_KEY) == reservation_id and _is_open_to(each, project_id)
        for each in aggregates) and not any(_is_of_host_reservation(each) for each in aggregates)


def _is_open_to(aggregate: Any, project_id: str) -> bool:
    """Return whether an aggregate's ``filter_tenant_id`` admits a project."""
    listed = [value for key, value in aggregate.metadata.items() if key.startswith(_TENANTS_KEY)]
    return not listed or any(
        project_id in (each.strip() for each in value.split(",")) for value in listed)


def _refuse(host_state: Any, reason: str) -> bool:
    LOG.debug("%(host)s is refused: %(reason)s", {"host": host_state, "reason": reason})
    return False
