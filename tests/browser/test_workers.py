"""The tables of workers and of what they refused, in a window and on paper."""

from __future__ import annotations

import urllib.error
import urllib.request

import fixtures

from tests.browser import cases, clouds, test_media, test_pages


class TestWorkers(cases.BrowserTestCase):

    def setUp(self) -> None:
        super().setUp()
        # The test reports when it wants to.
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.workers.reporter._PAUSE_SECONDS", 3600))
        self.dashboard = self.useFixture(clouds.Dashboard(
            clouds.fill_with_demo, {("workers", "report"): True}))

    def refuse(self, path: str, token: str) -> None:
        request = urllib.request.Request(
            f"{self.dashboard.origin}{path}", headers={"X-Auth-Token": token})
        self.assertRaises(urllib.error.HTTPError, urllib.request.urlopen, request)

    def test_tables(self) -> None:
        """All columns show, nobody scrolls sideways, and axe finds nothing."""
        name = "CUSTOM_" + "LONG_" * 40
        self.refuse(f"/allocation_candidates?resources={name}:1", "admin")
        for token in ("joan:elsewhere", f"{'j' * 64}:{'p' * 64}"):
            self.refuse("/resource_providers", token)
        self.assertTrue(self.dashboard.reporters[-1].report())
        page = self.make_page()
        for path, table in (("", "#refusals-caption"), ("/health", "#workers-caption")):
            for viewport in (cases.WIDE, cases.NARROW):
                page.emulate_media(media="screen")
                page.set_viewport_size(viewport)
                page.goto(f"{self.dashboard.url}{path}")
                self.assertTrue(page.locator(table).is_visible(), path)
                self.assert_accessible(page, path)
                self.assert_fits(page, path)
                if viewport is cases.WIDE:
                    self.assertEqual([], page.evaluate(test_pages.FIND_HIDDEN_COLUMNS), path)
            page.set_viewport_size(test_media.PAPER)
            page.emulate_media(media="print")
            self.assertEqual([], page.evaluate(test_media.FIND_CUT), path)
