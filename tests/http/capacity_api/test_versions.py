"""GET /capacity/v1: how clients discover the API."""

from __future__ import annotations

from tests.http.placement_api.cases import PlacementTestCase


class TestVersions(PlacementTestCase):
    """One version, and no token needed."""

    def test_document(self) -> None:
        """It is what keystoneauth reads of a single version."""
        response = self.ask("GET", "/capacity/v1", version=None, token=None)
        self.assertEqual(200, response.status_int)
        version = response.json["version"]
        self.assertEqual(("v1.0", "CURRENT"), (version["id"], version["status"]))
        self.assertEqual([{"rel": "self", "href": "/capacity/v1"}], version["links"])
        self.assertEqual(404, self.ask("GET", "/capacity/v2", version=None).status_int)

    def test_everything_else_needs_a_token(self) -> None:
        """Only the document is public."""
        for path in ("/capacity/v1/quota", "/capacity/v1/quota/x"):
            response = self.ask("GET", path, version=None, token=None)
            self.assertEqual(401, response.status_int, path)
