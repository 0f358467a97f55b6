"""The switch: it happens, or nothing has; and the way back."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

from placement_core.shadow import control, state
from placement_core.shadow.modes import Mode
from tests import proxies, shadows
from tests.functional.cli import commands
from tests.functional.shadow.test_proxy import ShadowTestCase, new_uuid

#: Requests a second of the load, and how many claims come before the way back (1,000 for the
#: long run). PLACEMENT_TEST_SHADOW_DATABASE says on which kind of database ours is.
_PACE = 50
_CLAIMS = int(os.environ.get("PLACEMENT_TEST_SHADOW_CLAIMS", "100"))
_READERS = 3
_SEED = 20
#: So many writes may wait for the side that follows, before the load waits for it: fewer than a
#: switch asks for. A side that is slower than the load is refused, however busy the machine is.
_MOST_WAITING = 10
#: What a switch reports, in turn: while requests go on, and then while they wait.
_COMPARES, _HOLDS = "providers compared", "requests wait"
#: Requests of these tests hang for a minute: until then, what does not wait for them is done.
_SOON_SECONDS = 30


class Load:
    """Clients of a proxy: one claims and releases, others read.

    :ivar holds: {consumer: whether it is to hold something}, as it was acknowledged.
    :ivar failures: requests that were not answered as they should have been.
    :ivar longest: how long the longest request took, in seconds.
    """

    def __init__(self, sides: shadows.Sides, proxy: shadows.ThreadedProxy | shadows.Proxy) -> None:
        self._sides = sides
        self._proxy = proxy
        self._url = proxy.url
        self._stopped = threading.Event()
        self._random = random.Random(_SEED)
        self.holds: dict[str, bool] = {}
        self.unknown: set[str] = set()
        self.failures: list[object] = []
        self.longest = 0.0
        self.count = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send requests while this is entered."""
        threads = [threading.Thread(target=self._write), *(
            threading.Thread(target=self._read) for _ in range(_READERS))]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _repeat(self) -> Iterator[None]:
        """Go on at this thread's share of the pace, until the end.

        Who is answered late rests as long: a busy machine has to apply what was answered, too.
        """
        pause = (1 + _READERS) / _PACE
        due = time.monotonic()
        while not self._stopped.is_set():
            began = time.monotonic()
            yield
            now = time.monotonic()
            due = max(due + pause, now - 1)
            time.sleep(max(now - began, due - now))

    def _measure(self, started: float) -> None:
        self.longest = max(self.longest, time.monotonic() - started)
        self.count += 1

    def _write(self) -> None:
        for _ in self._repeat():
            held = [consumer for consumer, holds in self.holds.items() if holds]
            self._wait_for_the_other_side()
            release = len(held) > 3 and self._random.random() < 0.3
            consumer = self._random.choice(held) if release else new_uuid()
            started = time.monotonic()
            try:
                if release:
                    status, _ = shadows.ask(self._url, "DELETE", f"/allocations/{consumer}")
                else:
                    status = self._sides.claim(self._url, consumer)
            except OSError as error:
                self.failures.append(error)
                self.unknown.add(consumer)
                continue
            self._measure(started)
            if status != 204:
                self.failures.append((consumer, status))
                self.unknown.add(consumer)
            else:
                self.holds[consumer] = not release

    def _wait_for_the_other_side(self) -> None:
        while not self._stopped.is_set() and self._proxy.report().waiting > _MOST_WAITING:
            time.sleep(0.1)

    def _read(self) -> None:
        paths = ("/allocation_candidates?resources=VCPU:1&limit=5",
                 f"/resource_providers/{self._sides.host}/usages",
                 f"/resource_providers/{self._sides.host}")
        for number, _ in enumerate(self._repeat()):
            started = time.monotonic()
            try:
                status, _ = shadows.ask(self._url, "GET", paths[number % len(paths)])
            except OSError as error:
                self.failures.append(error)
                continue
            self._measure(started)
            if status != 200:
                self.failures.append((paths[number % len(paths)], status))


