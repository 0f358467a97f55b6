"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import fixtures
from playwright import sync_api

#: Names a Chromium or Chrome other than the one that PATH has.
VARIABLE = "PLACEMENT_TEST_CHROMIUM"
_PROGRAM = os.environ.get(VARIABLE) or shutil.which("chromium")


def find_missing() -> str | None:
    """Say what is not there that these tests need; None: nothing."""
    return None if _PROGRAM else f"Chromium (Debian: chromium, or set {VARIABLE})"


class Chromium(fixtures.Fixture):
    """A running browser.

    Playwright's event loop runs in the calling thread until the fixture is cleaned up, which
    must be before somebody else uses ``asyncio`` there: at the end of a class of tests.

    :ivar browser: makes contexts, each with cookies and a cache of its own.
    """

    browser: sync_api.Browser

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        """Prepare it.

        :param arguments: of the program, beside Playwright's.
        """
        self._arguments = arguments

    def _setUp(self) -> None:
        assert _PROGRAM is not None, find_missing()
        driver = sync_api.sync_playwright().start()
        self.addCleanup(driver.stop)
        self.browser = driver.chromium.launch(
            executable_path=_PROGRAM, args=self._arguments,
            # Root has no sandbox, and the only pages are ours.
            chromium_sandbox=os.geteuid() != 0)
        self.addCleanup(self.browser.close)
