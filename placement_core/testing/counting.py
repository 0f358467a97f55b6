"""What every counting driver has to do: a suite for its author to run.

``class TestX(CountingContract, testtools.TestCase)`` with ``given`` written for the
driver. Names of projects and users, and uuids of instances in here exist nowhere else.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import unittest
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from placement_core.context import Context
from placement_core.plugin_api.counting import INSTANCES, Count, CountingDriver

PROJECT = "a0" * 16
OTHER_PROJECT = "a1" * 16
#: A project that never has anything.
IDLE_PROJECT = "a2" * 16
USER = "e0" * 16
OTHER_USER = "e1" * 16


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """An instance that runs: it is mapped to its cell, is in it, and has its allocation.

    :ivar amounts: {resource class: amount}; every instance has some of each class that
        is counted.
    """

    uuid: str
    project_id: str
    user_id: str
    amounts: Mapping[str, int]


def running(
    number: int, project_id: str, user_id: str, amounts: Mapping[str, int]
) -> Running:
    """Return an instance; the same number is the same uuid."""
    return Running(f"00000000-0000-4000-8000-{number:012x}", project_id, user_id, amounts)


if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class CountingContract(_Mixin):
    """The questions a counting driver is asked, and what is right to answer.

    :cvar classes: the resource classes that the driver counts; at least one.
    :cvar counts_instances: whether it counts ``INSTANCES``, too.
    :cvar counts_members: whether it counts members of server groups; one that does not
        answers 0.
    """

    classes: Sequence[str] = ("VCPU", "MEMORY_MB")
    counts_instances = True
    counts_members = True

    def given(self, instances: Sequence[Running]) -> tuple[CountingDriver, Context]:
        """Return a driver that finds just these instances, and a context to ask it in.

        Called once in a test.
        """
        raise NotImplementedError

    # What there is ------------------------------------------------------------

    def _amounts(self, factor: int) -> dict[str, int]:
        return {name: factor * (place + 1) for place, name in enumerate(self.classes)}

    @property
    def _units(self) -> list[str]:
        return [*self.classes, *([INSTANCES] if self.counts_instances else [])]

    def _world(self) -> list[Running]:
        """Two users in one project, one of them in another, too."""
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
        """Return what was counted, without what is nothing."""
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

    # Projects -----------------------------------------------------------------

    def test_it_says_what_it_counts(self) -> None:
        """``units`` has what the suite asks for; what is folded goes into one of them."""
        driver, _ = self.given([])
        if driver.units is None:
            self.assertEqual({}, dict(driver.folded))
            return
        self.assertLessEqual(set(self._units), set(driver.units))
        self.assertLessEqual(set(driver.folded.values()), set(driver.units))
        self.assertTrue(set(driver.folded).isdisjoint(driver.units))

    def test_nothing_is_used(self) -> None:
        """Nothing is an answer."""
        self.assertEqual({}, self._told(self._ask([], [PROJECT])))

    def test_no_project(self) -> None:
        """So it is when nobody is asked about."""
        self.assertEqual({}, self._told(self._ask(self._world(), [])))

    def test_one_project(self) -> None:
        """All that its users have counts; what others have does not."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT])
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertIsNone(count.user)

    def test_some_projects(self) -> None:
        """Several are told apart; those that were not asked about are not told."""
        one, two, three, four = world = self._world()
        elsewhere = running(5, IDLE_PROJECT, USER, self._amounts(16))
        self.assertEqual(
            {PROJECT: self._sum(one, two, three), OTHER_PROJECT: self._sum(four)},
            self._told(self._ask([*world, elsewhere], [PROJECT, OTHER_PROJECT])))

    def test_all_projects(self) -> None:
        """Who uses nothing is left out."""
        one, two, three, four = world = self._world()
        driver, ctx = self.given(world)
        count = driver.count_all(ctx, units=self._units)
        self.assertEqual(
            {PROJECT: self._sum(one, two, three), OTHER_PROJECT: self._sum(four)},
            self._told(count))
        self.assertEqual({PROJECT, OTHER_PROJECT}, set(count.projects))
        self.assertIsNone(count.user)

    def test_only_units_that_were_asked_for(self) -> None:
        """Others are not told."""
        unit = self._units[-1]
        count = self._ask(self._world(), [OTHER_PROJECT], units=[unit], user_id=USER)
        assert count.user is not None
        self.assertEqual({unit}, set(count.projects[OTHER_PROJECT]))
        self.assertEqual({unit}, set(count.user))

    def test_any_text(self) -> None:
        """What nobody has heard of has nothing; any text may stand for it."""
        one, two, three, _ = world = self._world()
        driver, ctx = self.given(world)
        for text in ("nobody", "", "\u2603" * 100, "x\0y", "\ud800", "x" * 1000, "' OR 1=1 --"):
            count = driver.count(ctx, [text], units=self._units)
            self.assertEqual({}, self._told(count), repr(text))
            count = driver.count(
                ctx, [PROJECT], units=self._units, user_id=text, without=[text])
            self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
            self.assertEqual({}, _some(count.user), repr(text))
            self.assertEqual(0, driver.server_group_members(ctx, [text], text).members)

    # Users --------------------------------------------------------------------

    def test_a_user(self) -> None:
        """What a user has in the project counts, not what the user has elsewhere."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT], user_id=USER)
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertEqual(self._sum(one, two), _some(count.user))

    def test_a_user_without_anything(self) -> None:
        """There is an answer for who was asked about, and it is nothing."""
        driver, ctx = self.given(self._world())
        for user_id in (OTHER_USER, "nobody"):
            count = driver.count(ctx, [OTHER_PROJECT], units=self._units, user_id=user_id)
            self.assertIsNotNone(count.user)
            self.assertEqual({}, _some(count.user))

    # Without ------------------------------------------------------------------

    def test_without(self) -> None:
        """What shall not count does not, neither for the project nor for the user."""
        one, two, three, _ = world = self._world()
        count = self._ask(world, [PROJECT], user_id=USER, without=[two.uuid, three.uuid])
        self.assertEqual({PROJECT: self._sum(one)}, self._told(count))
        self.assertEqual(self._sum(one), _some(count.user))

    def test_without_what_does_not_count_anyway(self) -> None:
        """Instances of other projects, and unknown ones, change nothing."""
        one, two, three, four = world = self._world()
        count = self._ask(
            world, [PROJECT], user_id=USER,
            without=[four.uuid, running(99, PROJECT, USER, {}).uuid])
        self.assertEqual({PROJECT: self._sum(one, two, three)}, self._told(count))
        self.assertEqual(self._sum(one, two), _some(count.user))

    def test_without_all(self) -> None:
        """Nothing may be left, and never less than that."""
        world = self._world()
        count = self._ask(
            world, [PROJECT], user_id=USER, without=[each.uuid for each in world])
        self.assertEqual({}, self._told(count))
        self.assertEqual({}, _some(count.user))

    # Server groups ------------------------------------------------------------

    def test_server_group_members(self) -> None:
        """A user's instances among the members count, in whatever project they are."""
        one, two, three, four = world = self._world()
        driver, ctx = self.given(world)
        gone = running(99, PROJECT, USER, {}).uuid
        for uuids, expected in (
            ([one.uuid, three.uuid, four.uuid, gone], 2), ([three.uuid], 0), ([gone], 0),
            ([], 0), ([one.uuid, one.uuid, two.uuid], 2),
        ):
            count = driver.server_group_members(ctx, uuids, USER)
            self.assertEqual(expected if self.counts_members else 0, count.members, uuids)
            self.assertEqual([], list(count.missing_cells))
            self.assertTrue(count.source)

    # Being asked ----------------------------------------------------------------

    def test_asked_again(self) -> None:
        """What was kept of earlier answers changes none, and may be forgotten."""
        one, two, three, _ = world = self._world()
        driver, ctx = self.given(world)
        expected = {PROJECT: self._sum(one, two, three)}
        for _ in range(2):
            for user_id in (None, USER):
                self.assertEqual(expected, self._told(
                    driver.count(ctx, [PROJECT], units=self._units, user_id=user_id)))
            driver.forget()

    def test_asked_by_many_threads(self) -> None:
        """Every thread, with a context of its own, is given the whole answer."""
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
    """Return what is not nothing."""
    return {unit: amount for unit, amount in (amounts or {}).items() if amount}
