"""The samples below etc/ are taken by the programs that they are for, and serve."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time
import uuid

import fixtures

from tests import server_programs, serving
from tests.hosting import test_draining

_ETC = pathlib.Path(__file__).parents[2] / "etc"
_ROOT = _ETC.parent
#: What a slow machine that is busy with other tests may need for anything.
_SECONDS = 120.0
_UNITS = ("api", "manager", "shadow")


def find(name: str, package: str, folders: str = "/usr/sbin") -> str | None:
    """Return a program's path; None: it is not there, and cannot be installed."""
    try:
        return server_programs.find(name, package, folders)
    except server_programs.NoServerError:
        return None


class SampleTestCase(test_draining.DrainTestCase):
    """A sample with other places in it, in a folder of the test's own."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.folder.chmod(0o755)
        self.port = server_programs.find_free_port()
        self.address = f"127.0.0.1:{self.port}"
        #: What the service's own options come from.
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")]),
            "OS_PLACEMENT_CONFIG_DIR": str(self.folder),
            "OS_API__AUTH_STRATEGY": "noauth2",
            "OS_PLACEMENT_DATABASE__CONNECTION": self.database.url.render_as_string(
                hide_password=False)}

    def require(self, name: str, package: str) -> str:
        path = find(name, package)
        if path is None:
            self.skipTest(f"{name.upper()} IS NOT INSTALLED: nobody tried its sample")
        return path

    def write(self, sample: str, replaced: dict[str, str]) -> pathlib.Path:
        """Write a sample with ``replaced``, each part of which it has; return its path."""
        text = (_ETC / sample).read_text()
        for old, new in replaced.items():
            self.assertIn(old, text, sample)
            text = text.replace(old, new)
        path = self.folder / pathlib.Path(sample).name
        path.write_text(text)
        return path

    def run_program(self, *command: str) -> str:
        """Run a program that must succeed; return all that it said."""
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            timeout=120)
        self.assertEqual(0, done.returncode, done.stdout)
        return done.stdout

    def launch(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a server."""
        self.log = self.folder / "log"
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a server, and wait until ``address`` is ready."""
        process = self.launch(*command)
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while self.ask("/readiness") != 200:
            self.assertIsNone(process.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), deadline, self.log.read_text())
            time.sleep(0.2)
        return process

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        """End a server, and whatever it has started."""
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def ask(self, path: str, method: str = "GET") -> int | None:
        """Return the status of an answer; None: nobody listens."""
        client = http.client.HTTPConnection(self.address, timeout=_SECONDS)
        try:
            client.request(method, path, headers={"X-Auth-Token": "admin"})
            return client.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            client.close()


class TestServers(SampleTestCase):
    """Servers of the WSGI application."""

    #: No more than a process has threads, so that each is begun at once.
    CLAIMS = 3

    def test_gunicorn(self) -> None:
        path = self.write("hosting/gunicorn.conf.py", {"127.0.0.1:8779": self.address})
        process = self.start(sys.executable, "-m", "gunicorn", "--config", str(path))
        self.check_draining(process)
        self.assertEqual(0, process.wait(_SECONDS), self.log.read_text())

    def test_uwsgi(self) -> None:
        # Whether it ends by itself then is a matter of chance (doc/operator/hosting.rst).
        self.check_draining(self.start(*self.make_uwsgi_command()))

    def test_uwsgi_that_cannot_serve(self) -> None:
        """It ends, so that nobody takes it for a service that runs."""
        self.environment["OS_PLACEMENT_DATABASE__CONNECTION"] = f"sqlite:///{self.folder}/new"
        process = self.launch(*self.make_uwsgi_command())
        self.assertNotEqual(0, process.wait(_SECONDS))
        self.assertIn("run `placement-core db sync`", self.log.read_text())

    def make_uwsgi_command(self) -> tuple[str, ...]:
        path = self.write("hosting/uwsgi.ini", {
            "127.0.0.1:8779": self.address, "/opt/placement-core": sys.prefix})
        return str(pathlib.Path(sys.executable).with_name("uwsgi")), "--ini", str(path)

    def check_draining(self, process: subprocess.Popen[bytes]) -> None:
        """Expect that SIGTERM cuts no claim that waits for the database."""
        service = serving.Service("")
        service.address = self.address
        consumers = [str(uuid.uuid4()) for _ in range(self.CLAIMS)]
        with concurrent.futures.ThreadPoolExecutor(self.CLAIMS) as pool:
            with self.claims_wait():
                answers = [pool.submit(self.claim, service, each) for each in consumers]
                self.until_read(service, self.CLAIMS)
                process.send_signal(signal.SIGTERM)
                time.sleep(1)
                self.assertIsNone(process.poll())
                self.assertFalse(any(answer.done() for answer in answers))
            self.assertEqual([204] * self.CLAIMS, [answer.result() for answer in answers])
        self.assertEqual(set(consumers), self.stored())

    def test_apache(self) -> None:
        """Debian's mod_wsgi has Debian's Python in it, which must be of our version."""
        apache = self.require("apache2", "apache2")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        modules = pathlib.Path("/usr/lib/apache2/modules")
        if not (modules / f"mod_wsgi.so-{version}").exists() and os.geteuid() == 0:
            server_programs.install("libapache2-mod-wsgi-py3")
        if not (modules / f"mod_wsgi.so-{version}").exists():
            self.skipTest(f"NO MOD_WSGI FOR PYTHON {version}: nobody tried its sample")
        user = "www-data" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        # Another user must reach it.
        self.environment["OS_PLACEMENT_DATABASE__CONNECTION"] = f"sqlite:///{self.folder}/p.sqlite"
        subprocess.run([sys.executable, "-m", "placement_core", "db", "sync"], check=True,
                       env=self.environment, stdout=subprocess.DEVNULL, cwd=_ROOT)
        script = self.write("hosting/placement-core.wsgi", {})
        options = {name: value for name, value in self.environment.items()
                   if name.startswith("OS_")}
        script.write_text(f"import os\nos.environ.update({options!r})\n{script.read_text()}")
        for path in (self.folder, *self.folder.iterdir()):
            shutil.chown(path, user)
        path = self.write("hosting/apache.conf", {
            "Listen 8778": f"Listen {self.address}",
            "<VirtualHost *:8778>": f"<VirtualHost {self.address}>",
            "user=placement group=placement": f"user={user} group={user}",
            "python-home=/opt/placement-core": f"python-home={sys.prefix} "
            f"python-path={_ROOT}:{_ROOT / 'plugins'}",
            "/etc/placement": str(self.folder),
            "/var/log/apache2/": f"{self.folder}/"})
        main = self.folder / "apache2.conf"
        main.write_text(
            f"ServerRoot {self.folder}\nServerName localhost\nPidFile {self.folder}/pid\n"
            f"ErrorLog {self.folder}/error.log\nMutex file:{self.folder}\n"
            f"User {user}\nGroup {user}\n" + "".join(
                f"LoadModule {name}_module {modules}/mod_{file or name}.so\n"
                for name, file in (("mpm_event", ""), ("authz_core", ""), ("authz_host", ""),
                                   ("reqtimeout", ""), ("wsgi", f"wsgi.so-{version}"))
            ).replace(f"{version}.so", version) + f"WSGISocketPrefix {self.folder}/wsgi\n"
            f"Include {path}\n")
        self.assertIn("Syntax OK", self.run_program(apache, "-t", "-f", str(main)))
        self.start(apache, "-f", str(main), "-D", "FOREGROUND")
        self.assertEqual(200, self.ask("/resource_providers"))


class TestBalancer(SampleTestCase):
    """HAProxy before two hosts of the API."""

    def test_haproxy(self) -> None:
        haproxy = self.require("haproxy", "haproxy")
        # The proxy says for whom it asks, and noauth2 believes nobody from elsewhere.
        first, second = (self.useFixture(serving.Service(
            self.environment["OS_PLACEMENT_DATABASE__CONNECTION"],
            options={"OS_API__ALLOW_REMOTE_NOAUTH2": "true"})) for _ in range(2))
        path = self.write("hosting/haproxy.cfg", {
            "bind :8778": f"bind {self.address}", "192.0.2.11:8778": first.address,
            "192.0.2.12:8778": second.address,
            "log /dev/log local0": "log stderr format raw local0"})
        self.assertNotIn("WARNING", self.run_program(haproxy, "-c", "-f", str(path)))
        self.start(haproxy, "-db", "-f", str(path))
        self.assertEqual([200] * 4, [self.ask("/resource_providers") for _ in range(4)])
        self.assertEqual(403, self.ask("/metrics"))
        # One host drains; nobody notices.
        os.kill(first.process.pid, signal.SIGTERM)
        self.assertEqual(0, first.process.wait(_SECONDS))
        self.assertEqual([200] * 4, [self.ask("/resource_providers") for _ in range(4)])
        self.until(lambda: "api1 is DOWN" in self.log.read_text(), "it never noticed")


class TestUnits(SampleTestCase):
    """systemd and logrotate check what is theirs; neither runs here."""

    def test_systemd(self) -> None:
        verify = find("systemd-analyze", "systemd", "/usr/bin")
        if verify is None:
            self.skipTest("SYSTEMD IS NOT INSTALLED: nobody checked its units")
        for name in _UNITS:
            # A user and a program that this machine has.
            path = self.write(f"systemd/placement-core-{name}.service", {
                "=placement\n": "=daemon\n",
                "/opt/placement-core/bin/placement-core": "/bin/true"})
            self.assertEqual("", self.run_program(verify, "verify", "--man=no", str(path)))
            said = self.run_program(
                verify, "security", "--offline=true", "--threshold=25", "--no-pager", str(path))
            self.assertIn("Overall exposure level", said)

    def test_their_commands(self) -> None:
        """Options of the commands that the units run are there."""
        for name in _UNITS:
            [line] = [line for line in (_ETC / f"systemd/placement-core-{name}.service")
                      .read_text().splitlines() if line.startswith("ExecStart=")]
            _, *words = line.split()
            command = list(itertools.takewhile(lambda word: not word.startswith("--"), words))
            help_text = self.run_help(*command)
            for word in words:
                if word.startswith("--"):
                    self.assertIn(word, help_text)

    def run_help(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "placement_core", *command, "--help"], capture_output=True,
            env=self.environment, text=True, check=True, cwd=_ROOT)
        return done.stdout

    def test_logrotate(self) -> None:
        logrotate = self.require("logrotate", "logrotate")
        logs = self.folder / "logs"
        logs.mkdir()
        (logs / "placement.log").write_text("a line\n")
        user = pwd.getpwuid(os.geteuid()).pw_name
        path = self.write("hosting/logrotate.conf", {
            "/var/log/placement": str(logs), "su placement placement": f"su {user} {user}"})
        path.chmod(0o644)
        state = str(self.folder / "state")
        self.assertNotIn("error", self.run_program(logrotate, "-d", "-s", state, str(path)))
        self.run_program(logrotate, "-f", "-s", state, str(path))
        self.assertEqual({"placement.log": "", "placement.log.1": "a line\n"},
                         {found.name: found.read_text() for found in logs.iterdir()})


class TestContainer(SampleTestCase):
    def test_containerfile(self) -> None:
        """Nothing is built here: a linter reads it."""
        hadolint = shutil.which("hadolint", path=os.pathsep.join(
            [str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
        if hadolint is None:
            self.skipTest("HADOLINT IS NOT INSTALLED: nobody checked the Containerfile")
        self.run_program(hadolint, str(_ETC / "container" / "Containerfile"))
