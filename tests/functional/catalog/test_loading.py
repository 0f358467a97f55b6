"""Bringing the catalog to what a document says."""

import copy
import functools

from placement_core.catalog import (
    domains,
    endpoints,
    errors,
    loading,
    names,
    projects,
    regions,
    services,
)
from tests import base, databases, races
from tests.functional.catalog import test_catalog

DOCUMENT = {
    "regions": [{"id": "one"}, {"id": "cell", "parent_region_id": "one", "description": "d"}],
    "services": [{"type": "compute", "name": "nova"}, {"type": "image", "id": "glance"}],
    "endpoints": [
        {"service": "nova", "interface": "public", "region_id": "one", "url": "http://one/"},
        {"service": "compute", "interface": "public", "url": "http://any/"},
        {"service": "glance", "interface": "admin", "url": "http://i/", "enabled": False},
    ],
    "domains": [{"name": "Default", "id": "default"}, {"name": "Lab", "enabled": False}],
    "projects": [
        {"name": "team", "domain": "Default"},
        {"name": "web", "domain": "default", "parent": "team", "description": "d"},
        {"name": "team", "domain": "Lab", "id": "lab-team"},
    ],
}


@databases.on_each_database
class TestLoading(base.DatabaseTestCase):

    def everything(self):
        return [list_(self.ctx) for list_ in (
            regions.list_, services.list_, endpoints.list_, domains.list_, projects.list_)]

    def outcomes(self, document):
        return [(each.name, each.outcome, each.changed)
                for each in loading.load(self.ctx, document)]

    def test_into_an_empty_catalog(self):
        loaded = loading.load(self.ctx, DOCUMENT)
        self.assertEqual({"created"}, {each.outcome for each in loaded})
        self.assertEqual(
            ["one", "cell", "nova", "image", "nova public one", "nova public", "image admin",
             "Default", "Lab", "team", "web", "team"], [each.name for each in loaded])
        nova = names.find_service(self.ctx, "nova")
        self.assertEqual(
            {("http://one/", "one"), ("http://any/", None)},
            {(each.url, each.region_id)
             for each in endpoints.list_(self.ctx, service_id=nova.id)})
        web = names.find_project(self.ctx, "web")
        self.assertEqual(("team", "default", "d"), (
            projects.get(self.ctx, web.parent_id).name, web.domain_id, web.description))
        self.assertFalse(names.find_domain(self.ctx, "Lab").enabled)
        self.assertEqual(
            {each.id for group in self.everything() for each in group},
            {each.id for each in loaded})

    def test_twice_changes_nothing(self):
        ids = [each.id for each in loading.load(self.ctx, DOCUMENT)]
        before = self.everything()
        loaded = loading.load(self.ctx, copy.deepcopy(DOCUMENT))
        self.assertEqual({"unchanged"}, {each.outcome for each in loaded})
        self.assertEqual(ids, [each.id for each in loaded])
        self.assertEqual(before, self.everything())

    def test_brings_up_to_date(self):
        loading.load(self.ctx, DOCUMENT)
        # By other hands; the document says nothing about it.
        nova = names.find_service(self.ctx, "nova")
        services.update(self.ctx, nova.id, description="kept")
        self.assertEqual([
            ("cell", "updated", ("parent_region_id",)),
            ("nova", "unchanged", ()),
            ("renamed", "updated", ("name",)),
            ("nova public one", "updated", ("url", "enabled")),
            ("Lab", "updated", ("enabled",)),
            ("team", "updated", ("description",)),
            ("web", "updated", ("parent_id",)),
            ("new", "created", ()),
        ], self.outcomes({
            "regions": [{"id": "cell", "parent_region_id": None}],
            "services": [{"type": "compute", "name": "nova"},
                         {"type": "image", "id": "glance", "name": "renamed"}],
            "endpoints": [{"service": "nova", "interface": "public", "region_id": "one",
                           "url": "http://new/", "enabled": False}],
            "domains": [{"name": "Lab", "enabled": True}],
            "projects": [{"name": "team", "domain": "Default", "description": "x"},
                         {"name": "web", "domain": "Default", "parent": "default"},
                         {"name": "new", "domain": "Default", "parent": "web"}],
        }))
        self.assertEqual("kept", names.find_service(self.ctx, "nova").description)
        self.assertEqual("default", names.find_project(self.ctx, "web").parent_id)
        self.assertEqual(3, len(endpoints.list_(self.ctx)))

    def test_all_or_nothing(self):
        loading.load(self.ctx, DOCUMENT)
        loading.load(self.ctx, {"services": [{"type": "t", "id": id_} for id_ in ("a", "b")]})
        before, revision = self.everything(), test_catalog.revision(self.ctx)
        for expected, document in (
            (errors.UnknownReference,
             {"regions": [{"id": "x"}, {"id": "y", "parent_region_id": "no"}]}),
            # What another refers to stands before it.
            (errors.UnknownReference, {"projects": [
                {"name": "x", "domain": "Default", "parent": "y"},
                {"name": "y", "domain": "Default"}]}),
            (errors.UnknownReference, {"projects": [{"name": "x", "domain": "no"}]}),
            (errors.UnknownReference, {"projects": [
                {"name": "x", "domain": "Lab", "parent": "web"}]}),
            (errors.Misplaced, {"projects": [
                {"name": "x", "domain": "Default", "id": "lab-team"}]}),
            (errors.Misplaced, {"projects": [
                {"name": "team", "domain": "Default", "parent": "web"}]}),
            (errors.Duplicate, {"domains": [{"name": "x"}, {"name": "Lab", "id": "new"}]}),
            (errors.Ambiguous, {"services": [{"type": "t"}]}),
            (errors.Ambiguous, {"endpoints": [
                {"service": "t", "interface": "public", "url": "u"}]}),
        ):
            self.assertRaises(expected, loading.load, self.ctx, document)
            self.assertEqual(before, self.everything())
            self.assertEqual(revision, test_catalog.revision(self.ctx))

    def test_no_deeper_than_the_model_reads(self):
        self.assertRaises(errors.TooDeep, loading.load, self.ctx, DOCUMENT, max_depth=2)
        self.assertEqual([[]] * 5, self.everything())
        loading.load(self.ctx, DOCUMENT, max_depth=3)
        self.assertRaises(errors.TooDeep, loading.load, self.ctx, {"projects": [
            {"name": "deep", "domain": "Default", "parent": "web"}]}, max_depth=3)

    def test_whoever_minds_limits_may_refuse_a_move(self):
        loading.load(self.ctx, DOCUMENT)
        before = self.everything()
        asked = []

        def refuse(ctx, id_, **changes):
            self.assertIsNotNone(ctx.session)
            asked.append((id_, changes))
            raise errors.TooDeep("x", 2, 1)

        web = names.find_project(self.ctx, "web").id
        self.assertRaises(errors.TooDeep, loading.load, self.ctx, {
            "regions": [{"id": "new"}],
            "projects": [{"name": "team", "domain": "Default"},
                         {"name": "web", "domain": "Default", "parent": "default"}],
        }, update_project=refuse)
        self.assertEqual([(web, {"parent_id": "default"})], asked)
        self.assertEqual(before, self.everything())

    def test_by_several_at_once(self):
        outcomes = races.run(*[
            functools.partial(loading.load, self.context(), DOCUMENT) for _ in range(4)])
        self.assertEqual(
            [{"created"}, *[{"unchanged"}] * 3],
            sorted(({each.outcome for each in loaded} for loaded in outcomes), key=sorted))
        self.assertEqual(3, len(projects.list_(self.ctx)))


