"""The driver ``placement`` with a placement that is somebody else's: the upstream one."""

import time
import unittest
import uuid

import sqlalchemy as sa

from placement_core import errors
from placement_core.cells import tables
from placement_core.testing import counting as contract
from placement_plugins.counting import remote, usages
from placement_plugins.counting.placement import PlacementCounting
from tests import placement_service, proxies
from tests.plugins.counting import nova_deployments

UNITS = ("instances", "VCPU", "MEMORY_MB")


@unittest.skipUnless(placement_service.INSTALLED, "upstream is not installed")
class RemoteTestCase(nova_deployments.NovaDeploymentTestCase):
    """A real second placement, through a proxy that counts."""

    def setUp(self):
        super().setUp()
        self.placement = placement_service.shared()
        self.proxy = self.useFixture(proxies.Proxy(self.placement.url))

    def conf(self, **options):
        # As an operator would write it: its group is registered by the driver.
        made = super().conf(**options)
        remote._register(made)
        from keystoneauth1 import loading

        made.register_opts(
            loading.get_auth_plugin_conf_options("admin_token"), group="placement_client")
        for name, value in {"auth_type": "admin_token", "token": "admin",
                            "endpoint": self.proxy.url, **self.client}.items():
            made.set_override(name, value, "placement_client")
        return made

    client = {}

    def claim(self, consumer_uuid, amounts, *, project="project", user="user", **options):
        self.placement.claim(consumer_uuid, amounts, project=project, user=user, **options)


class TestContract(contract.CountingContract, RemoteTestCase):
    classes = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LICENCE")

    def given(self, instances):
        cell = self.cell()
        for instance in instances:
            self.run_instance(instance, cell)
        return PlacementCounting(self.conf()), self.ctx


