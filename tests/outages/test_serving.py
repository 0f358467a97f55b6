"""A worker whose threads all wait for the database says all the same that it is alive."""

from __future__ import annotations

import concurrent.futures
import http.client
import time

import sqlalchemy as sa

from tests import base, databases, serving
from tests.outages import links

#: More than a worker has threads.
_CLIENTS = 12
_CLIENTS_OF_SERVE = 24
_NETWORK_SECONDS = 6
#: Until a request that finds every place taken is refused, and its thread is free again;
#: and what a busy machine adds.
_HEALTH_SECONDS = 3.0
_BOUND_SECONDS = 2 * _NETWORK_SECONDS + 10


class TestServing(base.TestCase):
    """Each host of the WSGI application, with a PostgreSQL server that falls silent."""

    def test_serve(self) -> None:
        self.check("serve", _CLIENTS_OF_SERVE)

    def test_gunicorn(self) -> None:
        self.check("gunicorn", _CLIENTS, OS_API__MAX_CONCURRENT_REQUESTS="3")

    def test_uwsgi(self) -> None:
        self.check("uwsgi", _CLIENTS, OS_API__MAX_CONCURRENT_REQUESTS="3")

    def check(self, by: str, clients: int, **options: str) -> None:
        if "postgresql" not in databases.KINDS:
            self.skipTest("needs PostgreSQL")
        url = sa.make_url(databases.settings("postgresql").connection)
        link = self.useFixture(links.Link((url.host or "", url.port or 5432)))
        host, port = link.address
        self.service = self.useFixture(serving.Service(
            url.set(host=host, port=port).render_as_string(hide_password=False), by=by,
            options={
                "OS_PLACEMENT_DATABASE__NETWORK_TIMEOUT_SECONDS": str(_NETWORK_SECONDS),
                **options}))
        self.assertEqual(200, self.ask("/resource_providers")[0])
        link.hang()
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            asked = [pool.submit(self.ask, "/resource_providers") for _ in range(clients)]
            time.sleep(0.3)
            health = []
            while not all(each.done() for each in asked):
                health.append(self.ask("/healthcheck"))
                self.assertEqual(503, self.ask("/readiness")[0])
            answers = [each.result() for each in asked]
        self.assertEqual({200}, {status for status, _ in health})
        self.assertLess(max(seconds for _, seconds in health), _HEALTH_SECONDS)
        self.assertEqual({503}, {status for status, _ in answers})
        self.assertLess(max(seconds for _, seconds in answers), _BOUND_SECONDS)
        # Who comes now does not wait.
        status, seconds = self.ask("/resource_providers")
        self.assertEqual(503, status)
        self.assertLess(seconds, 1)
        link.restore()
        deadline = time.monotonic() + 20
        while self.ask("/readiness")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(200, self.ask("/resource_providers")[0])

    def ask(self, path: str) -> tuple[int, float]:
        """Return the status of an answer, and how long it took."""
        connection = http.client.HTTPConnection(self.service.address, timeout=60)
        started = time.monotonic()
        connection.request("GET", path, headers={
            "X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"})
        status = connection.getresponse().status
        connection.close()
        return status, time.monotonic() - started
