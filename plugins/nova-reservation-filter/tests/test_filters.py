"""Tests of the filter on nova's own requests and hosts, alone and with nova's filters."""

from __future__ import annotations

import tempfile
import unittest
import uuid

from nova import context, objects
from nova.db.api import api as api_database, models
from nova.scheduler import filters as nova_filters, host_manager, request_filter
from nova.scheduler.filters import (
    affinity_filter,
    aggregate_instance_extra_specs,
    aggregate_multitenancy_isolation,
)
from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade
from osprofiler import opts as osprofiler

from nova_reservation_filter import filters

objects.register_all()

OURS = "0a" * 16
THEIRS = "0b" * 16
SERVICE = "0c" * 16
HOST_LEASE = "11111111-aaaa-4aaa-8aaa-000000000001"
THEIR_HOST_LEASE = "11111111-aaaa-4aaa-8aaa-000000000002"
SLOTS = "22222222-aaaa-4aaa-8aaa-000000000001"
THEIR_SLOTS = "22222222-aaaa-4aaa-8aaa-000000000002"
EXPIRED = "33333333-aaaa-4aaa-8aaa-000000000001"
GROUP = "44444444-aaaa-4aaa-8aaa-000000000001"


def _aggregate(name: str, **metadata: str) -> objects.Aggregate:
    return objects.Aggregate(name=name, metadata={
        key.replace("__", ":"): value for key, value in metadata.items()})


FREEPOOL = _aggregate("freepool", filter_tenant_id=SERVICE)


def _whole(lease: str, project: str, **metadata: str) -> objects.Aggregate:
    return _aggregate(lease, availability_zone=f"blazar_{lease}", blazar__owner=project,
                      **metadata)


def _slots(lease: str, project: str) -> objects.Aggregate:
    return _aggregate(lease, reservation=lease, filter_tenant_id=f"{project},{SERVICE}")


#: {host: its aggregates}
HOSTS = {
    "ordinary": [],
    "in an aggregate": [_aggregate("fast", disks="fast")],
    "freepool": [FREEPOOL],
    "our host": [_whole(HOST_LEASE, OURS)],
    "their host": [_whole(THEIR_HOST_LEASE, THEIRS)],
    "our slots": [FREEPOOL, _slots(SLOTS, OURS)],
    "their slots": [FREEPOOL, _slots(THEIR_SLOTS, THEIRS)],
    "slots of both": [FREEPOOL, _slots(SLOTS, OURS), _slots(THEIR_SLOTS, THEIRS)],
    # Added to the reservation's aggregate, and not yet removed from the freepool.
    "our host, still in freepool": [FREEPOOL, _whole(HOST_LEASE, OURS)],
}
_FREE = {"ordinary", "in an aggregate"}
_SPEC = filters.SLOTS_SPEC


def _flavor(lease: str) -> dict[str, str]:
    return {_SPEC: lease, f"{filters.SLOTS_CLASS_PREFIX}{lease.upper().replace('-', '_')}": "1"}


#: {request: (project, hints, extra specs, hosts that the filter alone passes)}
REQUESTS = {
    "ordinary": (OURS, {}, {}, _FREE),
    "ordinary, no hints at all": (OURS, None, {}, _FREE),
    "ordinary, of the service": (SERVICE, {}, {}, _FREE),
    "ordinary, other hints": (OURS, {"group": [GROUP]}, {"hw:cpu_policy": "shared"}, _FREE),
    "an empty hint": (OURS, {"reservation": [""]}, {}, _FREE),
    "our host lease": (
        OURS, {"reservation": [HOST_LEASE]}, {}, {"our host", "our host, still in freepool"}),
    "our host lease, and a special flavor": (
        OURS, {"reservation": [HOST_LEASE]}, {"hw:cpu_policy": "shared"},
        {"our host", "our host, still in freepool"}),
    "their host lease, named by us": (OURS, {"reservation": [THEIR_HOST_LEASE]}, {}, set()),
    "their host lease": (THEIRS, {"reservation": [THEIR_HOST_LEASE]}, {}, {"their host"}),
    "two host leases, one of them ours": (
        OURS, {"reservation": [HOST_LEASE, THEIR_HOST_LEASE]}, {},
        {"our host", "our host, still in freepool"}),
    "an expired host lease": (OURS, {"reservation": [EXPIRED]}, {}, set()),
    "the freepool as a lease": (SERVICE, {"reservation": ["freepool"]}, {}, set()),
    "an aggregate as a lease": (OURS, {"reservation": ["fast"]}, {}, set()),
    "the name of our slots as a hint alone": (OURS, {"reservation": [SLOTS]}, {}, set()),
    "our slots": (OURS, {"group": [GROUP]}, _flavor(SLOTS), {"our slots", "slots of both"}),
    "our slots, and their name as a hint": (
        OURS, {"reservation": [SLOTS]}, _flavor(SLOTS), {"our slots", "slots of both"}),
    "their slots": (THEIRS, {}, _flavor(THEIR_SLOTS), {"their slots", "slots of both"}),
    "their slots, asked for by us": (OURS, {}, _flavor(THEIR_SLOTS), set()),
    "expired slots": (OURS, {}, _flavor(EXPIRED), set()),
    "our slots and our host lease": (
        OURS, {"reservation": [HOST_LEASE]}, _flavor(SLOTS), set()),
    "slots that Placement knows": (
        OURS, {}, {f"{filters.SLOTS_CLASS_PREFIX}X": "1"}, {
            *_FREE, "freepool", "our slots", "their slots", "slots of both"}),
    "preemptible, not allowed": (OURS, {}, {"blazar:preemptible": "true"}, _FREE),
}