class SwitchTestCase(ShadowTestCase):
    def change(self, word: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return commands.run("migrate", word, "--state", str(self.sides.folder / "state"),
                            *arguments)

    def read_mode(self) -> Mode:
        return state.read_mode(self.sides.folder / "state")

    def assert_held(self, url: str, load: Load) -> None:
        """Check that no acknowledged claim is lost or doubled in a service."""
        consumers = {consumer for consumer, holds in load.holds.items()
                     if holds and consumer not in load.unknown}
        allocations = self.sides.read_allocations(url)
        self.assertEqual(consumers, set(allocations) - load.unknown)
        for held in allocations.values():
            self.assertEqual({"VCPU": 1}, held["resources"])


class TestSwitch(SwitchTestCase):
    def test_under_load_and_back(self) -> None:
        """No request fails, none is longer than the hold, no claim is lost or doubled."""
        proxy = self.start(compare_percent=20)
        load = Load(self.sides, proxy)
        with load.running():
            shadows.wait_until(lambda: load.count > _PACE)
            dry = self.change("switch", "--dry-run", "--hold", "20")
            self.assertEqual(0, dry.returncode, dry.stderr)
            self.assertIn("Nothing has changed", dry.stdout)
            self.assertEqual(Mode.SHADOW, self.read_mode())
            done = self.change("switch", "--hold", "20")
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(Mode.SWITCHED, self.read_mode())
            switched_at = len(load.holds)
            shadows.wait_until(lambda: len(load.holds) >= switched_at + _CLAIMS, 600)
            back = self.change("reverse", "--hold", "20")
            self.assertEqual(0, back.returncode, back.stderr)
            self.assertEqual(Mode.SHADOW, self.read_mode())
            reversed_at = len(load.holds)
            shadows.wait_until(lambda: len(load.holds) > reversed_at + 10)
        proxy.stop()
        self.assertEqual([], load.failures)
        self.assertLess(load.longest, 20)
        for url in (self.sides.upstream, self.sides.ours):
            self.assert_held(url, load)
        report = proxy.report()
        self.assertEqual(({}, {}), (report.different, report.unresolved))
        self.assertEqual(*(self.sides.read_generation(url) for url in (
            self.sides.upstream, self.sides.ours)))
        diff = commands.run(
            "migrate", "diff", "--from", f"placement=sqlite:///{self.sides.placement.database}",
            connection=self.sides.database)
        self.assertEqual((0, "All is equal.\n"), (diff.returncode, diff.stdout))

    def test_differences(self) -> None:
        """Nothing has happened, and the objects are named."""
        self.spoil()
        proxy = self.start()
        path = f"/resource_providers/{self.sides.host}"
        inventories = shadows.ask(self.sides.ours, "GET", f"{path}/inventories")[1]
        shadows.ask(self.sides.ours, "PUT", f"{path}/inventories", inventories)
        self.sides.claim(proxy.url, new_uuid())
        refused = self.change("switch")
        self.assertEqual(1, refused.returncode, refused.stdout)
        self.assertIn("Nothing has happened: 1 objects differ", refused.stderr)
        self.assertIn(self.sides.host, refused.stderr)
        self.assertEqual(Mode.SHADOW, self.read_mode())
        allowed = self.change("switch", "--max-differences", "1")
        self.assertEqual(0, allowed.returncode, allowed.stderr)
        self.assertIn(f"  resource provider {self.sides.host}\n", allowed.stdout)
        self.assertEqual(Mode.SWITCHED, self.read_mode())

    def test_what_nobody_asked_for(self) -> None:
        """It is compared, and read again, before requests wait."""
        proxy = self.start()
        provider = new_uuid()
        shadows.ask(self.sides.upstream, "POST", "/resource_providers", {
            "name": provider, "uuid": provider})
        self.sides.claim(proxy.url, new_uuid())
        done = self.change("switch", "--dry-run")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(*self.ask_both(f"/resource_providers/{provider}"))
        self.assertEqual({"comparison of all: resource provider": 1}, proxy.report().different)

    def test_names_that_nobody_uses(self) -> None:
        """A request may name them all the same, and be refused where they are missing."""
        proxy = self.start()
        name = f"CUSTOM_{new_uuid().replace('-', '_').upper()}"
        for url, paths in ((self.sides.upstream, (f"/traits/{name}", f"/resource_classes/{name}")),
                           (self.sides.ours, (f"/traits/{name}_OURS",))):
            for path in paths:
                self.assertEqual(201, shadows.ask(url, "PUT", path)[0])
        self.sides.claim(proxy.url, new_uuid())
        done = self.change("switch", "--dry-run")
        self.assertEqual(0, done.returncode, done.stderr)
        for path, statuses in (
                (f"/traits/{name}", {204}), (f"/resource_classes/{name}", {200}),
                (f"/traits/{name}_OURS", {404}),
                (f"/allocation_candidates?resources=VCPU:1&required={name}", {200})):
            self.assertEqual(statuses, {answer[0] for answer in self.ask_both(path)}, path)
        self.assertEqual(
            {"comparison of all: trait": 2, "comparison of all: resource class": 1},
            proxy.report().different)

    def test_claims_that_only_ours_knows(self) -> None:
        """Upstream refuses them; what they are about is read from ours, and written there."""
        between = self.useFixture(proxies.Proxy(self.sides.upstream))
        proxy = self.start(upstream=between.url)
        self.addCleanup(between.let_go)
        self.sides.claim(proxy.url, new_uuid())
        done = self.change("switch")
        self.assertEqual(0, done.returncode, done.stderr)
        is_written = threading.Event()

        def hang_writes(request: proxies.Request) -> None:
            if request.path.startswith("/allocations/") and request.method == "PUT":
                is_written.set()
                between.hang(request)

        between.instead = hang_writes
        first = self.claim(proxy.url, 600)
        self.assertTrue(is_written.wait(_SOON_SECONDS))
        # The host that is read again has one more now.
        second = self.claim(proxy.url, None)
        between.let_go()
        for path in (f"/allocations/{first}", f"/allocations/{second}",
                     f"/resource_providers/{self.sides.host}"):
            self.wait_for(path)
        self.assertLessEqual(
            {first, second}, set(self.sides.read_allocations(self.sides.upstream)))
        for method, path, expected in (
                ("POST", f"{first}/confirm", 200), ("DELETE", second, 204)):
            status, _ = shadows.ask(proxy.url, method, f"/capacity/v1/claims/{path}")
            self.assertEqual(expected, status)
        shadows.wait_until(lambda: second not in self.sides.read_allocations(
            self.sides.upstream))
        done = self.change("reverse")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("0 differ", done.stdout)
        self.assertIn(first, self.sides.read_allocations(self.sides.upstream))
        self.assertIn("claims: status 404, not 201", proxy.report().different)

    def claim(self, url: str, hold_seconds: int | None) -> str:
        """Make a claim as only ours knows them; return its consumer."""
        status, document = shadows.ask(url, "POST", "/capacity/v1/claims", {"claim": {
            "allocations": {self.sides.host: {"resources": {"VCPU": 1}}},
            "project_id": "project", "user_id": "user", "consumer_type": "INSTANCE",
            **({"hold_seconds": hold_seconds} if hold_seconds else {})}})
        self.assertEqual(201, status, document)
        return document["claim"]["consumer_uuid"]

    def test_ours_is_away(self) -> None:
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url)
        self.sides.claim(proxy.url, new_uuid())
        between.close()
        refused = self.change("switch")
        self.assertEqual(1, refused.returncode)
        self.assertIn("Nothing has happened: a side does not answer", refused.stderr)
        self.assertEqual(Mode.SHADOW, self.read_mode())
        self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))

    def test_the_hold_is_too_short(self) -> None:
        """Requests that wait go on, to the side that answered before."""
        between = self.useFixture(proxies.Proxy(self.sides.ours))
        proxy = self.start(ours=between.url)
        self.sides.claim(proxy.url, new_uuid())
        shadows.wait_until(lambda: not proxy.report().waiting)

        def hang_writes(request: proxies.Request) -> None:
            if request.method == "PUT":
                between.hang(request)

        between.instead = hang_writes
        consumer = new_uuid()
        self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(self.change(
            "switch", "--hold", "1", "--max-differences", "9").returncode))
        thread.start()
        started = time.monotonic()
        while thread.is_alive():
            self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))
        self.assertLess(time.monotonic() - started, 10)
        between.let_go()
        thread.join()
        self.assertEqual([1], statuses)
        self.assertEqual(Mode.SHADOW, self.read_mode())
        self.assertIn(consumer, self.sides.read_allocations(self.sides.upstream))

    def test_complete(self) -> None:
        self.spoil()
        proxy = self.start()
        self.sides.claim(proxy.url, new_uuid())
        self.assertEqual(1, self.change("complete").returncode)
        self.assertEqual(0, self.change("switch").returncode)
        self.assertEqual(1, self.change("cancel").returncode)
        done = self.change("complete")
        self.assertIn("complete: ours answers, upstream is not written", done.stdout)
        consumer = new_uuid()
        self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        proxy.stop()
        self.assertIn(consumer, self.sides.read_allocations(self.sides.ours))
        self.assertNotIn(consumer, self.sides.read_allocations(self.sides.upstream))

    def test_cancel(self) -> None:
        self.spoil()
        proxy = self.start()
        self.assertEqual(0, self.change("cancel").returncode)
        self.assertIn("cancelled: upstream answers", self.change("status").stdout)
        self.assertEqual(1, self.change("switch").returncode)
        consumer = new_uuid()
        self.assertEqual(204, self.sides.claim(proxy.url, consumer))
        proxy.stop()
        self.assertIn(consumer, self.sides.read_allocations(self.sides.upstream))
        self.assertNotIn(consumer, self.sides.read_allocations(self.sides.ours))

    def test_cancel_while_a_request_hangs(self) -> None:
        """It waits for no answer, and lets nobody wait: upstream answers before and after."""
        self.spoil()
        between = self.useFixture(proxies.Proxy(self.sides.upstream))
        proxy = self.start(upstream=between.url)
        self.addCleanup(between.let_go)  # The end of the proxy waits for the answer.
        arrived = threading.Event()

        def hang_reads(request: proxies.Request) -> None:
            if request.method == "GET":
                arrived.set()
                between.hang(request)

        between.instead = hang_reads
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(
            shadows.ask(proxy.url, "GET", "/resource_providers")[0]))
        thread.start()
        self.assertTrue(arrived.wait(_SOON_SECONDS))
        started = time.monotonic()
        self.assertEqual(0, self.change("cancel").returncode)
        self.assertEqual(204, self.sides.claim(proxy.url, new_uuid()))
        self.assertLess(time.monotonic() - started, _SOON_SECONDS)
        self.assertEqual([], statuses)
        between.let_go()
        thread.join()
        self.assertEqual([200], statuses)


