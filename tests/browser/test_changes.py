"""A page that somebody looks at shows what others do."""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

from placement_core import services
from placement_core.placement.records import AllocationWrite
from placement_core.testing import factories
from tests.browser import cases, clouds

#: From a claim until each page shows it.
_SECONDS = 6


class TestChanges(cases.BrowserTestCase):
    dashboard: ClassVar[clouds.Dashboard]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.dashboard = clouds.Dashboard(cls._fill)
        cls.dashboard.setUp()
        cls.addClassCleanup(cls.dashboard.cleanUp)

    @classmethod
    def _fill(cls, parts: services.Services) -> None:
        cls.host = factories.provider(parts.context(), "host1", inventory={"VCPU": 1000})

    def test_a_claim_made_elsewhere(self) -> None:
        """It is there within six seconds, and what was typed meanwhile stays."""
        page = self.make_page()
        page.goto(self.dashboard.url)
        page.get_by_label("How many").fill("12")
        self.assertNotIn("737", page.inner_text("#room"))
        self._claim(737)
        began = time.monotonic()
        page.locator("#room").filter(has_text="737").wait_for()
        self.assertLess(time.monotonic() - began, _SECONDS)
        self.assertEqual("12", page.get_by_label("How many").input_value())

    def test_nothing_changed(self) -> None:
        """Then the server sends no page again, but for its time, every half minute."""
        page = self.make_page()
        page.goto(self.dashboard.url)
        statuses = []
        page.on("response", lambda response: statuses.append(response.status))
        deadline = time.monotonic() + 40
        while statuses.count(304) < 2 and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        self.assertEqual({200, 304}, set(statuses))

    def _claim(self, vcpus: int) -> None:
        self.dashboard.parts.claims.replace(self.dashboard.parts.context(), [AllocationWrite(
            str(uuid.uuid4()), {self.host.uuid: {"VCPU": vcpus}}, project_id="demo",
            user_id="jane", consumer_type="INSTANCE")])
