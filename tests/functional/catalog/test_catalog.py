"""Regions, services, endpoints, domains and projects: what is kept and what is refused."""

import contextlib
import functools

import sqlalchemy as sa

from placement_core import db, errors as categories
from placement_core.catalog import domains, endpoints, errors, projects, regions, services, tree
from placement_core.changes import revisions
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service
from tests import base, databases

#: No id, and no name, of anything.
STRANGE = ("", "\0", "\ud800", "x" * 70000)


def revision(ctx):
    return revisions.read(ctx, revisions.LIMITS)


@databases.on_each_database
class TestRegions(base.DatabaseTestCase):

    def test_life(self):
        made = regions.create(self.ctx, id="RegionOne", description="ü")
        self.assertEqual(Region("RegionOne", None, "ü"), made)
        self.assertEqual(made, regions.get(self.ctx, "RegionOne"))
        cell = regions.create(self.ctx, parent_region_id="RegionOne")
        self.assertEqual(32, len(cell.id))
        self.assertEqual({made, cell}, set(regions.list_(self.ctx)))
        self.assertEqual([cell], regions.list_(self.ctx, parent_region_id="RegionOne"))
        self.assertEqual(
            Region(cell.id, None, "x"),
            regions.update(self.ctx, cell.id, parent_region_id=None, description="x"))
        self.assertEqual(made, regions.update(self.ctx, "RegionOne"))
        self.assertEqual([], regions.list_(self.ctx, parent_region_id="RegionOne"))
        regions.delete(self.ctx, "RegionOne")
        self.assertEqual([cell.id], [each.id for each in regions.list_(self.ctx)])

    def test_not_there(self):
        regions.create(self.ctx, id="one")
        for id_ in ("One", "one ", *STRANGE):
            for call in (regions.get, regions.update, regions.delete):
                error = self.assertRaises(errors.NotInCatalog, call, self.ctx, id_)
                self.assertEqual(("region", id_), (error.kind, error.id))
            self.assertEqual([], regions.list_(self.ctx, parent_region_id=id_))

    def test_refused(self):
        regions.create(self.ctx, id="one")
        regions.create(self.ctx, id="two", parent_region_id="one")
        regions.create(self.ctx, id="three", parent_region_id="two")
        before = regions.list_(self.ctx)
        for expected, call in (
            (errors.Duplicate, functools.partial(regions.create, id="one")),
            (errors.UnknownReference,
             functools.partial(regions.create, id="x", parent_region_id="no")),
            # Not itself either: it is not there yet.
            (errors.UnknownReference,
             functools.partial(regions.create, id="x", parent_region_id="x")),
            (errors.UnknownReference,
             functools.partial(regions.update, id_="one", parent_region_id="no")),
            (errors.Misplaced,
             functools.partial(regions.update, id_="one", parent_region_id="one")),
            (errors.Misplaced,
             functools.partial(regions.update, id_="one", parent_region_id="three")),
            (errors.InUse, functools.partial(regions.delete, id_="one")),
        ):
            self.assertRaises(expected, call, self.ctx)
        for id_ in (*STRANGE, "x" * 256, " ", " \t\n"):
            self.assertRaises(errors.InvalidValue, regions.create, self.ctx, id=id_)
        self.assertRaises(errors.InvalidValue, regions.create, self.ctx, id="x", description="\0")
        self.assertEqual(before, regions.list_(self.ctx))
        longest = "x" * 255
        self.assertEqual(longest, regions.create(self.ctx, id=longest).id)

    def test_a_region_with_endpoints_stays(self):
        region = regions.create(self.ctx)
        service = services.create(self.ctx, service_type="compute")
        endpoint = endpoints.create(
            self.ctx, service_id=service.id, interface="public", url="u", region_id=region.id)
        error = self.assertRaises(errors.InUse, regions.delete, self.ctx, region.id)
        self.assertEqual("endpoints", error.users)
        endpoints.delete(self.ctx, endpoint.id)
        regions.delete(self.ctx, region.id)

    def test_a_damaged_circle_ends(self):
        for id_ in ("a", "b", "c"):
            regions.create(self.ctx, id=id_)
        with db.write(self.ctx) as session:
            session.execute(sa.text(
                "UPDATE catalog_regions SET parent_region_id = CASE id WHEN 'a' THEN 'b' "
                "ELSE 'a' END WHERE id <> 'c'"))
        self.assertEqual("a", regions.update(self.ctx, "c", parent_region_id="a").parent_region_id)


