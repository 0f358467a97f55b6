"""The same stories told to a real Keystone and to us: the same answers.

Where we mean to answer otherwise, ``keystone_differences`` says so, step by step.
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping

from tests import base, keystone_service
from tests.conformance import keystone_differences, keystone_sides, keystone_stories
from tests.conformance.keystone_sides import Story


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestConformance(base.TestCase):
    model = "flat"

    def assert_alike(self, story: Story) -> None:
        """Tell a story to both sides; only what is listed may differ, and does."""
        keystone = keystone_service.shared(
            "" if self.model == "flat"
            else f"\n[unified_limit]\nenforcement_model = {self.model}\n")
        theirs, ours = keystone_sides.tell(
            story, keystone_sides.KeystoneSide(keystone), keystone_sides.OurSide(self.model))
        listed: Mapping[str, str] = keystone_differences.OF.get(story.__name__, {})
        unexpected = []
        for step in theirs.keys() | ours.keys():
            if step not in theirs or step not in ours:
                found = ["asked of one side only"]
            else:
                found = keystone_sides.differ(theirs[step], ours[step])
            if found and step not in listed:
                unexpected.append(f"{step}: {'; '.join(found)}")
            if not found and step in listed:
                unexpected.append(f"{step}: no difference any more ({listed[step]})")
        unexpected += [f"{step}: no such step" for step in listed.keys() - theirs.keys()]
        if unexpected:
            self.fail("Keystone | ours\n" + "\n".join(sorted(unexpected)))


class TestFlat(TestConformance):
    """The model that every Keystone begins with."""

    def test_registered_limits(self) -> None:
        self.assert_alike(keystone_stories.registered_limits)

    def test_registered_values(self) -> None:
        self.assert_alike(keystone_stories.registered_values)

    def test_limits(self) -> None:
        self.assert_alike(keystone_stories.limits)

    def test_limit_values(self) -> None:
        self.assert_alike(keystone_stories.limit_values)

    def test_bodies(self) -> None:
        self.assert_alike(keystone_stories.bodies)

    def test_methods(self) -> None:
        self.assert_alike(keystone_stories.methods)

    def test_callers(self) -> None:
        self.assert_alike(keystone_stories.callers)

    def test_pages(self) -> None:
        self.assert_alike(keystone_stories.pages)

    def test_model(self) -> None:
        self.assert_alike(keystone_stories.model)

    def test_tree(self) -> None:
        self.assert_alike(keystone_stories.flat_tree)

    def test_deletions(self) -> None:
        self.assert_alike(keystone_stories.deletions)

    def test_catalog(self) -> None:
        self.assert_alike(keystone_stories.catalog)


class TestStrictTwoLevel(TestConformance):
    """The model of a domain and its projects."""

    model = "strict_two_level"

    def test_model(self) -> None:
        self.assert_alike(keystone_stories.strict_model)

    def test_tree(self) -> None:
        self.assert_alike(keystone_stories.strict_tree)
