"""The contract of catalog drivers, as tests for their authors.

Write ``class TestX(CatalogContract, unittest.TestCase)`` with methods that create the driver, and
fill its catalog with ``WORLD``.
"""

from __future__ import annotations

import abc
import dataclasses
import unittest
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from placement_core.context import Context
from placement_core.plugin_api import loader
from placement_core.plugin_api.catalog import (
    CatalogDriver,
    Domain,
    Endpoint,
    Node,
    Project,
    Region,
    Service,
)

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    # Not a test case itself, so that importing the class does not run its tests.
    _Base = object

R = TypeVar("R", bound=Region | Service | Endpoint | Domain | Project)


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogWorld:
    """The records of a catalog; each comes after those that it refers to."""

    regions: Sequence[Region]
    services: Sequence[Service]
    endpoints: Sequence[Endpoint]
    domains: Sequence[Domain]
    projects: Sequence[Project]


#: The domain alpha has projects on three levels; a project in beta has the name of one in alpha.
WORLD = CatalogWorld(
    regions=(
        Region("RegionOne", None, "the first"),
        Region("RegionOne-cell", "RegionOne"),
        Region("RegionTwo"),
    ),
    services=(
        Service("0" * 31 + "1", "compute", "nova", "servers"),
        Service("0" * 31 + "2", "compute", "nova-edge"),
        Service("0" * 31 + "3", "image", "glance", enabled=False),
    ),
    endpoints=(
        Endpoint("1" * 31 + "1", "0" * 31 + "1", "public", "http://one/compute", "RegionOne"),
        Endpoint("1" * 31 + "2", "0" * 31 + "1", "internal", "http://in.one/compute", "RegionOne"),
        Endpoint("1" * 31 + "3", "0" * 31 + "1", "public", "http://two/compute", "RegionTwo"),
        Endpoint("1" * 31 + "4", "0" * 31 + "3", "public", "http://one/image", None,
                 enabled=False),
    ),
    domains=(
        Domain("a" * 32, "alpha", "with projects"),
        Domain("b" * 32, "beta"),
        Domain("c" * 32, "gamma", enabled=False),
    ),
    projects=(
        Project("a" * 31 + "1", "team", "a" * 32, "a" * 32, "on top"),
        Project("a" * 31 + "2", "other", "a" * 32, "a" * 32, enabled=False),
        Project("a" * 31 + "3", "web", "a" * 32, "a" * 31 + "1"),
        Project("a" * 31 + "4", "data", "a" * 32, "a" * 31 + "1"),
        Project("a" * 31 + "5", "test", "a" * 32, "a" * 31 + "3"),
        Project("b" * 31 + "1", "team", "b" * 32, "b" * 32),
    ),
)

_TEAM, _OTHER, _WEB, _DATA, _TEST, _TEAM_OF_BETA = (each.id for each in WORLD.projects)
_ALPHA, _BETA, _GAMMA = (each.id for each in WORLD.domains)
_NOVA, _EDGE, _IMAGE = (each.id for each in WORLD.services)
#: Ids that do not exist, some of which need quoting in a URL.
_NOBODY = ("f" * 32, "f/../x", "a b", "x?y=z", "ü", "")