@databases.on_each_database
class TestServices(base.DatabaseTestCase):

    def test_life(self):
        nova = services.create(
            self.ctx, service_type="compute", name="nova", description="d", enabled=False,
            id="a-1")
        self.assertEqual(Service("a-1", "compute", "nova", "d", False), nova)
        self.assertEqual(nova, services.get(self.ctx, "a-1"))
        other = services.create(self.ctx, service_type="compute")
        self.assertEqual((32, ""), (len(other.id), other.name))
        self.assertEqual([other, nova], services.list_(self.ctx, service_type="compute"))
        self.assertEqual([nova], services.list_(self.ctx, name="nova"))
        self.assertEqual([], services.list_(self.ctx, service_type="image", name="nova"))
        changed = services.update(
            self.ctx, "a-1", type="image", name="glance", description="", enabled=True)
        self.assertEqual(Service("a-1", "image", "glance", "", True), changed)
        self.assertEqual(changed, services.get(self.ctx, "a-1"))
        services.delete(self.ctx, "a-1")
        self.assertEqual([other], services.list_(self.ctx))

    def test_not_there(self):
        services.create(self.ctx, service_type="compute", id="one")
        for id_ in ("One", "one ", *STRANGE):
            for call in (services.get, services.update, services.delete):
                self.assertRaises(errors.NotInCatalog, call, self.ctx, id_)
        for name in ("Compute", "compute ", *STRANGE):
            self.assertEqual([], services.list_(self.ctx, service_type=name))

    def test_refused(self):
        services.create(self.ctx, service_type="compute", id="one")
        self.assertRaises(
            errors.Duplicate, services.create, self.ctx, service_type="compute", id="one")
        for id_ in ("a_b", "a b", "ä", "one\n", "x" * 65, *STRANGE):
            self.assertRaises(
                errors.InvalidValue, services.create, self.ctx, service_type="x", id=id_)
        for name in (*STRANGE, "x" * 256):
            self.assertRaises(errors.InvalidValue, services.create, self.ctx, service_type=name)
            self.assertRaises(errors.InvalidValue, services.update, self.ctx, "one", type=name)
        self.assertEqual(["one"], [each.id for each in services.list_(self.ctx)])

    def test_its_endpoints_go_with_it(self):
        one, two = (services.create(self.ctx, service_type="compute") for _ in range(2))
        for service in (one, one, two):
            endpoints.create(self.ctx, service_id=service.id, interface="public", url="u")
        services.delete(self.ctx, one.id)
        self.assertEqual([two.id], [each.service_id for each in endpoints.list_(self.ctx)])


