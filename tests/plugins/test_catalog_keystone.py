"""The catalog driver ``keystone`` against a real Keystone: answers, requests, outages."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

from placement_core import errors
from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain, Endpoint, Node, Project, Region, Service
from placement_core.testing import catalog as contract
from placement_plugins import keystone
from placement_plugins.catalog.keystone import KeystoneCatalog
from placement_plugins.limits.keystone import KeystoneLimits
from tests import keystone_service
from tests.plugins import remote

CACHE_SECONDS = 30
MAX_STALE_SECONDS = 600
FRESHNESS = {"cache_seconds": CACHE_SECONDS, "max_stale_seconds": MAX_STALE_SECONDS}

#: Ids that nothing has; many could not be in a URL as they are.
NOBODY = ("", ".", "..", "a/b", "a?b=c", "é", "\0", "%2e", "x" * 300, uuid.uuid4().hex)


class KeystoneCatalogTestCase(remote.RemoteTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.driver = self.make()

    def make(self, **client: object) -> KeystoneCatalog:
        return KeystoneCatalog(self.conf(catalog=FRESHNESS, client=client), clock=self.clock)

    def tree(self) -> list[Node]:
        """Make a domain, a project, and two below it; return their nodes in that order."""
        domain_id = self.domain()["id"]
        top = self.project(domain_id)["id"]
        below = [self.project(top, domain_id)["id"] for _ in range(2)]
        return [Node(domain_id, None, is_domain=True), Node(top, domain_id),
                *(Node(id_, top) for id_ in below)]


class TestContract(contract.CatalogContract, remote.RemoteTestCase):
    """What every catalog driver has to do."""

    # Of its own: the contract's names may be there but once.
    options = "\n# for the contract of catalogs\n"
    _made: Mapping[str, str] = {}

    def make_driver(self) -> KeystoneCatalog:
        return KeystoneCatalog(self.conf(), clock=self.clock)

    def make_context(self) -> Context:
        return self.ctx

    def make_catalog(self, world: contract.CatalogWorld) -> Mapping[str, str]:
        if not TestContract._made:
            TestContract._made = self._make(world)
        return TestContract._made

    def _make(self, world: contract.CatalogWorld) -> Mapping[str, str]:
        given: dict[str, str] = {}
        for collection in ("regions", "services", "endpoints", "domains", "projects"):
            for record in getattr(world, collection):
                values = {
                    name: given.get(value, value) if name.endswith("_id") else value
                    for name, value in dataclasses.asdict(record).items()
                    if name != "id" or collection == "regions"}
                if values.get("id") == "RegionOne":  # Our Keystone begins with it.
                    self.admin.change(collection, "RegionOne", description=record.description)
                    continue
                given[record.id] = self.admin.make(collection, **values)["id"]
        return given


class TestAnswers(KeystoneCatalogTestCase):
    """What Keystone knows is what the driver says."""

    def test_regions(self) -> None:
        parent = Region(self.region()["id"])
        child = Region(keystone_service.new_name("Region é/?"), parent.id, "in a cellar")
        self.admin.make("regions", id=child.id, parent_region_id=parent.id,
                        description=child.description)
        for region in (parent, child):
            self.assertEqual(region, self.driver.region(self.ctx, region.id))
            self.assertIn(region, self.driver.regions(self.ctx))
        self.assertEqual(
            [child], list(self.driver.regions(self.ctx, parent_region_id=parent.id)))

    def test_services(self) -> None:
        made = self.admin.make(
            "services", type="rent", name=keystone_service.new_name("s"), description="x",
            enabled=False)
        service = Service(made["id"], "rent", made["name"], "x", enabled=False)
        self.assertEqual(service, self.driver.service(self.ctx, service.id))
        self.assertIn(service, self.driver.services(self.ctx, service_type="rent"))
        self.assertEqual([service], list(self.driver.services(self.ctx, name=service.name)))
        self.assertEqual([], list(self.driver.services(
            self.ctx, service_type="other", name=service.name)))
        bare = self.admin.make("services", type="bare")
        self.assertEqual(Service(bare["id"], "bare"), self.driver.service(self.ctx, bare["id"]))

    def test_endpoints(self) -> None:
        service_id, region_id = self.service()["id"], self.region()["id"]
        made = [
            Endpoint(each["id"], service_id, each["interface"], each["url"], each["region_id"])
            for each in (
                self.admin.make("endpoints", service_id=service_id, interface=interface,
                                url="http://e.example/", region_id=region)
                for interface, region in (
                    ("public", region_id), ("internal", region_id), ("public", None)))]
        for endpoint in made:
            self.assertEqual(endpoint, self.driver.endpoint(self.ctx, endpoint.id))
        self.assertEqual(
            {each.id for each in made},
            {each.id for each in self.driver.endpoints(self.ctx, service_id=service_id)})
        self.assertEqual([made[1]], list(self.driver.endpoints(
            self.ctx, service_id=service_id, region_id=region_id, interface="internal")))

    def test_domains(self) -> None:
        made = self.domain()
        domain = Domain(made["id"], made["name"])
        self.assertEqual(domain, self.driver.domain(self.ctx, domain.id))
        self.assertEqual([domain], list(self.driver.domains(self.ctx, name=domain.name)))
        self.assertIn("default", [each.id for each in self.driver.domains(self.ctx)])
        self.assertIsNone(self.driver.project(self.ctx, domain.id))

    def test_projects(self) -> None:
        domain, top, *below = self.tree()
        found = self.driver.projects(self.ctx, domain_id=domain.id)
        self.assertEqual({top.id, *(each.id for each in below)}, {each.id for each in found})
        project = self.driver.project(self.ctx, below[0].id)
        self.assertEqual(
            Project(below[0].id, project.name, domain.id, top.id), project)
        self.assertIn(project, found)
        self.assertIsNone(self.driver.domain(self.ctx, top.id))
        for filters, expected in (
            ({"name": project.name}, [project.id]),
            ({"parent_id": domain.id}, [top.id]),
            ({"parent_id": top.id, "name": project.name}, [project.id]),
            ({"parent_id": top.id, "domain_id": "default"}, []),
            ({"domain_id": domain.id, "name": project.name.upper()}, []),
        ):
            self.assertEqual(expected, [
                each.id for each in self.driver.projects(self.ctx, **filters)], filters)

    def test_projects_of_a_domain_whose_id_is_no_uuid(self) -> None:
        """Keystone refuses parent_id=default."""
        top = self.project("default")["id"]
        below = self.project(top, "default")["id"]
        found = [each.id for each in self.driver.projects(self.ctx, parent_id="default")]
        self.assertIn(top, found)
        self.assertNotIn(below, found)
        self.assertEqual([], list(self.driver.projects(
            self.ctx, parent_id="default", domain_id=self.domain()["id"])))

    def test_filters_that_nothing_passes(self) -> None:
        # Services need no name. Other tests that share this Keystone make such ones, too.
        nameless = self.admin.make("services", type="nameless")["id"]
        for odd in NOBODY:
            for filters in ({"name": odd}, {"domain_id": odd}, {"parent_id": odd}):
                self.assertEqual([], list(self.driver.projects(self.ctx, **filters)), filters)
            services = self.driver.services(self.ctx, name=odd)
            self.assertEqual({odd} & {""}, {service.name for service in services})
            self.assertEqual(odd == "", nameless in {service.id for service in services})
            self.assertEqual([], list(self.driver.services(self.ctx, service_type=odd)))
            self.assertEqual([], list(self.driver.endpoints(self.ctx, interface=odd)))
            self.assertEqual([], list(self.driver.regions(self.ctx, parent_region_id=odd)))
            self.assertEqual([], list(self.driver.domains(self.ctx, name=odd)))

    def test_what_does_not_exist(self) -> None:
        for id_ in NOBODY:
            for kind in ("region", "service", "endpoint", "domain", "project"):
                self.assertIsNone(getattr(self.driver, kind)(self.ctx, id_), (kind, id_))
            alone = (Node(id_, None),)
            self.assertEqual(alone, self.driver.lineage(self.ctx, id_))
            self.assertEqual(alone, self.driver.subtree(self.ctx, id_))

    def test_trees(self) -> None:
        """The administrator has no role in any of these projects."""
        domain, top, *below = self.tree()
        self.assertEqual((domain,), self.driver.lineage(self.ctx, domain.id))
        self.assertEqual((domain, top), self.driver.lineage(self.ctx, top.id))
        self.assertEqual((domain, top, below[0]), self.driver.lineage(self.ctx, below[0].id))
        found = self.driver.subtree(self.ctx, domain.id)
        self.assertEqual((domain, top), found[:2])
        self.assertEqual(set(below), set(found[2:]))
        found = self.driver.subtree(self.ctx, top.id)
        self.assertEqual((top, set(below)), (found[0], set(found[1:])))
        self.assertEqual((below[1],), self.driver.subtree(self.ctx, below[1].id))

    def test_depth(self) -> None:
        self.tree()
        before = self.driver.depth(self.ctx)
        self.assertLessEqual(3, before)
        domain_id = parent_id = self.domain()["id"]
        # Keystone's own bound is five levels.
        for _ in range(4):
            parent_id = self.project(parent_id, domain_id)["id"]
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual(5, self.driver.depth(self.ctx))

    def test_beside_the_limit_driver(self) -> None:
        """Both drivers work with one configuration."""
        conf = self.conf()
        KeystoneLimits(conf)
        self.assertIsNotNone(KeystoneCatalog(conf).domain(self.ctx, "default"))


class TestRequests(KeystoneCatalogTestCase):
    """How often Keystone is asked."""

    def test_a_project_and_its_lineage_are_one_question(self) -> None:
        _, _, below, _ = self.tree()
        for _ in range(2):
            self.driver.lineage(self.ctx, below.id)
            self.driver.project(self.ctx, below.id)
        self.assertEqual([f"/projects/{below.id}?parents_as_ids=1"], self.proxy.asked())
        self.clock.forward(CACHE_SECONDS)
        self.driver.lineage(self.ctx, below.id)
        self.assertEqual(1, len(self.proxy.asked()))

    def test_a_subtree_is_one_question(self) -> None:
        domain, *_ = self.tree()
        for _ in range(2):
            self.driver.subtree(self.ctx, domain.id)
        self.assertEqual([f"/projects/{domain.id}?subtree_as_ids=1"], self.proxy.asked())

    def test_a_list_is_one_question_whatever_is_sought(self) -> None:
        for name in ("a", "b", None):
            self.driver.services(self.ctx, name=name)
            self.driver.services(self.ctx, service_type=name)
        self.assertEqual(["/services"], self.proxy.asked())

    def test_what_was_just_made_is_found(self) -> None:
        self.driver.services(self.ctx)
        made = self.service()["id"]
        self.assertEqual(made, self.driver.service(self.ctx, made).id)

    def test_that_something_does_not_exist_is_known_too(self) -> None:
        id_ = uuid.uuid4().hex
        for _ in range(3):
            self.assertIsNone(self.driver.service(self.ctx, id_))
        self.assertEqual([f"/services/{id_}"], self.proxy.asked())
        self.clock.forward(CACHE_SECONDS)
        self.assertIsNone(self.driver.service(self.ctx, id_))
        self.assertEqual(1, len(self.proxy.asked()))

    def test_tags(self) -> None:
        self.proxy.tags = True
        made = self.service()["id"]
        before = self.driver.service(self.ctx, made)
        self.clock.forward(CACHE_SECONDS)
        self.proxy.requests.clear()
        self.assertEqual(before, self.driver.service(self.ctx, made))
        (request,) = self.proxy.requests
        self.assertIn("If-None-Match", request.headers)
        self.admin.change("services", made, description="changed")
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual("changed", self.driver.service(self.ctx, made).description)


class TestOutages(KeystoneCatalogTestCase):
    """Nothing ceases to exist because nobody can be asked."""

    def setUp(self) -> None:
        super().setUp()
        self.driver = self.make(timeout=remote.SHORT_TIMEOUT)
        self.service_id = self.service()["id"]
        self.nodes = self.tree()
        self.questions = {
            "service": lambda: self.driver.service(self.ctx, self.service_id),
            "services": lambda: self.driver.services(self.ctx),
            "project": lambda: self.driver.project(self.ctx, self.nodes[-1].id),
            "lineage": lambda: self.driver.lineage(self.ctx, self.nodes[-1].id),
            "subtree": lambda: self.driver.subtree(self.ctx, self.nodes[0].id),
            "nobody": lambda: self.driver.service(self.ctx, "nobody"),
        }

    def test_worked_through(self) -> None:
        for name, failure in remote.failures(self.proxy, self.clock).items():
            with self.subTest(name):
                known = {name: ask() for name, ask in self.questions.items()}
                self.proxy.instead = failure
                self.clock.forward(MAX_STALE_SECONDS - remote.LONG)
                self.assertEqual(known, {name: ask() for name, ask in self.questions.items()})
                self.clock.forward(remote.LONG)
                for ask in self.questions.values():
                    self.assertRaises(errors.Unavailable, ask)
                remote.end_failure(self.proxy, self.clock, name)

    def test_nothing_is_known(self) -> None:
        self.driver.domain(self.ctx, "default")
        for name, failure in remote.failures(self.proxy, self.clock).items():
            with self.subTest(name):
                self.proxy.instead = failure
                for ask in self.questions.values():
                    error = self.assertRaises(errors.Unavailable, ask)
                    self.assertIn("not known", str(error))
                remote.end_failure(self.proxy, self.clock, name)
        self.assertIsNotNone(self.questions["service"]())

    def test_the_option_that_bounds_it(self) -> None:
        self.questions["service"]()
        self.proxy.close()
        self.clock.forward(MAX_STALE_SECONDS)
        error = self.assertRaises(errors.Unavailable, self.questions["service"])
        self.assertIn("[catalog] max_stale_seconds = 600", str(error))
        self.proxy.open()
        self.assertIsNotNone(self.questions["service"]())


class TestRefusals(KeystoneCatalogTestCase):
    """Who may not ask is told so."""

    def test_a_user_of_one_project(self) -> None:
        own = self.project("default")["id"]
        self.driver = self.make(
            username=self.user("member", own), project_name=None, project_id=own)
        for ask in (lambda: self.driver.service(self.ctx, "nobody"),
                    lambda: self.driver.projects(self.ctx, domain_id="default")):
            self.assertRaises(keystone.KeystoneRefuses, ask)


class TestAKeystoneThatCutsOff(KeystoneCatalogTestCase):
    """Keystone's lists of services come without the rest where list_limit cuts them off."""

    options = "\n[catalog]\nlist_limit = 2\n"

    def test_a_part_is_not_taken_for_all(self) -> None:
        for _ in range(2):
            self.service()
        error = self.assertRaises(errors.Unavailable, self.driver.services, self.ctx)
        self.assertIn("Keystone cuts its answer to GET /services off after 2 objects",
                      str(error))


class TestAKeystoneWithPages(KeystoneCatalogTestCase):
    """Keystone's pages of projects can be followed."""

    options = "\n[resource]\nlist_limit = 3\n"

    def test_all_projects(self) -> None:
        domain_id = self.domain()["id"]
        made = {self.project(domain_id)["id"] for _ in range(8)}
        found = self.driver.projects(self.ctx, domain_id=domain_id)
        self.assertEqual(made, {each.id for each in found})
        self.assertLess(1, len(self.proxy.asked()))
