"""``openstack capacity watch`` with a real Keystone: administrators and tenants follow changes."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import time
import urllib.parse

import fixtures

from placement_core.testing import factories
from tests import proxies
from tests.clients.test_capacity import CapacityCommandsTestCase


class TestWatch(CapacityCommandsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = self.folder / "token"

    def test_watch(self) -> None:
        """One service, because it takes long to start."""
        self.check_following()
        self.file.unlink()
        self.check_a_tenant()
        self.check_a_service_that_is_away()

    def watch(
        self, *arguments: str, code: int = 0, user: str = "admin", **more: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_openstack("watch", "--once", *arguments, code=code, user=user, **more)

    def start_watch(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Return a watch of providers that has its first token."""
        process = self.start_openstack(
            "watch", "--kind", "provider", "--token-file", str(self.file), *arguments,
            user="admin", **more)
        while not self.file.exists() and process.poll() is None:
            time.sleep(0.05)
        return process

    def check_following(self) -> None:
        """Changes come as they happen; the token file goes on behind them."""
        process = self.start_watch()
        token = self.file.read_text().strip()
        first = factories.provider(self.ctx)
        self.assertEqual(f"provider {first.uuid} {first.name}\n", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        self.finish(process)
        provider = factories.provider(self.ctx, name="host\nprovider\x1b[2J")
        output, script = self.folder / "output", self.folder / "script"
        script.write_text(f"cat >> {output}; test -e {self.folder}/works\n")
        hook = ("--kind", "provider", "--token-file", str(self.file), "--exec", f"sh {script}")
        failed = self.watch(*hook, code=1)
        self.assertIn("--exec sh: failed (1) for provider", failed.stderr)
        output.unlink()
        (self.folder / "works").touch()
        self.watch(*hook)
        self.assertIn(f'"document": {{"uuid": "{provider.uuid}"', output.read_text())
        lines = self.watch("--after", token, "--kind", "provider").stdout.splitlines()
        self.assertEqual({f"provider {first.uuid} {first.name}",
                          f"provider {provider.uuid} host\\nprovider\\x1b[2J"}, set(lines))

    def check_a_tenant(self) -> None:
        """Members of a project watch what it owns, and not on which hosts."""
        admin, headers = self.add_provider()
        uuid = json.loads(admin.send(
            "GET", "/resource_providers?name=host1", headers=headers,
        )[2])["resource_providers"][0]["uuid"]
        consumers = {name: factories.new_uuid() for name in self.projects}
        for name, consumer in consumers.items():
            status, _, answer = admin.send("PUT", f"/allocations/{consumer}", {
                "allocations": {uuid: {"resources": {"VCPU": 1}}}, "user_id": "jane",
                "project_id": self.projects[name], "consumer_type": "INSTANCE",
                "consumer_generation": None}, headers=headers)
            self.assertEqual(204, status, answer)
        done = self.watch("--all", "-f", "json", user="demo")
        project = self.projects["demo"]
        self.assertEqual(
            f"you may not watch all projects: this is what project {project} owns\n", done.stderr)
        self.assertNotIn(uuid, done.stdout)
        self.assertEqual(
            {("consumer", consumers["demo"]), ("project_usage", project)},
            {(change["kind"], change["id"])
             for change in map(json.loads, done.stdout.splitlines())})
        done = self.watch("--project", self.projects["other"], code=1, user="demo")
        self.assertIn("HTTP 403", done.stderr)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def check_a_service_that_is_away(self) -> None:
        """The watch asks again when it is told to, from the same token on; a lost one ends it."""
        proxy = self.useFixture(proxies.Proxy(self.service.url))
        requests: list[tuple[float, str]] = []

        def answer(request: proxies.Request) -> proxies.Answer | None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query)
            if "wait" not in query:
                return None
            [token] = query["after"]
            requests.append((time.monotonic(), token))
            match len(requests):
                case 1:
                    return proxies.Answer(503, b"<html>", (("Retry-After", "1"),))
                case 2:
                    return _make_answer(200, {"changes": [], "next": token, "more": False})
                case 3:
                    proxy.close()
                    return proxies.Answer(502)
                case 4:
                    return proxies.Answer(429, json.dumps({"errors": [{
                        "detail": "The service works on 2 requests of the project already."}],
                    }).encode(), (("Retry-After", "1"),))
                case 5:
                    return None
                case _:
                    return _make_answer(410, {"errors": [{"detail": "Changes were removed."}]})

        proxy.instead = answer
        process = self.start_watch(OS_CAPACITY_ENDPOINT_OVERRIDE=f"{proxy.url}/capacity/v1")
        provider = factories.provider(self.ctx)
        lines = []
        while not lines or "Unable to establish connection" not in lines[-1]:
            lines.append(process.stderr.readline())
            self.assertTrue(lines[-1], lines)
        self.assertEqual(["Service Unavailable (HTTP 503)\n", "Bad Gateway (HTTP 502)\n"],
                         lines[-3:-1])
        self.assertNotIn("after=", lines[-1])
        proxy.open()
        done = self.finish(process, code=1)
        self.assertEqual(f"provider {provider.uuid} {provider.name}\n", done.stdout)
        self.assertIn("of the project already. (HTTP 429)\n", done.stderr)
        self.assertIn("Changes were removed. (HTTP 410)\n", done.stderr)
        (first, token), (second, _), (third, _), (fourth, _), (fifth, _), *_ = requests
        self.assertGreaterEqual(second - first, 1)
        self.assertGreaterEqual(third - second, 1)
        self.assertGreaterEqual(fifth - fourth, 1)
        self.assertEqual([token] * 5, [after for _, after in requests[:5]])
        self.assertEqual(requests[5][1], self.file.read_text().strip())


def _make_answer(status: int, document: object) -> proxies.Answer:
    return proxies.Answer(status, json.dumps(document).encode(), (("Retry-After", "1"),))