def _request(
    project: str, hints: dict[str, list[str]] | None, extra_specs: dict[str, str] | None
) -> objects.RequestSpec:
    flavor = objects.Flavor(flavorid="f")
    if extra_specs is not None:
        flavor.extra_specs = extra_specs
    request = objects.RequestSpec(
        project_id=project, flavor=flavor, instance_group=None, instance_uuid=str(uuid.uuid4()))
    if hints is not None:
        request.scheduler_hints = hints
    return request


def _hosts(table: dict[str, list[objects.Aggregate]] = HOSTS) -> list[host_manager.HostState]:
    found = []
    for name, aggregates in table.items():
        state = host_manager.HostState(name, name, uuid.uuid4())
        state.aggregates = aggregates
        found.append(state)
    return found


def _passed(request: objects.RequestSpec, *others: object, hosts: object = None) -> set[str]:
    """Return the names of the hosts that pass the filters, run as nova's scheduler does."""
    found = nova_filters.HostFilterHandler().get_filtered_objects(
        [filters.ReservationFilter(), *others], hosts or _hosts(), request)
    return {each.host for each in found}


class FilterTestCase(unittest.TestCase):
    """A test case that restores the option ``allow_preemptibles``."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(cfg.CONF.clear_override, "allow_preemptibles", group=filters.GROUP)

    @staticmethod
    def _set(**options: object) -> None:
        for name, value in options.items():
            cfg.CONF.set_override(name, value, group=filters.GROUP)


class TestAlone(FilterTestCase):
    """The filter without nova's filters."""

    def test_requests_and_hosts(self) -> None:
        """Each kind of request passes the expected hosts only."""
        for name, (project, hints, extra_specs, expected) in REQUESTS.items():
            with self.subTest(request=name):
                self.assertEqual(expected, _passed(_request(project, hints, extra_specs)))

    def test_flavor_without_extra_specs(self) -> None:
        """A request whose extra specs nova has not loaded is an ordinary one."""
        self.assertEqual(_FREE, _passed(_request(OURS, {}, None)))

    def test_another_project_let_in(self) -> None:
        """An operator can let a project use hosts that another project reserved."""
        hosts = _hosts({
            "let in": [_whole(HOST_LEASE, THEIRS, **{OURS: "blazar:tenant"})],
            "something else": [_whole(HOST_LEASE, THEIRS, **{OURS: "no"})]})
        request = _request(OURS, {"reservation": [HOST_LEASE]}, {})
        self.assertEqual({"let in"}, _passed(request, hosts=hosts))

    def test_slots_of_several_projects(self) -> None:
        """A ``filter_tenant_id`` may list projects, and may be split over several keys."""
        hosts = _hosts({
            "listed": [_aggregate("a", reservation=SLOTS, filter_tenant_id=f"{THEIRS}, {OURS}")],
            "second key": [_aggregate("b", reservation=SLOTS, filter_tenant_id=THEIRS,
                                      filter_tenant_id_2=OURS)],
            "open": [_aggregate("c", reservation=SLOTS)],
            "elsewhere": [_aggregate("d", reservation=SLOTS, filter_tenant_id=THEIRS),
                          _aggregate("e", filter_tenant_id=OURS)]})
        self.assertEqual({"listed", "second key", "open"},
                         _passed(_request(OURS, {}, _flavor(SLOTS)), hosts=hosts))

    def test_a_host_of_a_lease_has_no_slots_for_others(self) -> None:
        """Slots that remain on a host of a host reservation cannot be used."""
        hosts = _hosts({"h": [_slots(SLOTS, OURS), _whole(THEIR_HOST_LEASE, THEIRS)]})
        self.assertEqual(set(), _passed(_request(OURS, {}, _flavor(SLOTS)), hosts=hosts))
        theirs = _request(THEIRS, {"reservation": [THEIR_HOST_LEASE]}, {})
        self.assertEqual({"h"}, _passed(theirs, hosts=hosts))

    def test_preemptibles(self) -> None:
        """Without a reservation, preemptible servers run only on unreserved freepool hosts."""
        self._set(allow_preemptibles=True)
        for spec, expected in (("true", {"freepool"}), ("false", _FREE)):
            request = _request(OURS, {}, {"blazar:preemptible": spec})
            self.assertEqual(expected, _passed(request))
        project, hints, specs, expected = REQUESTS["our host lease"]
        self.assertEqual(
            expected, _passed(_request(project, hints, specs | {"blazar:preemptible": "true"})))

    def test_rebuild(self) -> None:
        """A server may be rebuilt on its host after the reservation has ended."""
        request = _request(OURS, {"reservation": [EXPIRED], "_nova_check_type": ["rebuild"]}, {})
        self.assertEqual(set(HOSTS), _passed(request))

    def test_options_of_the_reference(self) -> None:
        """The options of Blazar's filter in a nova.conf apply to this filter."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[blazar:physical:host]\naggregate_freepool_name = pool\n"
                       "blazar_owner = o\nproject_id_key = p\nallow_preemptibles = true\n")
            file.flush()
            conf = cfg.ConfigOpts()
            conf([], default_config_files=[file.name], default_config_dirs=[])
            conf.register_opts(filters.OPTIONS, filters.GROUP)
            group = conf[filters.GROUP]
            self.assertEqual(("pool", "o", "p", True), (
                group.aggregate_freepool_name, group.owner_key, group.project_id_key,
                group.allow_preemptibles))


class TestWhatPlacementIsAsked(FilterTestCase):
    """The aggregates that nova's scheduler requires of Placement, from nova's database."""

    def setUp(self) -> None:
        """Create nova's API database with the aggregates of each kind of host."""
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        osprofiler.set_defaults(cfg.CONF)
        cfg.CONF([], default_config_files=[], default_config_dirs=[])
        self.addCleanup(cfg.CONF.reset)
        for group, name, value in (
                ("api_database", "connection", f"sqlite:///{folder.name}/api.sqlite"),
                ("scheduler", "limit_tenants_to_placement_aggregate", True)):
            cfg.CONF.set_override(name, value, group=group)
            self.addCleanup(cfg.CONF.clear_override, name, group=group)
        manager = api_database.context_manager
        self.addCleanup(setattr, api_database, "context_manager", manager)
        database = enginefacade.transaction_context()
        database.configure(connection=cfg.CONF.api_database.connection)
        self.addCleanup(manager.patch_factory(database._factory))
        self.context = context.get_admin_context()
        models.BASE.metadata.create_all(database.writer.get_engine())
        self.uuids = {}
        with database.writer.using(self.context) as session:
            for each in {each.name: each for kinds in HOSTS.values() for each in kinds}.values():
                row = models.Aggregate(name=each.name, uuid=str(uuid.uuid4()))
                session.add(row)
                session.flush()
                self.uuids[each.name] = row.uuid
                for key, value in each.metadata.items():
                    session.add(models.AggregateMetadata(
                        aggregate_id=row.id, key=key, value=value))

    def _required(self, request: objects.RequestSpec) -> list[str] | None:
        """Return the aggregates that a request requires after nova's request filter and ours."""
        filters.ReservationFilter()
        for each in (request_filter.require_tenant_aggregate, filters.require_reserved_hosts):
            self.assertIn(each, request_filter.ALL_REQUEST_FILTERS)
            each(self.context, request)
        if "requested_destination" not in request or request.requested_destination is None:
            return None
        return request.requested_destination.aggregates

    def test_host_reservations(self) -> None:
        """A hint adds its reservation's aggregate to those that the request requires already."""
        request = _request(OURS, {"reservation": [HOST_LEASE]}, {})
        self.assertEqual([self.uuids[HOST_LEASE]], self._required(request))
        zone = _request(OURS, {"reservation": [HOST_LEASE]}, {})
        zone.requested_destination = objects.Destination(aggregates=["zone"])
        self.assertEqual(["zone", self.uuids[HOST_LEASE]], self._required(zone))

    def test_slots_that_placement_does_not_know(self) -> None:
        """A flavor with only the aggregate's extra spec requires the aggregate, if it exists."""
        request = _request(OURS, {}, {_SPEC: SLOTS})
        self.assertEqual([self.uuids[SLOTS]], self._required(request))
        self.assertIsNone(self._required(_request(OURS, {}, {_SPEC: EXPIRED})))

    def test_nobody_is_confined(self) -> None:
        """Requests that carry no host reservation, or an unknown one, require no aggregate.

        Not even with ``limit_tenants_to_placement_aggregate``, which many clouds have.
        """
        for name in ("ordinary", "ordinary, no hints at all", "our slots", "an empty hint",
                     "an expired host lease", "an aggregate as a lease",
                     "the freepool as a lease"):
            _, hints, specs, _ = REQUESTS[name]
            self.assertIsNone(self._required(_request(OURS, hints, specs)), name)

    def test_once(self) -> None:
        """Creating the filter twice adds its request filter once."""
        for _ in range(2):
            filters.ReservationFilter()
        self.assertEqual(
            1, request_filter.ALL_REQUEST_FILTERS.count(filters.require_reserved_hosts))


