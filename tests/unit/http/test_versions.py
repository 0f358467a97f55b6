"""Which microversion a request asks for."""

from __future__ import annotations

from placement_core.http.errors import HTTPError
from placement_core.http.versions import Versions, format_version
from tests import base

VERSIONS = Versions("placement", lowest=(1, 0), newest=(1, 39), default=(1, 0))


def requested(header: str) -> tuple[int, int]:
    return VERSIONS.get_requested({"HTTP_OPENSTACK_API_VERSION": header})


class TestRequested(base.TestCase):
    def test_versions(self) -> None:
        for header, version in (
            ("placement 1.10", (1, 10)), ("placement 1.0", (1, 0)),
            ("placement latest", (1, 39)), ("compute 2.1", (1, 0)),
            ("compute 2.1, placement 1.9", (1, 9)),
        ):
            self.assertEqual(version, requested(header), header)

    def test_without_a_header(self) -> None:
        self.assertEqual((1, 0), VERSIONS.get_requested({}))

    def test_malformed(self) -> None:
        for header in ("placement 1", "placement 1.x", "placement 1.1.1", "placement 1.٣"):
            self.assertEqual(400, self.assertRaises(HTTPError, requested, header).status, header)

    def test_not_offered(self) -> None:
        for header in ("placement 1.40", "placement 2.0", "placement 0.9"):
            error = self.assertRaises(HTTPError, requested, header)
            self.assertEqual(406, error.status, header)
            self.assertEqual(
                {"max_version": "1.39", "min_version": "1.0"}, dict(error.members), header)

    def test_format(self) -> None:
        self.assertEqual("1.39", format_version((1, 39)))
