"""The contract of limit drivers, as tests for their authors.

Write ``class TestX(LimitsContract, unittest.TestCase)`` with ``given``. The ids of services,
regions, projects and users are used nowhere else.
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING

from placement_core import amounts
from placement_core.amounts import UNLIMITED, Amount
from placement_core.context import Context
from placement_core.plugin_api import loader
from placement_core.plugin_api.limits import EffectiveLimits, LimitDriver

SERVICE = "5e" * 16
OTHER_SERVICE = "0e" * 16
REGION = "contract-region"
OTHER_REGION = "contract-other-region"
DOMAIN = "d0" * 16
PROJECT = "b0" * 16
#: A project below ``PROJECT``.
CHILD = "c1" * 16
#: A project directly below ``DOMAIN``.
OTHER_PROJECT = "b1" * 16
USER = "f0" * 16
OTHER_USER = "f1" * 16

#: {(service, region, resource): default, where -1 is unlimited}
Registered = Mapping[tuple[str, str | None, str], int]
#: {(project or domain, service, region, resource): its limit}
Set = Mapping[tuple[str, str, str | None, str], int]
#: {(project, user, service, region, resource): the limit of the user}
SetForUsers = Mapping[tuple[str, str, str, str | None, str], int]


if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class LimitsContract(_Mixin):
    """Tests that every limit driver has to pass."""

    #: Whether the driver has limits of users.
    knows_users = True

    def given(
        self, registered: Registered, limits: Set, user_limits: SetForUsers
    ) -> tuple[LimitDriver, Context]:
        """Return a driver that reads exactly these limits, and a context to call it with.

        Called once in each test. All services, regions, domains and projects exist.
        """
        raise NotImplementedError

    def _ask(
        self, registered: Registered, limits: Set, nodes: list[str], *,
        service_id: str = SERVICE, region_id: str | None = REGION,
    ) -> EffectiveLimits:
        driver, ctx = self.given(registered, limits, {})
        found = driver.effective(ctx, nodes, service_id=service_id, region_id=region_id)
        again = driver.effective(ctx, nodes, service_id=service_id, region_id=region_id)
        self.assertEqual(_plain(found), _plain(again))
        # The service passes all nodes of its trees, as the keys of a mapping.
        many = driver.effective_of_many(
            ctx, dict.fromkeys(nodes), service_id=service_id, region_id=region_id)
        self.assertEqual(_plain(found), _plain(EffectiveLimits(many.defaults, {
            node: limits for node, limits in many.overrides.items() if node in nodes})))
        return found

    def _overrides(self, found: EffectiveLimits) -> dict[str, dict[str, Amount]]:
        return {node: dict(limits) for node, limits in found.overrides.items() if limits}

    def test_version(self) -> None:
        """The class of the driver has its own ``api_version``, which is the present one."""
        driver, _ = self.given({}, {}, {})
        self.assertIsNone(loader.find_mismatch("the driver", type(driver), LimitDriver))

    def test_nothing_is_registered(self) -> None:
        """Without registered limits, defaults and overrides are empty."""
        found = self._ask({}, {}, [PROJECT])
        self.assertEqual(({}, {}), (dict(found.defaults), self._overrides(found)))

    def test_defaults(self) -> None:
        """Without limits of nodes, the answer has the defaults only."""
        found = self._ask(
            {(SERVICE, REGION, "servers"): 10, (SERVICE, REGION, "class:VCPU"): 20}, {}, [PROJECT])
        self.assertEqual({"servers": 10, "class:VCPU": 20}, dict(found.defaults))
        self.assertEqual({}, self._overrides(found))

    def test_overrides(self) -> None:
        """The answer has the limits of nodes beside the defaults."""
        found = self._ask(
            {(SERVICE, REGION, "servers"): 10, (SERVICE, REGION, "cores"): 20},
            {(PROJECT, SERVICE, REGION, "cores"): 5}, [PROJECT])
        self.assertEqual({"servers": 10, "cores": 20}, dict(found.defaults))
        self.assertEqual({PROJECT: {"cores": 5}}, self._overrides(found))

    def test_a_lineage(self) -> None:
        """The answer has the limits of all requested nodes, and of no others."""
        found = self._ask(
            {(SERVICE, REGION, "cores"): 20},
            {(DOMAIN, SERVICE, REGION, "cores"): 100, (PROJECT, SERVICE, REGION, "cores"): 20,
             (CHILD, SERVICE, REGION, "cores"): 7, (OTHER_PROJECT, SERVICE, REGION, "cores"): 1},
            [DOMAIN, PROJECT, CHILD])
        self.assertEqual(
            {DOMAIN: {"cores": 100}, PROJECT: {"cores": 20}, CHILD: {"cores": 7}},
            self._overrides(found))

    def test_no_nodes(self) -> None:
        """Without nodes, the answer has the defaults only."""
        found = self._ask({(SERVICE, REGION, "cores"): 20},
                          {(PROJECT, SERVICE, REGION, "cores"): 5}, [])
        self.assertEqual(({"cores": 20}, {}), (dict(found.defaults), self._overrides(found)))

    def test_unknown_nodes(self) -> None:
        """Unknown nodes have no limits."""
        found = self._ask({(SERVICE, REGION, "cores"): 20},
                          {(PROJECT, SERVICE, REGION, "cores"): 5}, ["ee" * 16, PROJECT])
        self.assertEqual({PROJECT: {"cores": 5}}, self._overrides(found))

    def test_unknown_service(self) -> None:
        """A service without registered limits has no defaults."""
        found = self._ask({(SERVICE, REGION, "cores"): 20}, {}, [PROJECT],
                          service_id=OTHER_SERVICE)
        self.assertEqual({}, dict(found.defaults))

    def test_another_service(self) -> None:
        """The answer has no limits of other services in the region."""
        found = self._ask(
            {(SERVICE, REGION, "cores"): 20, (OTHER_SERVICE, REGION, "cores"): 30,
             (OTHER_SERVICE, REGION, "images"): 3},
            {(PROJECT, OTHER_SERVICE, REGION, "cores"): 5}, [PROJECT])
        self.assertEqual(({"cores": 20}, {}), (dict(found.defaults), self._overrides(found)))

    _REGIONS: Registered = {
        (SERVICE, REGION, "cores"): 20, (SERVICE, OTHER_REGION, "cores"): 30,
        (SERVICE, OTHER_REGION, "disks"): 3, (SERVICE, None, "cores"): 40,
        (SERVICE, None, "servers"): 4}
    _REGIONS_SET: Set = {
        (PROJECT, SERVICE, REGION, "cores"): 2, (PROJECT, SERVICE, OTHER_REGION, "cores"): 3,
        (PROJECT, SERVICE, None, "cores"): 4}

    def test_a_region(self) -> None:
        """The answer has the limits of the region only, not those without a region."""
        found = self._ask(self._REGIONS, self._REGIONS_SET, [PROJECT])
        self.assertEqual(({"cores": 20}, {PROJECT: {"cores": 2}}),
                         (dict(found.defaults), self._overrides(found)))

    def test_no_region(self) -> None:
        """The region None selects limits without a region, not those of any region."""
        found = self._ask(self._REGIONS, self._REGIONS_SET, [PROJECT], region_id=None)
        self.assertEqual(({"cores": 40, "servers": 4}, {PROJECT: {"cores": 4}}),
                         (dict(found.defaults), self._overrides(found)))

    def test_unlimited_and_zero(self) -> None:
        """-1 is unlimited and 0 allows nothing, as a default and as a limit."""
        found = self._ask(
            {(SERVICE, REGION, "free"): -1, (SERVICE, REGION, "closed"): 0},
            {(PROJECT, SERVICE, REGION, "free"): 0, (PROJECT, SERVICE, REGION, "closed"): -1},
            [PROJECT])
        self.assertEqual({"free": UNLIMITED, "closed": 0}, dict(found.defaults))
        self.assertEqual({PROJECT: {"free": 0, "closed": UNLIMITED}}, self._overrides(found))
        self.assertEqual(False, amounts.is_over(found.defaults["free"], 10**9, 1))
        self.assertEqual(True, amounts.is_over(found.defaults["closed"], 0, 1))

    def test_names_are_told_to_the_letter(self) -> None:
        """Names of resources are case-sensitive."""
        found = self._ask(
            {(SERVICE, REGION, "cores"): 1, (SERVICE, REGION, "Cores"): 2},
            {(PROJECT, SERVICE, REGION, "Cores"): 3}, [PROJECT])
        self.assertEqual({"cores": 1, "Cores": 2}, dict(found.defaults))
        self.assertEqual({PROJECT: {"Cores": 3}}, self._overrides(found))

    def test_registered_names(self) -> None:
        """``registered`` returns all registered limits, or None if the driver cannot list them."""
        given: Registered = {
            **self._REGIONS, (OTHER_SERVICE, None, "images"): 3}
        driver, ctx = self.given(given, {}, {})
        found = driver.registered(ctx)
        if found is not None:
            self.assertEqual(set(given), {
                (each.service_id, each.region_id, each.resource_name) for each in found})

    # Users -------------------------------------------------------------------

    def test_user_limits(self) -> None:
        """The limits of a user are those of the project, service and region."""
        mine: SetForUsers = {
            (PROJECT, USER, SERVICE, REGION, "servers"): 2,
            (PROJECT, USER, SERVICE, REGION, "cores"): -1}
        others: SetForUsers = {
            (PROJECT, OTHER_USER, SERVICE, REGION, "servers"): 3,
            (OTHER_PROJECT, USER, SERVICE, REGION, "servers"): 4,
            (PROJECT, USER, SERVICE, None, "servers"): 5}
        driver, ctx = self.given(
            {(SERVICE, REGION, "servers"): 10, (SERVICE, REGION, "cores"): 20,
             (SERVICE, None, "servers"): 10},
            {(PROJECT, SERVICE, REGION, "servers"): 9},
            {**mine, **others} if self.knows_users else {})
        found = dict(driver.user_limits(
            ctx, PROJECT, USER, service_id=SERVICE, region_id=REGION))
        self.assertEqual({"servers": 2, "cores": UNLIMITED} if self.knows_users else {}, found)
        for project_id, user_id in ((CHILD, USER), (PROJECT, "ee" * 16)):
            self.assertEqual({}, dict(driver.user_limits(
                ctx, project_id, user_id, service_id=SERVICE, region_id=REGION)))
        # A driver that cannot list them returns none.
        listed = driver.list_user_limits(ctx, service_id=SERVICE, region_id=REGION)
        if listed:
            self.assertEqual(
                {(PROJECT, USER): {"servers": 2, "cores": UNLIMITED},
                 (PROJECT, OTHER_USER): {"servers": 3}, (OTHER_PROJECT, USER): {"servers": 4}},
                {owner: dict(limits) for owner, limits in listed.items()})


def _plain(found: EffectiveLimits) -> tuple[dict[str, Amount], dict[str, dict[str, Amount]]]:
    return dict(found.defaults), {
        node: dict(limits) for node, limits in found.overrides.items() if limits}
