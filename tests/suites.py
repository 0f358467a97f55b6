"""``make test-engines``: database engines of newer suites of Debian than this machine's.

Each suite is unpacked into a temporary folder (debootstrap, as root), and its servers run from
there. ``db check-engine`` and the functional tests that depend most on the engine run on them.
Exit code 0: all passed. 1: something failed. 2: a suite cannot be had.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from tests import databases, server_programs
from tests.server_programs import NoServerError

_ROOT = pathlib.Path(__file__).parents[1]
_TESTS = (r"tests\.functional\.(db|engine_checks|changes|migrations|placement|quota)\."
          r".*On(PostgreSQL|MySQL)\.")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = f"{_LIBRARIES}/ld-linux-x86-64.so.2"
#: What is in programs that are linked to libraries.
_LINKED = b"/lib64/ld-linux-x86-64.so.2\0"
_PROGRAMS = ("usr/bin", "usr/sbin", "usr/lib/postgresql/*/bin")


@dataclasses.dataclass(frozen=True)
class Suite:
    """A suite of Debian.

    :ivar packages: of a PostgreSQL and a MySQL or MariaDB.
    :ivar options: of ``.ci/with_databases.py``.
    """

    name: str
    packages: Sequence[str]
    options: Sequence[str] = ()


SUITES = (
    Suite("trixie", ("postgresql", "mariadb-server", "galera-4")),
    Suite("sid", ("postgresql", "mysql-server-core"), ("--mysql",)),
)


def unpack(suite: Suite, root: pathlib.Path) -> None:
    """Install a suite with its servers into an empty folder, from where they can be started.

    :raises NoServerError: it cannot be had.
    """
    debootstrap = server_programs.find("debootstrap", "debootstrap", "/usr/sbin")
    patchelf = server_programs.find("patchelf", "patchelf")
    server_programs.run([
        debootstrap, "--variant=minbase", f"--include={','.join(suite.packages)}", suite.name,
        str(root)], None)
    # The suite's programs need its libraries, and they its loader.
    for program in _list_programs(root):
        server_programs.run([
            patchelf, "--set-interpreter", str(root / _LOADER), "--force-rpath", "--set-rpath",
            str(root / _LIBRARIES), str(program)], None)


def _list_programs(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a suite's programs that are linked to libraries."""
    for folder in _PROGRAMS:
        for path in root.glob(f"{folder}/*"):
            if path.is_file() and not path.is_symlink() and _LINKED in path.read_bytes():
                yield path


def main(arguments: Sequence[str] | None = None) -> int:
    """Test on the suites; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("--suite", action="append", choices=[each.name for each in SUITES],
                        help="default: every suite")
    parser.add_argument("--tests", default=_TESTS, metavar="PATTERN", help="default: %(default)s")
    options = parser.parse_args(arguments)
    codes = [_test(suite, options.tests) for suite in SUITES
             if suite.name in (options.suite or (suite.name,))]
    return max(codes)


def _test(suite: Suite, tests: str) -> int:
    with tempfile.TemporaryDirectory(prefix="placement-suite-") as folder:
        root = pathlib.Path(folder, suite.name)
        # Servers are not root, and have to get there.
        pathlib.Path(folder).chmod(0o755)
        try:
            unpack(suite, root)
        except NoServerError as error:
            print(f"{suite.name}: {error}")
            return 2
        environment = {name: value for name, value in os.environ.items()
                       if name not in databases.VARIABLES.values()}
        environment[server_programs.VARIABLE] = str(root)
        return subprocess.run(
            [sys.executable, _ROOT / ".ci" / "with_databases.py", "--own", *suite.options, "--",
             sys.executable, "-m", "stestr", "run", "--concurrency", "1", tests],
            cwd=_ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