class TestKilled(SwitchTestCase):
    def test_around_the_switch(self) -> None:
        """A proxy that is killed comes back with one side that answers, and has lost nothing."""
        proxy = self.useFixture(shadows.Proxy(
            self.sides.upstream, self.sides.ours, self.sides.folder))
        moments = random.Random(_SEED)
        modes = set()
        load = Load(self.sides, proxy)
        for begins in (_COMPARES, _HOLDS) * 3:
            load = self.run_and_kill(proxy, load, begins, moments.uniform(0, 0.3))
            modes.add(self.read_mode())
            url = self.sides.ours if self.read_mode() is Mode.SWITCHED else self.sides.upstream
            self.assert_held(url, load)
            proxy.start()
            self.assertEqual(204, self.sides.claim(proxy.url, claimed := new_uuid()))
            load.holds[claimed] = True
            self.assertIn(claimed, self.sides.read_allocations(url))
            # What was under way is read again, and the other side has it, too.
            shadows.wait_until(lambda: not proxy.report().unresolved)
            shadows.wait_until(lambda: not proxy.report().waiting)
            for side in (self.sides.upstream, self.sides.ours):
                self.assert_held(side, load)
            self.assertEqual(*(self.sides.read_allocations(side) for side in (
                self.sides.upstream, self.sides.ours)))
        self.assertTrue(modes <= {Mode.SHADOW, Mode.SWITCHED}, modes)

    def run_and_kill(
        self, proxy: shadows.Proxy, earlier: Load, begins: str, seconds: float
    ) -> Load:
        """Let the other side answer while requests come, and kill the proxy.

        :param begins: what has begun then, so many seconds ago.
        """
        load = Load(self.sides, proxy)
        load.holds.update(earlier.holds)
        load.unknown |= earlier.unknown
        word = "reverse" if self.read_mode() is Mode.SWITCHED else "switch"
        begun = threading.Event()

        def change() -> None:
            try:
                # It is killed before it can answer, or what was killed before differs yet.
                with contextlib.suppress(control.NotRunning, control.RefusedByProxy):
                    control.call(
                        control.find_socket(proxy.state), word,
                        {"hold": 30, "max_differences": 0, "dry_run": False},
                        lambda what, _done, _total: begun.set() if what == begins else None)
            finally:
                begun.set()

        changing = threading.Thread(target=change)
        with load.running():
            shadows.wait_until(lambda: load.count > 10)
            changing.start()
            begun.wait()
            time.sleep(seconds)
            proxy.stop(signal.SIGKILL)
        changing.join()
        return load
