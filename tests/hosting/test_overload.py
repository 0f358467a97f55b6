"""Four times what two workers can do: some requests are answered in time, others refused early."""

from __future__ import annotations

import asyncio
import collections
import json
import time
import urllib.request
import uuid

import sqlalchemy as sa

from tests import base, databases, scraping, serving
from tests.hosting import open_loop

#: What one request takes, and how many at a time each of two workers processes: 80 a second.
_REQUEST_SECONDS = 0.2
_THREADS = 8
_WAIT_SECONDS = 2
_OVERLOAD_SECONDS = 8.0
#: Far more than a request may wait, and far less than the last ones would without refusals.
_LATEST_SECONDS = 10.0


class TestOverload(base.TestCase):
    """Writes that PostgreSQL takes its time for, so that the machine's speed does not matter."""

    def setUp(self) -> None:
        super().setUp()
        if "postgresql" not in databases.KINDS:
            self.skipTest("needs PostgreSQL")
        connection = databases.settings("postgresql").connection
        self.service = self.useFixture(serving.Service(
            connection, workers=2, arguments=["--threads", str(_THREADS)], options={
                "OS_API__MAX_WAIT_SECONDS": str(_WAIT_SECONDS), "OS_METRICS__ENABLED": "true"}))
        engine = sa.create_engine(connection)
        self.addCleanup(engine.dispose)
        with engine.begin() as session:
            session.execute(sa.text(
                "CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS "
                f"'BEGIN PERFORM pg_sleep({_REQUEST_SECONDS}); RETURN NEW; END'"))
            session.execute(sa.text(
                "CREATE TRIGGER slow BEFORE INSERT ON traits FOR EACH ROW "
                "EXECUTE FUNCTION take_time()"))
        self.client = open_loop.Client(self.service.address, timeout=60)

    def test_four_times_the_capacity(self) -> None:
        answers, health, capacity, seconds = asyncio.run(self.overload())
        # Nothing but what the API promises: no 500, no reset, nobody who waits for ever.
        self.assertEqual(
            set(), {answer.head for answer in answers if answer.status not in (201, 503)})
        accepted = [answer for answer in answers if answer.status == 201]
        refused = [answer for answer in answers if answer.status == 503]
        self.assertGreater(len(accepted) / seconds, 0.7 * capacity)
        self.assertGreater(len(refused), len(accepted))
        self.assertLess(max(answer.seconds for answer in answers), _LATEST_SECONDS)
        for answer in refused:
            self.assertIn("\r\nretry-after: 2\r\n", f"{answer.head}\r\n")
            [error] = json.loads(answer.body)["errors"]
            self.assertEqual(503, error["status"])
        # Those who watch it are told that it lives and is ready.
        self.assertGreater(len(health), 5)
        self.assertEqual(
            {200: len(health)}, collections.Counter(answer.status for answer in health))
        self.assertLess(max(answer.seconds for answer in health), _LATEST_SECONDS)
        self.assert_counted(self.refused_before + len(refused))
        # Once it is over, a burst of as many as may wait is served.
        burst = asyncio.run(self.client.ask_together("PUT", [make_path() for _ in range(64)]))
        self.assertEqual({201}, {answer.status for answer in burst})
        self.assertNotIn("Traceback", self.service.log.read_text())

    async def overload(
        self
    ) -> tuple[list[open_loop.Answer], list[open_loop.Answer], float, float]:
        """Return answers, those of health checks, the capacity, and how long it all took."""
        # Twice as many clients as are served at a time: each worker has some that wait, and
        # refuses some if it has far more of them than the other one.
        began = time.monotonic()
        measured = await self.client.ask_in_turn(4 * _THREADS, 3, "PUT", make_path)
        self.refused_before = sum(answer.status == 503 for answer in measured)
        capacity = sum(answer.status == 201 for answer in measured) / (time.monotonic() - began)
        watching = asyncio.create_task(self.watch())
        began = time.monotonic()
        answers = await self.client.ask_at_rate(
            4 * capacity, _OVERLOAD_SECONDS, "PUT", make_path)
        seconds = max(answer.ended_at for answer in answers) - began
        watching.cancel()
        return answers, self.health, capacity, seconds

    async def watch(self) -> None:
        """Ask until cancelled."""
        self.health: list[open_loop.Answer] = []
        while True:
            for path in ("/healthcheck", "/readiness"):
                self.health.append(await self.client.ask("GET", path))
            await asyncio.sleep(0.2)

    def assert_counted(self, refused: int) -> None:
        with urllib.request.urlopen(f"{self.service.url}/metrics") as page:
            numbers = scraping.numbers(page.read().decode())
        self.assertEqual(refused, numbers["http_refusals_total", "placement.overloaded", "503"])
        self.assertGreater(numbers["http_wait_seconds_count",], 0)


def make_path() -> str:
    """Return the path of a trait that is new."""
    return f"/traits/CUSTOM_{uuid.uuid4().hex.upper()}"
