"""What all of /v1 does: versions, suffixes, request ids, and what refusals look like."""

from __future__ import annotations

from tests.http.leases_api.cases import NOBODY, LeasesTestCase, instance

_VERSIONS = {"versions": [{
    "id": "v1.0", "status": "CURRENT", "min_version": "1.0", "max_version": "1.0",
    "links": [{"href": "http://localhost/v1", "rel": "self"}]}]}


class TestHabits(LeasesTestCase):
    def test_versions(self) -> None:
        """For everybody; ``/`` is the Placement API's."""
        for path in ("", "/", "/versions"):
            response = self.v1("GET", path, status=300, token=None)
            self.assertEqual(_VERSIONS, response.json, path)
        self.assertEqual("1.39", self.ask("GET", "/").json["versions"][0]["max_version"])

    def test_head_is_get_without_its_body(self) -> None:
        """As in Blazar: probes of load balancers send it."""
        self.host()
        lease = self.lease()
        for path, status, token in (
            ("", 300, None), ("/", 300, None), ("/versions", 300, None),
            ("/leases", 200, "admin"), (f"/leases/{lease['id']}.json", 200, "admin"),
            ("/os-hosts", 200, "admin"), (f"/leases/{NOBODY}", 404, "admin"),
            ("/leases", 401, None), ("/nothing", 404, "admin"),
        ):
            response = self.v1("GET", path, status=status, token=token)
            headed = self.v1("HEAD", path, status=status, token=token)
            self.assertEqual(b"", headed.body)
            self.assertEqual(
                response.headers["Content-Length"], headed.headers["Content-Length"], path)
            self.assertEqual(response.headers["Content-Type"], headed.headers["Content-Type"])

    def test_below_a_prefix(self) -> None:
        response = self.v1("GET", "", status=300, environ={"SCRIPT_NAME": "/capacity"})
        self.assertEqual(
            "http://localhost/capacity/v1", response.json["versions"][0]["links"][0]["href"])

    def test_suffix(self) -> None:
        """Every path may end with .json; then Accept does not matter."""
        host = self.host(gpu="x")
        lease = self.lease()
        for path in ("/leases", f"/leases/{lease['id']}", "/os-hosts", f"/os-hosts/{host}",
                     "/os-hosts/allocations", f"/os-hosts/{host}/allocation",
                     "/os-hosts/properties"):
            plain = self.v1("GET", path, status=200, token="admin").json
            for accept in ("application/json", "text/html"):
                self.assertEqual(plain, self.v1(
                    "GET", f"{path}.json", status=200, token="admin",
                    headers={"Accept": accept}).json)
        made = self.v1("POST", "/leases.json", self.body(), status=201).json["lease"]
        self.v1("PUT", f"/leases/{made['id']}.json", {"name": "b"}, status=200)
        self.v1("DELETE", f"/leases/{made['id']}.json", status=204)
        self.v1("PATCH", "/os-hosts/properties/gpu.json", {"private": True}, token="admin",
                status=200)

    def test_microversion(self) -> None:
        for header in (None, "reservation 1.0", "reservation latest", "placement 1.39",
                       "compute 2.1, reservation 1.0"):
            headers = {} if header is None else {"OpenStack-API-Version": header}
            response = self.v1("GET", "/leases", status=200, headers=headers)
            self.assertEqual("reservation 1.0", response.headers["OpenStack-API-Version"])
            self.assertEqual("openstack-api-version", response.headers["Vary"].lower())
        for header, status in (
            ("reservation 1.1", 406), ("reservation 2.0", 406), ("reservation 0.9", 406),
            ("reservation x", 400), ("reservation 1", 400), ("reservation 1.0.0", 400),
            ("reservation 1.", 400),
        ):
            self.turned_away(status, "version", "GET", "/leases",
                             headers={"OpenStack-API-Version": header})

    def test_request_ids(self) -> None:
        sent = "req-11111111-1111-4111-8111-111111111111"
        for path, status in (("/leases", 200), (f"/leases/{NOBODY}", 404), ("/nothing", 404)):
            response = self.v1("GET", path, status=status,
                               headers={"X-OpenStack-Request-ID": sent})
            found = response.headers["X-OpenStack-Request-ID"]
            self.assertRegex(found, "^req-[0-9a-f-]{36}$")
            self.assertNotEqual(sent, found)

    def test_turned_away(self) -> None:
        """What reaches no operation is answered in the words of a framework."""
        self.host()
        for path in ("/nothing", "/leases/a/b", "/leases/", "/floatingips", "/plugins",
                     "/leases/%00"):
            self.turned_away(404, "", "GET", path)
        for method, path, allowed in (
            ("PATCH", "/leases", "GET, HEAD, POST"),
            ("POST", f"/leases/{NOBODY}", "DELETE, GET, HEAD, PUT"),
            ("POST", "/os-hosts/allocations", "GET, HEAD"), ("DELETE", "/os-hosts/properties/x",
                                                      "PATCH"),
        ):
            response = self.turned_away(405, method, method, path)
            self.assertEqual(allowed, response.headers["Allow"])
        self.turned_away(406, "", "GET", "/leases", headers={"Accept": "text/html"})
        self.turned_away(415, "", "POST", "/leases", self.body(),
                         headers={"Content-Type": "text/plain"})
        for body in (b"", b"{", b"nonsense", b'{"name": NaN}', b'{"a": "\\u0000"}',
                     b"1" + b"0" * 30, b"[" * 5000):
            self.turned_away(400, "Malformed JSON", "POST", "/leases", body)
        self.turned_away(400, "", "GET", "/leases/%ff")

    def test_no_token(self) -> None:
        for method, path in (("GET", "/leases"), ("POST", "/leases"), ("GET", "/os-hosts"),
                             ("GET", "/nothing")):
            self.turned_away(401, "authentication", method, path, token=None)

    def test_a_failure_tells_nothing(self) -> None:
        """500 in the words of the API, and no internals."""
        self.services.leases.create = None  # type: ignore[assignment,method-assign]
        self.turned_away(500, "Internal Server Error", "POST", "/leases", self.body(instance()))