class CatalogContract(_Base):
    """Tests that every catalog driver has to pass, with a catalog that contains ``WORLD``.

    The catalog may contain more records, but not below those of ``WORLD``, and no deeper tree.
    """

    @abc.abstractmethod
    def make_driver(self) -> CatalogDriver:
        """Return the driver to test; called for each test."""

    @abc.abstractmethod
    def make_context(self) -> Context:
        """Return the context with which the driver is called."""

    @abc.abstractmethod
    def make_catalog(self, world: CatalogWorld) -> Mapping[str, str]:
        """Create the records of ``world`` in the catalog; called for each test.

        Tests do not change the catalog.

        :returns: {id in ``world``: id in the catalog}, without ids that are the same.
        """

    def setUp(self) -> None:
        """Create the catalog and the driver."""
        super().setUp()
        self._ids = dict(self.make_catalog(WORLD))
        self._ctx = self.make_context()
        self._driver = self.make_driver()

    def test_is_a_catalog_driver(self) -> None:
        """The driver is a ``CatalogDriver``, with its own ``api_version``, the present one."""
        self.assertIsNone(loader.find_mismatch("the driver", type(self._driver), CatalogDriver))

    def test_by_id(self) -> None:
        """All records are found by id, with all fields."""
        for find, records in (
            (self._driver.region, WORLD.regions), (self._driver.service, WORLD.services),
            (self._driver.endpoint, WORLD.endpoints), (self._driver.domain, WORLD.domains),
            (self._driver.project, WORLD.projects),
        ):
            for record in records:
                self.assertEqual(self._there(record), find(self._ctx, self._id(record.id)))
            for id_ in _NOBODY:
                self.assertIsNone(find(self._ctx, id_), (find, id_))

    def test_a_domain_is_no_project(self) -> None:
        """``project`` does not find domains, and ``domain`` does not find projects."""
        self.assertIsNone(self._driver.project(self._ctx, self._id(_ALPHA)))
        self.assertIsNone(self._driver.domain(self._ctx, self._id(_TEAM)))

    def test_lists(self) -> None:
        """Without filters, all records are listed once."""
        for list_, records in (
            (self._driver.regions, WORLD.regions), (self._driver.services, WORLD.services),
            (self._driver.endpoints, WORLD.endpoints), (self._driver.domains, WORLD.domains),
            (self._driver.projects, WORLD.projects),
        ):
            listed = list_(self._ctx)
            self.assertIsInstance(listed, Sequence)
            for record in records:
                self.assertIn(self._there(record), listed)
            self.assertEqual(len(listed), len({record.id for record in listed}))

    def test_regions_below(self) -> None:
        """A parent selects its direct children only."""
        for parent_id, wanted in (("RegionOne", [1]), ("RegionTwo", []), ("no", [])):
            self._assert_found(
                [WORLD.regions[place] for place in wanted],
                self._driver.regions(self._ctx, parent_region_id=self._id(parent_id)))

    def test_services_by_type_and_name(self) -> None:
        """All filters have to match, exactly."""
        for filters, wanted in (
            ({"service_type": "compute"}, [0, 1]),
            ({"service_type": "image", "name": None}, [2]),
            ({"service_type": "compute", "name": "nova"}, [0]),
            ({"service_type": "image", "name": "nova"}, []),
            ({"name": "nova-edge"}, [1]),
            ({"service_type": "Compute"}, []),
            ({"name": "nov"}, []),
        ):
            self._assert_found(
                [WORLD.services[place] for place in wanted],
                self._driver.services(self._ctx, **filters))

    def test_endpoints_by_service_region_and_interface(self) -> None:
        """All filters have to match, as the enforcer library uses them."""
        for service_id, region_id, interface, wanted in (
            (_NOVA, "RegionOne", "public", [0]),
            (_NOVA, "RegionOne", None, [0, 1]),
            (_NOVA, None, "public", [0, 2]),
            (None, "RegionTwo", None, [2]),
            (_IMAGE, None, None, [3]),
            (_IMAGE, "RegionOne", None, []),
            (_EDGE, None, None, []),
            ("f" * 32, None, None, []),
        ):
            self._assert_found(
                [WORLD.endpoints[place] for place in wanted],
                self._driver.endpoints(
                    self._ctx, service_id=self._id(service_id), region_id=self._id(region_id),
                    interface=interface))

    def test_domains_by_name(self) -> None:
        """A name selects one domain, also a disabled one."""
        for name, wanted in (("alpha", [0]), ("gamma", [2]), ("Alpha", []), ("team", [])):
            self._assert_found(
                [WORLD.domains[place] for place in wanted],
                self._driver.domains(self._ctx, name=name))

    def test_projects_by_name_domain_and_parent(self) -> None:
        """All filters have to match; projects of different domains may have the same name."""
        for name, domain_id, parent_id, wanted in (
            ("team", None, None, [0, 5]),
            ("team", _BETA, None, [5]),
            (None, _ALPHA, None, [0, 1, 2, 3, 4]),
            (None, None, _TEAM, [2, 3]),
            (None, None, _ALPHA, [0, 1]),
            ("web", _ALPHA, _TEAM, [2]),
            ("web", _ALPHA, _ALPHA, []),
            (None, _GAMMA, None, []),
            ("TEAM", None, None, []),
        ):
            self._assert_found(
                [WORLD.projects[place] for place in wanted],
                self._driver.projects(
                    self._ctx, name=name, domain_id=self._id(domain_id),
                    parent_id=self._id(parent_id)))

    def test_lineage(self) -> None:
        """The lineage of a node begins with the root and ends with the node."""
        for node_id, above in (
            (_TEST, (_ALPHA, _TEAM, _WEB)), (_OTHER, (_ALPHA,)), (_ALPHA, ()),
            (_TEAM_OF_BETA, (_BETA,)),
        ):
            self._assert_nodes(
                [self._node(id_) for id_ in (*above, node_id)],
                self._driver.lineage(self._ctx, self._id(node_id)))

    def test_subtree(self) -> None:
        """The subtree of a node has every descendant once, after its parent."""
        for node_id, below in (
            (_ALPHA, {_TEAM, _OTHER, _WEB, _DATA, _TEST}), (_TEAM, {_WEB, _DATA, _TEST}),
            (_TEST, set()), (_GAMMA, set()),
        ):
            nodes = self._driver.subtree(self._ctx, self._id(node_id))
            self.assertIsInstance(nodes, Sequence)
            self.assertEqual(self._node(node_id), nodes[0])
            self.assertEqual(
                sorted((self._node(id_) for id_ in below), key=lambda node: node.id),
                sorted(nodes[1:], key=lambda node: node.id))
            seen = {nodes[0].id}
            for node in nodes[1:]:
                self.assertIn(node.parent_id, seen)
                seen.add(node.id)

    def test_unknown_nodes_stand_alone(self) -> None:
        """A node that is not in the catalog has neither ancestors nor descendants."""
        for id_ in _NOBODY:
            alone = [Node(id_, None, is_domain=False)]
            self._assert_nodes(alone, self._driver.lineage(self._ctx, id_))
            self._assert_nodes(alone, self._driver.subtree(self._ctx, id_))

    def test_depth(self) -> None:
        """The depth counts the domain as level 1."""
        self.assertEqual(4, self._driver.depth(self._ctx))

    def _id(self, id_: Any) -> Any:
        return self._ids.get(id_, id_)

    def _there(self, record: R) -> R:
        """Return a record of ``WORLD`` with the ids that the catalog gave."""
        return dataclasses.replace(record, **{
            field.name: self._id(getattr(record, field.name))
            for field in dataclasses.fields(record)
            if field.name == "id" or field.name.endswith("_id")})

    def _node(self, id_: str) -> Node:
        parents = {project.id: project.parent_id for project in WORLD.projects}
        return Node(self._id(id_), self._id(parents.get(id_)), is_domain=id_ not in parents)

    def _assert_nodes(self, expected: Sequence[Node], nodes: Sequence[Node]) -> None:
        """Compare nodes, which callers index and read again."""
        self.assertIsInstance(nodes, Sequence)
        self.assertEqual(expected, list(nodes))

    def _assert_found(self, wanted: Sequence[R], found: Sequence[R]) -> None:
        self.assertIsInstance(found, Sequence)
        self.assertEqual(
            sorted((self._there(record) for record in wanted), key=lambda record: record.id),
            sorted(found, key=lambda record: record.id))
