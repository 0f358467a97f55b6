"""Tests with a browser, which is shared by the tests of a class."""

from __future__ import annotations

import unittest
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api

from tests import base
from tests.browser import chromium, clouds

#: Windows in CSS pixels: at a desk, and at 400 % there (WCAG 1.4.10), which is a phone's width.
WIDE, NARROW = {"width": 1280, "height": 1024}, {"width": 320, "height": 256}
#: How often anything is waited for, at most.
_MILLISECONDS = 20_000
#: Tells this process of each violation of the Content Security Policy, reported or not.
_LISTEN_TO_POLICY = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
    `CSP: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""


@unittest.skipIf(chromium.find_missing() is not None, f"needs {chromium.find_missing()}")
class BrowserTestCase(base.TestCase):
    """A test that looks at pages.

    :cvar browser: has no pages when a test begins.
    :cvar browser_arguments: what it is started with, beside the usual.
    """

    browser_arguments: ClassVar[Sequence[str]] = ()
    browser: sync_api.Browser

    @classmethod
    def setUpClass(cls) -> None:
        """Start the browser."""
        super().setUpClass()
        fixture = chromium.Chromium(cls.browser_arguments)
        fixture.setUp()
        cls.addClassCleanup(fixture.cleanUp)
        cls.browser = fixture.browser

    def setUp(self) -> None:
        super().setUp()
        self._reports: list[str] = []
        self.addCleanup(lambda: self.assertEqual([], self._reports))

    def make_page(self, **options: Any) -> sync_api.Page:
        """Return an empty page of a browser that has never been anywhere.

        When the test ends, nothing may have been reported on its console, and no violation of
        a policy.

        :param options: of Playwright's ``new_context``.
        """
        context = self.browser.new_context(**{"viewport": WIDE, **options})
        self.addCleanup(context.close)
        context.set_default_timeout(_MILLISECONDS)
        context.add_init_script(_LISTEN_TO_POLICY)
        page = context.new_page()
        page.on("console", lambda message: self._reports.append(message.text)
                if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._reports.append(str(error)))
        return page

    def forgive_reports(self, text: str) -> list[str]:
        """Take those with a text from what the console of the pages has; return them."""
        expected = [report for report in self._reports if text in report]
        self._reports[:] = [report for report in self._reports if text not in report]
        return expected

    def assert_accessible(
        self, page: sync_api.Page, message: object = None, *, category: str | None = None
    ) -> None:
        """Expect that axe finds nothing wrong.

        :param category: of the rules that are tried, such as ``color``; None: all.
        """
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if category is not None:
            options["runOnly"] = {"type": "tag", "values": [f"cat.{category}"]}
        violations = Axe().run(page, options=options).response["violations"]
        self.assertEqual([], [_describe(violation) for violation in violations], message)

    def assert_fits(self, page: sync_api.Page, message: object = None) -> None:
        """Expect that nobody has to scroll sideways."""
        self.assertEqual(
            [], page.evaluate(_FIND_TOO_WIDE), message)


class DemoTestCase(BrowserTestCase):
    """A test of the pages of the demo cloud, read by its administrator.

    :cvar questions: what is behind the dashboard's URL for pages that answer a question.
    :cvar dashboard: serves the cloud.
    :cvar urls: {route: the URL of a page of it}.
    :cvar urls_of_all: those, and {question: its URL}.
    """

    questions: ClassVar[Collection[str]] = ()
    dashboard: ClassVar[clouds.Dashboard]
    urls: ClassVar[Mapping[str, str]]
    urls_of_all: ClassVar[Mapping[str, str]]

    @classmethod
    def setUpClass(cls) -> None:
        """Serve the cloud, and find a page of each kind."""
        super().setUpClass()
        cls.dashboard = clouds.Dashboard(clouds.fill_with_demo)
        cls.dashboard.setUp()
        cls.addClassCleanup(cls.dashboard.cleanUp)
        page = cls.browser.new_page()
        cls.urls = clouds.crawl(page, cls.dashboard.url)
        page.context.close()
        cls.urls_of_all = {**cls.urls, **{
            question: f"{cls.dashboard.url}{question}" for question in cls.questions}}


#: What sticks out of the window, and is in nothing that scrolls by itself.
_FIND_TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = Array.from(document.body.querySelectorAll("*")).filter(
    (element) => element.getBoundingClientRect().right > width + 0.5
      && !element.closest(".scroll"));
  return ["page", ...wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120))];
}"""


def _describe(violation: Mapping[str, Any]) -> str:
    nodes = "; ".join(
        f"{node['html'][:160]} ({' '.join(node['failureSummary'].split())[:200]})"
        for node in violation["nodes"][:3])
    return f"{violation['id']} ×{len(violation['nodes'])}: {nodes}"