class TestWithNovasOwn(FilterTestCase):
    """The filter with those of nova that operators configure beside it."""

    def _passed_by_all(self, request: objects.RequestSpec) -> set[str]:
        return _passed(
            request,
            aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter(),
            aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation(),
            affinity_filter.ServerGroupAntiAffinityFilter())

    def test_requests_and_hosts(self) -> None:
        """Requests get the same hosts as from the filter alone, with two exceptions."""
        for name, (project, hints, extra_specs, expected) in REQUESTS.items():
            if name == "slots that Placement knows":
                # AggregateMultiTenancyIsolation closes the freepool to projects, except for
                # hosts with an aggregate that admits the project.
                expected = {*_FREE, "our slots", "slots of both"}
            # Until the host is removed from the freepool, the owner cannot use it either.
            expected = expected - {"our host, still in freepool"}
            with self.subTest(request=name):
                self.assertEqual(
                    expected, self._passed_by_all(_request(project, hints, extra_specs)))

    def test_without_ours(self) -> None:
        """Nova's filters alone admit a project's ordinary servers to its reserved hosts."""
        others = [aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter(),
                  aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation()]
        found = nova_filters.HostFilterHandler().get_filtered_objects(
            others, _hosts(), _request(OURS, {}, {}))
        self.assertLess({"our slots", "our host"}, {each.host for each in found})

    def test_anti_affinity(self) -> None:
        """The second server of an anti-affinity group goes to another host with slots."""
        request = _request(OURS, {"group": [GROUP]}, _flavor(SLOTS))
        request.instance_group = objects.InstanceGroup(
            policy="anti-affinity", rules={}, members=[], hosts=["our slots"])
        hosts = _hosts()
        for each in hosts:
            if each.host == "our slots":
                server = objects.Instance(uuid=str(uuid.uuid4()))
                each.instances = {server.uuid: server}
                request.instance_group.members = [server.uuid]
        found = _passed(
            request, affinity_filter.ServerGroupAntiAffinityFilter(), hosts=hosts)
        self.assertEqual({"slots of both"}, found)

    def test_configured(self) -> None:
        """Nova's scheduler loads the filter and its own as the documentation configures them."""
        loaded = nova_filters.HostFilterHandler().get_matching_classes(
            ["nova.scheduler.filters.all_filters",
             "nova_reservation_filter.filters.ReservationFilter"])
        names = {each.__name__ for each in loaded}
        self.assertLessEqual(
            {"ReservationFilter", "AggregateInstanceExtraSpecsFilter",
             "AggregateMultiTenancyIsolation", "ServerGroupAntiAffinityFilter"}, names)


if __name__ == "__main__":
    unittest.main()