@databases.on_each_database
class TestNames(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for domain in ("one", "two"):
            domains.create(self.ctx, name=domain, id=f"id-{domain}")
            projects.create(self.ctx, name="team", id=f"team-{domain}", domain_id=f"id-{domain}")

    def test_domains_and_projects(self):
        self.assertEqual("id-one", names.find_domain(self.ctx, "one").id)
        self.assertEqual("id-one", names.find_domain(self.ctx, "id-one").id)
        self.assertEqual("team-one", names.find_project(self.ctx, "team-one").id)
        self.assertEqual("team-two", names.find_project(self.ctx, "team", domain_id="id-two").id)
        error = self.assertRaises(errors.Ambiguous, names.find_project, self.ctx, "team")
        self.assertEqual({"team-one", "team-two"}, set(error.ids))
        for call in (names.find_domain, names.find_project, names.find_service):
            for called in ("no", "", "\0", "Team"):
                self.assertRaises(errors.UnknownReference, call, self.ctx, called)

    def test_an_id_wins(self):
        projects.create(self.ctx, name="team-two", domain_id="id-one")
        self.assertEqual("team", names.find_project(self.ctx, "team-two").name)

    def test_services_by_name_and_type(self):
        for type_, name, id_ in (("compute", "nova", "a"), ("nova", "", "b"), ("image", "", "c"),
                                 ("volume", "x", "d"), ("volume", "y", "e")):
            services.create(self.ctx, service_type=type_, name=name, id=id_)
        for called, wanted in (("nova", "a"), ("b", "b"), ("image", "c"), ("y", "e")):
            self.assertEqual(wanted, names.find_service(self.ctx, called).id)
        self.assertRaises(errors.Ambiguous, names.find_service, self.ctx, "volume")
