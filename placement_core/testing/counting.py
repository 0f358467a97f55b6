"""The contract of counting drivers, as tests for their authors.

Write ``class TestX(CountingContract, unittest.TestCase)`` with ``given``. The ids of projects,
users and instances are used nowhere else.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import unittest
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from placement_core.context import Context
from placement_core.plugin_api import loader
from placement_core.plugin_api.counting import INSTANCES, Count, CountingDriver

PROJECT = "a0" * 16
OTHER_PROJECT = "a1" * 16
#: A project without usage in most tests.
IDLE_PROJECT = "a2" * 16
USER = "e0" * 16
OTHER_USER = "e1" * 16


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """An instance that is mapped to its cell, exists there, and has an allocation.

    :ivar amounts: {resource class: amount}, with all classes that are counted.
    """

    uuid: str
    project_id: str
    user_id: str
    amounts: Mapping[str, int]


def running(
    number: int, project_id: str, user_id: str, amounts: Mapping[str, int]
) -> Running:
    """Return an instance; the number determines the uuid."""
    return Running(f"00000000-0000-4000-8000-{number:012x}", project_id, user_id, amounts)


if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class CountingContract(_Mixin):
    """Tests that every counting driver has to pass.

    :cvar classes: the resource classes that the driver counts; at least one.
    :cvar counts_instances: whether the driver counts ``INSTANCES``, too.
    """

    classes: Sequence[str] = ("VCPU", "MEMORY_MB")
    counts_instances = True

    def given(self, instances: Sequence[Running]) -> tuple[CountingDriver, Context]:
        """Return a driver that counts exactly these instances, and a context to call it with.

        Called once in each test.
        """
        raise NotImplementedError

    # Helpers ------------------------------------------------------------------

    def _amounts(self, factor: int) -> dict[str, int]:
        return {name: factor * (place + 1) for place, name in enumerate(self.classes)}

    @property
    def _units(self) -> set[str]:
        return {*self.classes, *([INSTANCES] if self.counts_instances else [])}

    def _world(self) -> list[Running]:
        """Return instances of two users in a project, and of one of them in another project."""
        return [
            running(1, PROJECT, USER, self._amounts(1)),
            running(2, PROJECT, USER, self._amounts(2)),
            running(3, PROJECT, OTHER_USER, self._amounts(4)),
            running(4, OTHER_PROJECT, USER, self._amounts(8)),
        ]

    def _sum(self, *instances: Running) -> dict[str, int]:
        total = {name: sum(instance.amounts[name] for instance in instances)
                 for name in self.classes}
        if self.counts_instances:
            total[INSTANCES] = len(instances)
        return {unit: amount for unit, amount in total.items() if amount}

    def _told(self, count: Count) -> dict[str, dict[str, int]]:
        """Return the counted amounts without zeros; check the other fields of the answer."""
        self.assertTrue(count.source)
        self.assertEqual([], list(count.missing_cells))
        self.assertTrue(all(seconds >= 0 for seconds in count.seconds.values()))
        amounts_of = {project_id: _some(amounts) for project_id, amounts in count.projects.items()}
        return {project_id: amounts for project_id, amounts in amounts_of.items() if amounts}

    def _ask(
        self, instances: Sequence[Running], project_ids: Collection[str], *,
        units: Collection[str] | None = None, user_id: str | None = None,
        without: Collection[str] = (),
    ) -> Count:
        driver, ctx = self.given(instances)
        return driver.count(
            ctx, project_ids, units=self._units if units is None else units, user_id=user_id,
            without=without)

    # Attributes --------------------------------------------------------------

    def test_version(self) -> None:
        """The class of the driver has its own ``api_version``, which is the present one."""
        driver, _ = self.given([])
        self.assertIsNone(loader.find_mismatch("the driver", type(driver), CountingDriver))

    # Projects -----------------------------------------------------------------

    def test_it_says_what_it_counts(self) -> None:
        """``units`` has the units of the suite; ``folded`` maps units outside it into it."""
        driver, _ = self.given([])
        if driver.units is None:
            self.assertEqual({}, dict(driver.folded))
            return
        self.assertLessEqual(self._units, set(driver.units))
        self.assertLessEqual(set(driver.folded.values()), set(driver.units))
        self.assertTrue(set(driver.folded).isdisjoint(driver.units))

    def test_nothing_is_used(self) -> None:
        """A project without instances has no usage."""
        self.assertEqual({}, self._told(self._ask([], [PROJECT])))

    def test_no_project(self) -> None:
        """A count of no projects is empty."""
        self.assertEqual({}, self._told(self._ask(self._world(), [])))

    def test_one_project(self) -> None:
        """The usage of a project is that of all its users, without other projects."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT])
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertIsNone(count.user)

    def test_some_projects(self) -> None:
        """A count of several projects has the usage of each, and of no others."""
        one, two, three, four = world = self._world()
        elsewhere = running(5, IDLE_PROJECT, USER, self._amounts(16))
        self.assertEqual(
            {PROJECT: self._sum(one, two, three), OTHER_PROJECT: self._sum(four)},
            self._told(self._ask([*world, elsewhere], [PROJECT, OTHER_PROJECT])))

    def test_all_projects(self) -> None:
        """A count of all projects has only those with usage."""
        one, two, three, four = world = self._world()
        driver, ctx = self.given(world)
        count = driver.count_all(ctx, units=self._units)
        self.assertEqual(
            {PROJECT: self._sum(one, two, three), OTHER_PROJECT: self._sum(four)},
            self._told(count))
        self.assertEqual({PROJECT, OTHER_PROJECT}, set(count.projects))
        self.assertIsNone(count.user)

    def test_only_units_that_were_asked_for(self) -> None:
        """The answer has no other units than those requested."""
        unit = INSTANCES if self.counts_instances else self.classes[-1]
        count = self._ask(self._world(), [OTHER_PROJECT], units={unit}, user_id=USER)
        assert count.user is not None
        self.assertEqual({unit}, set(count.projects[OTHER_PROJECT]))
        self.assertEqual({unit}, set(count.user))

    def test_any_text(self) -> None:
        """Ids may be any text; unknown ids have no usage."""
        one, two, three, _ = world = self._world()
        driver, ctx = self.given(world)
        for text in ("nobody", "", "\u2603" * 100, "x\0y", "\ud800", "x" * 1000, "' OR 1=1 --"):
            count = driver.count(ctx, [text], units=self._units)
            self.assertEqual({}, self._told(count), repr(text))
            count = driver.count(
                ctx, [PROJECT], units=self._units, user_id=text, without=[text])
            self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
            self.assertEqual({}, _some(count.user), repr(text))
            if driver.counts_members:
                self.assertEqual(0, driver.server_group_members(ctx, [text], text).members)

    # Users --------------------------------------------------------------------

    def test_a_user(self) -> None:
        """The usage of a user is that in the project, without other projects."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT], user_id=USER)
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertEqual(self._sum(one, two), _some(count.user))

    def test_a_user_without_anything(self) -> None:
        """The answer about a user without usage is empty, not None."""
        driver, ctx = self.given(self._world())
        for user_id in (OTHER_USER, "nobody"):
            count = driver.count(ctx, [OTHER_PROJECT], units=self._units, user_id=user_id)
            self.assertIsNotNone(count.user)
            self.assertEqual({}, _some(count.user))

    def test_several_users(self) -> None:
        """The usage of each user is that in the project, together as alone."""
        one, two, three, four = self._world()
        driver, ctx = self.given([one, two, three, four])
        owners = [(PROJECT, USER), (PROJECT, OTHER_USER), (OTHER_PROJECT, USER),
                  (OTHER_PROJECT, OTHER_USER), ("x\0y", USER), (PROJECT, "\ud800")]
        # Callers pass the keys of what is set for users.
        count = driver.count_users(ctx, dict.fromkeys(owners).keys(), units=self._units)
        amounts_of = {owner: _some(amounts) for owner, amounts in count.users.items()}
        self.assertEqual(
            {(PROJECT, USER): self._sum(one, two), (PROJECT, OTHER_USER): self._sum(three),
             (OTHER_PROJECT, USER): self._sum(four)},
            {owner: amounts for owner, amounts in amounts_of.items() if amounts})
        self.assertEqual([], list(count.missing_cells))
        self.assertTrue(count.source)
        for of_user in count.users.values():
            self.assertLessEqual(set(of_user), self._units)
        self.assertEqual(
            {}, dict(driver.count_users(ctx, {}.keys(), units=self._units).users))

    # Without ------------------------------------------------------------------

    def test_without(self) -> None:
        """Instances in ``without`` count neither for the project nor for the user."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT], user_id=USER, without=[two.uuid, three.uuid])
        self.assertEqual({PROJECT: self._sum(one)}, self._told(count))
        self.assertEqual(self._sum(one), _some(count.user))

    def test_without_what_does_not_count_anyway(self) -> None:
        """Instances of other projects and unknown ones in ``without`` have no effect."""
        one, two, three, four = world = self._world()
        count = self._ask(
            world, [PROJECT], user_id=USER,
            without=[four.uuid, running(99, PROJECT, USER, {}).uuid])
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertEqual(self._sum(one, two), _some(count.user))

    def test_without_all(self) -> None:
        """With all instances in ``without``, nothing is used."""
        world = self._world()
        count = self._ask(
            world, [PROJECT], user_id=USER, without=[each.uuid for each in world])
        self.assertEqual({}, self._told(count))
        self.assertEqual({}, _some(count.user))

    # Server groups ------------------------------------------------------------

    def test_server_group_members(self) -> None:
        """Members that belong to the user count once each, in all projects.

        A driver that cannot count them says so, and is not asked.
        """
        one, two, three, four = world = self._world()
        driver, ctx = self.given(world)
        if not driver.counts_members:
            return
        gone = running(99, PROJECT, USER, {}).uuid
        for uuids, expected in (
            ([one.uuid, three.uuid, four.uuid, gone], 2), ([three.uuid], 0), ([gone], 0),
            ([], 0), ([one.uuid, one.uuid, two.uuid], 2),
        ):
            count = driver.server_group_members(ctx, uuids, USER)
            self.assertEqual(expected, count.members, uuids)
            self.assertEqual([], list(count.missing_cells))
            self.assertTrue(count.source)

    # Repeated and concurrent counts -------------------------------------------

    def test_asked_again(self) -> None:
        """Repeated counts return the same, also after ``forget``."""
        one, two, three, _ = world = self._world()
        driver, ctx = self.given(world)
        expected = {PROJECT: self._sum(one, two, three)}
        for _ in range(2):
            for user_id in (None, USER):
                self.assertEqual(expected, self._told(
                    driver.count(ctx, [PROJECT], units=self._units, user_id=user_id)))
            driver.forget()

    def test_asked_by_many_threads(self) -> None:
        """Concurrent counts, each with its own context, return complete answers."""
        one, two, three, four = world = self._world()
        driver, ctx = self.given(world)
        expected = {PROJECT: self._sum(one, two, three), OTHER_PROJECT: self._sum(four)}

        def ask(number: int) -> Count:
            own = Context(ctx.database, ctx.identity)
            if number % 2:
                return driver.count_all(own, units=self._units)
            return driver.count(own, [PROJECT, OTHER_PROJECT], units=self._units)

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for count in threads.map(ask, range(16)):
                self.assertEqual(expected, self._told(count))


def _some(amounts: Mapping[str, int] | None) -> dict[str, int]:
    """Return the amounts that are not 0."""
    return {unit: amount for unit, amount in (amounts or {}).items() if amount}