class TestRemote(RemoteTestCase):

    def setUp(self):
        super().setUp()
        self.here = self.cell()
        self.driver = PlacementCounting(self.conf())

    def instance(self, vcpus=1, *, project="project", user="user", mapped="same", **options):
        made = str(uuid.uuid4())
        self.map(made, self.here, project=project, user=user if mapped == "same" else mapped)
        self.put(made, self.here, project=project, user=user, vcpus=vcpus)
        self.claim(made, {"VCPU": vcpus, "MEMORY_MB": 10}, project=project, user=user, **options)
        return made

    def count(self, *projects, units=UNITS, **options):
        return self.driver.count(self.ctx, projects or ["project"], units=units, **options)

    def test_it_is_not_transactional(self):
        self.assertFalse(self.driver.transactional)
        self.assertTrue(PlacementCounting(nova_deployments.NovaDeploymentTestCase.conf(self)).transactional)

    def test_at_most_two_questions(self):
        """One about the project; one about the user, where and only where one is asked."""
        self.instance(2)
        self.instance(3, user="second")
        count = self.count()
        self.assertEqual(["/usages?project_id=project"], self.proxy.asked())
        self.assertEqual({"instances": 2, "VCPU": 5, "MEMORY_MB": 20}, count.projects["project"])
        count = self.count(user_id="second")
        self.assertEqual(
            ["/usages?project_id=project", "/usages?project_id=project&user_id=second"],
            self.proxy.asked())
        self.assertEqual({"instances": 1, "VCPU": 3, "MEMORY_MB": 10}, count.user)
        self.assertEqual({"api_database", "placement"}, set(count.seconds))
        self.count(units=["instances"])
        self.assertEqual([], self.proxy.asked())

    def test_microversions(self):
        """1.9 is enough, unless consumers are counted."""
        self.instance()
        for units, version in ((["VCPU"], "1.9"), (["VCPU", "consumers"], "1.38")):
            self.proxy.requests.clear()
            self.count(units=units)
            (request,) = self.proxy.requests
            self.assertEqual(f"placement {version}", request.headers["OpenStack-API-Version"])

    def test_consumers(self):
        """Of every type but migrations; a resize counts both of what it holds."""
        self.instance(2)
        self.claim(str(uuid.uuid4()), {"VCPU": 4}, kind="MIGRATION")
        other = str(uuid.uuid4())
        self.claim(other, {"DISK_GB": 1}, kind="VOLUME")
        units = ["VCPU", "DISK_GB", "consumers"]
        count = self.count(units=units, user_id="user")
        self.assertEqual({"VCPU": 6, "DISK_GB": 1, "consumers": 2}, count.projects["project"])
        self.assertEqual(count.projects["project"], count.user)
        count = self.count(units=units, user_id="user", without=[other])
        self.assertEqual({"VCPU": 6, "consumers": 1}, {
            unit: used for unit, used in count.user.items() if used})

    def test_without(self):
        made = self.instance(2)
        self.instance(3, user="second")
        count = self.count(user_id="user", without=[made])
        self.assertEqual({"instances": 1, "VCPU": 3, "MEMORY_MB": 10}, count.projects["project"])
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 0, "instances": 0}, count.user)

    def test_without_what_is_given_back_meanwhile(self):
        """What was not among the usages is not subtracted from them."""
        made = self.instance(2)
        self.instance(3)
        self.proxy.instead = self._release_at(made, "/usages")
        count = self.count(units=["VCPU"], without=[made])
        self.assertEqual({"VCPU": 3}, count.projects["project"])

    def test_without_what_shrinks_meanwhile(self):
        """Only what was held before and after is certain to be among the usages."""
        made = self.instance(4)
        self.instance(3)

        def shrink(request):
            if request.path.startswith("/usages"):
                self.proxy.instead = lambda request: None
                self.placement.release(made)
                self.placement.claim(made, {"VCPU": 1})

        self.proxy.instead = shrink
        count = self.count(units=["VCPU"], without=[made])
        self.assertEqual({"VCPU": 3}, count.projects["project"])

    def _release_at(self, consumer, path):
        def release(request):
            if request.path.startswith(path):
                self.proxy.instead = lambda request: None
                self.placement.release(consumer)

        return release

    def test_all_projects(self):
        """Those that have instances; each is one question, some at once."""
        for number in range(12):
            self.instance(number + 1, project=f"p{number}")
        count = self.driver.count_all(self.ctx, units=UNITS)
        self.assertEqual(12, len(self.proxy.asked()))
        self.assertEqual({f"p{number}": number + 1 for number in range(12)},
                         {project: used["VCPU"] for project, used in count.projects.items()})

    def test_many_projects_are_asked_about_at_once(self):
        for number in range(16):
            self.instance(project=f"p{number}")
        self.proxy.instead = lambda request: time.sleep(0.3)
        started = time.monotonic()
        self.driver.count_all(self.ctx, units=UNITS)
        self.assertLess(time.monotonic() - started, 0.3 * 16 * 2 / 3)

    def test_not_migrated(self):
        """The cells are asked, and placement about the dedicated processors in their VCPU."""
        self.instance(4, mapped=None)
        count = self.count()
        self.assertEqual(("legacy_cell", 4), (count.source, count.projects["project"]["VCPU"]))
        self.assertEqual(["/usages?project_id=project"], self.proxy.asked())
        self.count(units=["instances", "MEMORY_MB"])
        self.assertEqual([], self.proxy.asked())
        self.api(sa.update(tables.instance_mappings).values(user_id="user"))
        self.assertEqual("placement", self.count().source)

    # Failures -----------------------------------------------------------------

    def assert_unavailable(self, words, kind=remote.PlacementUnreachable, **options):
        """Nothing is known: no low number, and the cells are not asked instead."""
        self.here.execute(sa.text("DROP TABLE IF EXISTS instances"))
        error = self.assertRaises(kind, self.count, **options)
        self.assertIsInstance(error, errors.Unavailable)
        self.assertIn(words, str(error))
        self.assertNotIn("\n", str(error))

    def test_nobody_answers(self):
        self.instance()
        self.proxy.close()
        self.assert_unavailable("does not answer")
        self.proxy.open()
        self.assertEqual(1, self.count().projects["project"]["VCPU"])
        self.proxy.close()
        self.addCleanup(self.proxy.open)
        self.assertRaises(errors.Unavailable, self.count, "a", "b")
        self.assertRaises(errors.Unavailable, self.driver.count_all, self.ctx, units=UNITS)

    def test_it_hangs(self):
        self.client = {"timeout": 1}
        self.driver = PlacementCounting(self.conf())
        self.proxy.instead = self.proxy.hang
        started = time.monotonic()
        self.assert_unavailable("does not answer")
        self.assertLess(time.monotonic() - started, 5)

    def test_answers_that_are_none(self):
        for status, body, kind, words in (
            (500, b"", remote.PlacementUnreachable, "with 500"),
            (503, b"busy", remote.PlacementUnreachable, "with 503"),
            (429, b"", remote.PlacementUnreachable, "with 429"),
            (403, b"{}", remote.PlacementRefuses, "(403)"),
            (404, b"{}", remote.PlacementRefuses, "(404)"),
            (406, b"{}", remote.PlacementRefuses, "(406)"),
            (200, b"<html>", remote.PlacementUnreachable, "not one of placement's"),
            (200, b"[]", remote.PlacementUnreachable, "not one of placement's"),
            (200, b"{}", remote.PlacementUnreachable, "not one of placement's"),
            (200, b'{"usages": []}', remote.PlacementUnreachable, "not one of placement's"),
            (200, b'{"usages": {"VCPU": -1}}', remote.PlacementUnreachable, "not one of"),
            (200, b'{"usages": {"VCPU": "1"}}', remote.PlacementUnreachable, "not one of"),
            (200, b'{"usages": {"VCPU": true}}', remote.PlacementUnreachable, "not one of"),
            (200, b'{"usages": {"VCPU": 1.5}}', remote.PlacementUnreachable, "not one of"),
            (200, b'{"usages": {"VCPU": null}}', remote.PlacementUnreachable, "not one of"),
        ):
            self.proxy.instead = lambda request: proxies.Answer(status, body)
            self.assert_unavailable(words, kind)
            self.assert_unavailable(words, kind, without=[str(uuid.uuid4())])

    def test_a_token_that_is_refused(self):
        self.client = {"token": "somebody"}
        self.driver = PlacementCounting(self.conf())
        self.assert_unavailable("(403)", remote.PlacementRefuses)


