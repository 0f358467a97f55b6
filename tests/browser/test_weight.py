"""The overview of ten thousand hosts is light.

The bounds are wide: other tests run at the same time. ``python -m tests.browser.weight`` prints
the numbers.
"""

from __future__ import annotations

from tests import serving
from tests.browser import cases, weight


class TestWeight(cases.BrowserTestCase):
    def test_overview(self) -> None:
        connection = weight.make_database()
        service = self.useFixture(serving.Service(connection, options=weight.OPTIONS))
        measured = weight.measure(self.browser, service, connection)
        self.assertLess(measured.kilobytes, 600)
        self.assertLess(measured.paint_ms, 3000, measured)
        self.assertLess(measured.processor_ms, 180, measured)
        self.assertLess(measured.unchanged_ms, 30, measured)