@databases.on_each_database
class TestEndpoints(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.service = services.create(self.ctx, service_type="compute").id
        for id_ in ("one", "two"):
            regions.create(self.ctx, id=id_)

    def create(self, **values):
        return endpoints.create(self.ctx, **{
            "service_id": self.service, "interface": "public", "url": "http://h/", **values})

    def test_life(self):
        made = self.create(id="e", region_id="one", enabled=False)
        self.assertEqual(
            Endpoint("e", self.service, "public", "http://h/", "one", False), made)
        self.assertEqual(made, endpoints.get(self.ctx, "e"))
        inner = self.create(interface="internal")
        self.assertEqual([made], endpoints.list_(self.ctx, region_id="one"))
        self.assertEqual([inner], endpoints.list_(self.ctx, interface="internal"))
        self.assertEqual(2, len(endpoints.list_(self.ctx, service_id=self.service)))
        self.assertEqual([], endpoints.list_(self.ctx, region_id="two", interface="public"))
        changed = endpoints.update(
            self.ctx, "e", region_id=None, url="http://x/", interface="admin", enabled=True)
        self.assertEqual(Endpoint("e", self.service, "admin", "http://x/", None, True), changed)
        self.assertEqual(changed, endpoints.get(self.ctx, "e"))
        endpoints.delete(self.ctx, "e")
        self.assertEqual([inner], endpoints.list_(self.ctx))
        for call in (endpoints.get, endpoints.update, endpoints.delete):
            self.assertRaises(errors.NotInCatalog, call, self.ctx, "e")

    def test_refused(self):
        self.create(id="e")
        for expected, values in (
            (errors.UnknownReference, {"service_id": "no"}),
            (errors.UnknownReference, {"region_id": "no"}),
            (errors.UnknownReference, {"region_id": "One"}),
            (errors.InvalidValue, {"region_id": ""}),
            (errors.InvalidValue, {"interface": "Public"}),
            (errors.InvalidValue, {"url": ""}),
            (errors.InvalidValue, {"url": "x" * 65536}),
        ):
            self.assertRaises(expected, self.create, **values)
            self.assertRaises(expected, endpoints.update, self.ctx, "e", **values)
        self.assertRaises(errors.Duplicate, self.create, id="e")
        self.assertRaises(errors.InvalidValue, self.create, id="a b")
        self.assertEqual(["e"], [each.id for each in endpoints.list_(self.ctx)])


@databases.on_each_database
class TestDomains(base.DatabaseTestCase):

    def test_life(self):
        made = domains.create(self.ctx, name="Default", id="default", description="d")
        self.assertEqual(Domain("default", "Default", "d", True), made)
        self.assertEqual(made, domains.get(self.ctx, "default"))
        other = domains.create(self.ctx, name="default", enabled=False)
        self.assertEqual({made, other}, set(domains.list_(self.ctx)))
        self.assertEqual([other], domains.list_(self.ctx, name="default"))
        changed = domains.update(
            self.ctx, "default", name="d", description="", enabled=False)
        self.assertEqual(Domain("default", "d", "", False), changed)
        self.assertEqual(changed, domains.get(self.ctx, "default"))
        domains.delete(self.ctx, "default")
        self.assertEqual([other], domains.list_(self.ctx))
        for call in (domains.get, domains.update, domains.delete):
            self.assertRaises(errors.NotInCatalog, call, self.ctx, "default")

    def test_refused(self):
        domains.create(self.ctx, name="one", id="one")
        domains.create(self.ctx, name="two", id="two")
        projects.create(self.ctx, name="p", id="project", domain_id="one")
        for call in (
            functools.partial(domains.create, name="one"),
            functools.partial(domains.create, name="x", id="one"),
            functools.partial(domains.create, name="x", id="project"),
            functools.partial(domains.update, id_="two", name="one"),
        ):
            self.assertRaises(errors.Duplicate, call, self.ctx)
        for name in (*STRANGE, "x" * 65):
            self.assertRaises(errors.InvalidValue, domains.create, self.ctx, name=name)
            self.assertRaises(errors.InvalidValue, domains.update, self.ctx, "one", name=name)
        self.assertRaises(errors.InvalidValue, domains.create, self.ctx, name="x", id="a_b")
        self.assertEqual(["one", "two"], [each.name for each in domains.list_(self.ctx)])

    def test_removed_with_its_projects_once_disabled(self):
        for domain in ("one", "two"):
            domains.create(self.ctx, name=domain, id=domain)
            top = projects.create(self.ctx, name="top", domain_id=domain)
            projects.create(self.ctx, name="below", domain_id=domain, parent_id=top.id)
        error = self.assertRaises(errors.StillEnabled, domains.delete, self.ctx, "one")
        self.assertIsInstance(error, categories.Forbidden)
        self.assertEqual(4, len(projects.list_(self.ctx)))
        domains.update(self.ctx, "one", enabled=False)
        domains.delete(self.ctx, "one")
        self.assertEqual(["two"] * 2, [each.domain_id for each in projects.list_(self.ctx)])
        with db.read(self.ctx) as session:
            self.assertEqual(1, len(tree.subtree(session, "one")))
            self.assertEqual(3, len(tree.subtree(session, "two")))
            self.assertEqual(
                6, session.execute(sa.text("SELECT COUNT(*) FROM catalog_ancestors")).scalar())


@databases.on_each_database
class TestProjects(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for id_ in ("one", "two"):
            domains.create(self.ctx, name=id_, id=id_)

    def create(self, id_, parent=None, domain="one", **values):
        return projects.create(
            self.ctx, id=id_, name=values.pop("name", id_), domain_id=domain, parent_id=parent,
            **values)

    def test_life(self):
        top = projects.create(self.ctx, name="Team", domain_id="one")
        self.assertEqual(Project(top.id, "Team", "one", "one"), top)
        self.assertEqual(32, len(top.id))
        below = self.create("below", top.id, name="team", description="d", enabled=False)
        self.assertEqual(Project("below", "team", "one", top.id, "d", False), below)
        self.assertEqual(below, projects.get(self.ctx, "below"))
        other = self.create("other", domain="two", name="team")
        for filters, wanted in (
            ({}, {top, below, other}), ({"name": "team"}, {below, other}),
            ({"name": "team", "domain_id": "two"}, {other}), ({"parent_id": top.id}, {below}),
            ({"parent_id": "two"}, {other}), ({"name": "team "}, set()),
        ):
            self.assertEqual(wanted, set(projects.list_(self.ctx, **filters)))
        changed = projects.update(
            self.ctx, "below", name="x", description="", enabled=True, parent_id="one")
        self.assertEqual(Project("below", "x", "one", "one"), changed)
        self.assertEqual(changed, projects.get(self.ctx, "below"))
        projects.delete(self.ctx, "below")
        self.assertEqual({top, other}, set(projects.list_(self.ctx)))
        for call in (projects.get, projects.update, projects.delete):
            self.assertRaises(errors.NotInCatalog, call, self.ctx, "below")

    def test_refused(self):
        self.create("a")
        self.create("b", "a")
        self.create("c", "b")
        self.create("z", domain="two")
        before = projects.list_(self.ctx)
        create, update = functools.partial(projects.create, name="new"), projects.update
        for expected, call in (
            (errors.UnknownReference, functools.partial(create, domain_id="no")),
            (errors.UnknownReference, functools.partial(create, domain_id="a")),
            (errors.UnknownReference,
             functools.partial(create, domain_id="one", parent_id="no")),
            (errors.UnknownReference,
             functools.partial(create, domain_id="one", parent_id="two")),
            (errors.UnknownReference,
             functools.partial(create, domain_id="one", parent_id="self", id="self")),
            (errors.Misplaced, functools.partial(create, domain_id="one", parent_id="z")),
            (errors.Duplicate, functools.partial(projects.create, name="b", domain_id="one")),
            (errors.Duplicate, functools.partial(create, domain_id="two", id="a")),
            (errors.Duplicate, functools.partial(create, domain_id="one", id="two")),
            (errors.Duplicate, functools.partial(update, id_="c", name="a")),
            (errors.UnknownReference, functools.partial(update, id_="c", parent_id="no")),
            (errors.UnknownReference, functools.partial(update, id_="c", parent_id="two")),
            (errors.Misplaced, functools.partial(update, id_="c", parent_id="z")),
            (errors.Misplaced, functools.partial(update, id_="a", parent_id="a")),
            (errors.Misplaced, functools.partial(update, id_="a", parent_id="c")),
            (errors.InUse, functools.partial(projects.delete, id_="a")),
        ):
            self.assertRaises(expected, call, self.ctx)
        for name in (*STRANGE, "x" * 65):
            self.assertRaises(
                errors.InvalidValue, projects.create, self.ctx, name=name, domain_id="one")
            self.assertRaises(errors.InvalidValue, update, self.ctx, "a", name=name)
        self.assertRaises(errors.InvalidValue, self.create, "a_b")
        self.assertEqual(before, projects.list_(self.ctx))

    def test_refusals_have_the_categories_of_keystone(self):
        self.create("a")
        self.create("b", "a")
        for category, call in (
            (categories.NotFound, functools.partial(projects.get, id_="no")),
            (categories.Invalid,
             functools.partial(projects.create, name="x", domain_id="no")),
            (categories.Conflict,
             functools.partial(projects.create, name="a", domain_id="one")),
            (categories.Forbidden, functools.partial(projects.delete, id_="a")),
            (categories.Invalid, functools.partial(projects.update, id_="a", parent_id="b")),
        ):
            self.assertRaises(category, call, self.ctx)

    def test_no_deeper_than_the_model_reads(self):
        self.create("a", max_depth=2)
        error = self.assertRaises(errors.TooDeep, self.create, "b", "a", max_depth=2)
        self.assertIsInstance(error, categories.Forbidden)
        self.assertEqual(("a", 3, 2), (error.parent_id, error.depth, error.max_depth))
        self.assertIn("3 levels", str(error))
        self.create("b", "a", max_depth=3)
        self.create("c")
        # What is moved brings its own levels with it.
        error = self.assertRaises(
            errors.TooDeep, projects.update, self.ctx, "a", parent_id="c", max_depth=3)
        self.assertEqual((4, 3), (error.depth, error.max_depth))
        projects.update(self.ctx, "b", parent_id="c", max_depth=3)
        # What is too deep already can be renamed, and moved up.
        self.create("d", "b")
        projects.update(self.ctx, "d", name="renamed", parent_id="b", max_depth=3)
        projects.update(self.ctx, "d", parent_id="one", max_depth=3)


@databases.on_each_database
class TestRevision(base.DatabaseTestCase):

    def test_every_write_raises_it(self):
        seen = [revision(self.ctx)]
        for call in (
            functools.partial(regions.create, id="r"),
            functools.partial(regions.update, id_="r", description="x"),
            functools.partial(services.create, service_type="t", id="s"),
            functools.partial(services.update, id_="s", name="x"),
            functools.partial(
                endpoints.create, service_id="s", interface="public", url="u", id="e"),
            functools.partial(endpoints.update, id_="e", url="x"),
            functools.partial(endpoints.delete, id_="e"),
            functools.partial(services.delete, id_="s"),
            functools.partial(regions.delete, id_="r"),
            functools.partial(domains.create, name="d", id="d"),
            functools.partial(domains.update, id_="d", enabled=False),
            functools.partial(projects.create, name="p", domain_id="d", id="p"),
            functools.partial(projects.update, id_="p", name="x"),
            functools.partial(projects.delete, id_="p"),
            functools.partial(domains.delete, id_="d"),
        ):
            call(self.ctx)
            self.assertNotIn(revision(self.ctx), seen, call)
            seen.append(revision(self.ctx))

    def test_what_is_refused_does_not(self):
        before = revision(self.ctx)
        self.assertRaises(
            errors.UnknownReference, projects.create, self.ctx, name="p", domain_id="no")
        self.assertRaises(errors.NotInCatalog, services.delete, self.ctx, "no")
        self.assertEqual(before, revision(self.ctx))

    def test_it_is_the_first_statement_of_a_write(self):
        """Whatever is read before the lock may change before the write."""
        domains.create(self.ctx, name="d", id="d")
        statements = []

        def note(_connection, _cursor, statement, *_rest):
            statements.append(statement)

        for call in (
            functools.partial(projects.create, name="p", domain_id="d", id="p"),
            functools.partial(projects.update, id_="p", name="x"),
            functools.partial(projects.delete, id_="p"),
            functools.partial(regions.create, id="r"),
            functools.partial(services.create, service_type="t"),
        ):
            statements.clear()
            sa.event.listen(self.database.writer, "before_cursor_execute", note)
            call(self.ctx)
            sa.event.remove(self.database.writer, "before_cursor_execute", note)
            first = next(each for each in statements if not each.startswith("BEGIN"))
            self.assertTrue(first.startswith("UPDATE revisions "), first)


class TestReads(base.DatabaseTestCase):

    def test_one_statement_each(self):
        domains.create(self.ctx, name="d", id="d")
        projects.create(self.ctx, name="p", id="p", domain_id="d")
        services.create(self.ctx, service_type="t", id="s")
        for read in (
            functools.partial(projects.get, id_="p"), projects.list_,
            functools.partial(projects.list_, name="p", domain_id="d", parent_id="d"),
            functools.partial(domains.get, id_="d"), domains.list_,
            functools.partial(services.get, id_="s"), services.list_, regions.list_,
            functools.partial(endpoints.list_, service_id="s", region_id="r"),
        ):
            seen = []

            def note(_connection, _cursor, statement, *_rest, seen=seen):
                seen.append(statement)

            with contextlib.ExitStack() as listening:
                for engine in (self.database.snapshot, self.database.writer,
                               self.database.autocommit):
                    sa.event.listen(engine, "before_cursor_execute", note)
                    listening.callback(sa.event.remove, engine, "before_cursor_execute", note)
                read(self.ctx)
            self.assertEqual(1, len(seen), seen)