class TestOptions(nova_deployments.NovaDeploymentTestCase):

    def refused(self, words, *, quota=None, **client):
        conf = self.conf(**(quota or {}))
        remote._register(conf)
        for name, value in client.items():
            conf.set_override(name, value, "placement_client")
        error = self.assertRaises(errors.ConfigurationError, PlacementCounting, conf)
        self.assertIn(words, str(error))
        self.assertNotIn("\n", str(error))

    def test_what_makes_no_sense(self):
        self.refused("[placement_client] auth_type: expected",
                     endpoint_override="http://127.0.0.1:1")
        self.refused("[placement_client]: ", auth_type="nobody has this one")
        self.refused("[quota] count_moves = once", auth_type="none",
                     endpoint_override="http://127.0.0.1:1", quota={"quota__count_moves": "once"})

    def test_no_token(self):
        """``none`` is the placement that asks for none; nothing is sent at the start."""
        conf = self.conf()
        remote._register(conf)
        conf.set_override("auth_type", "none", "placement_client")
        conf.set_override("endpoint_override", "http://127.0.0.1:1", "placement_client")
        driver = PlacementCounting(conf)
        self.assertIsInstance(driver._usages, usages.RemoteUsages)
        self.assertRaises(remote.PlacementUnreachable, driver.count,
                          self.ctx, ["project"], units=["VCPU"])
