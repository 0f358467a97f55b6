"""Cross-origin requests: off unless an origin is allowed."""

from tests.http import base
from tests.http.placement_api.pipeline_cases import OPERATIONS, table

_GOOD, _BAD = "https://dashboard.example", "https://elsewhere.example"


class TestOff(base.HttpTestCase):
    apis = table(*OPERATIONS)

    def test_options_is_no_method(self) -> None:
        response = self.ask("OPTIONS", "/things", headers={"Origin": _GOOD})
        self.assertEqual(405, response.status_int)
        self.assertNotIn("Access-Control-Allow-Origin", response.headers)


class TestOn(base.HttpTestCase):
    apis = table(*OPERATIONS)
    options = {("cors", "allowed_origin"): [_GOOD]}

    def test_preflight_comes_before_authentication(self) -> None:
        response = self.ask("OPTIONS", "/things", token=None, version=None, headers={
            "Origin": _GOOD, "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "X-Auth-Token, OpenStack-API-Version"})
        self.assertEqual(200, response.status_int)
        self.assertEqual(_GOOD, response.headers["Access-Control-Allow-Origin"])
        self.assertIn("openstack-api-version",
                      response.headers["Access-Control-Allow-Headers"].lower())
        self.assertIn("x-openstack-request-id", response.headers)

    def test_other_origins(self) -> None:
        response = self.ask("OPTIONS", "/", token=None, headers={
            "Origin": _BAD, "Access-Control-Request-Method": "GET"})
        self.assertEqual(200, response.status_int)
        self.assertNotIn("Access-Control-Allow-Origin", response.headers)

    def test_ordinary_request(self) -> None:
        response = self.ask("GET", "/things", headers={"Origin": _GOOD})
        self.assertEqual(200, response.status_int)
        self.assertEqual(_GOOD, response.headers["Access-Control-Allow-Origin"])
        self.assertIn("OpenStack-API-Version", response.headers["Access-Control-Expose-Headers"])
        response = self.ask("GET", "/things", headers={"Origin": _BAD})
        self.assertNotIn("Access-Control-Allow-Origin", response.headers)
