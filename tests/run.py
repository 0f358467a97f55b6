"""Run every check and every test, and say what came of it: ``make test``.

Each checker counts as one test. The last line says how many passed, failed and
were skipped, and names what was not tested: databases, leases in a real nova. The same numbers go
to ``build/test-summary`` for ``.ci/run``.
"""

from __future__ import annotations

import collections
import io
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent import futures
from typing import Any, BinaryIO

import subunit
from testtools import StreamToDict
from testtools.content import Content

from tests import databases, workers
from tests.browser import chromium
from tests.conformance import test_gabbi
from tests.nova import deployment
from tests.packages import environments
from tests.upgrades import previous_release

ROOT = pathlib.Path(__file__).parent.parent
SUMMARY = ROOT / "build" / "test-summary"
_STREAMS = ROOT / ".stestr"
_WORKERS = ROOT / "build" / "workers.yaml"

CHECKS = {
    "ruff": ["ruff", "check", "."],
    "import-linter": ["lint-imports", "--no-cache"],
    # It takes what is in PYTHONPATH for installed packages, and judges them otherwise.
    "mypy": ["env", "--unset=PYTHONPATH", "mypy"],
}

Counts = collections.Counter[str]


def main(arguments: list[str]) -> int:
    """Run the checks alone (``lint``), or the checks and the tests.

    :param arguments: ``lint``, or options and filters for ``stestr run``.
    :returns: 0 when nothing failed.
    """
    # The tools stand beside the interpreter, whether or not its folder is in PATH.
    beside = str(pathlib.Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([beside, os.environ["PATH"]])
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    # The tests start hundreds of processes, each of which would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.chdir(ROOT)
    # What the tools print goes between our lines, not before them.
    sys.stdout.reconfigure(line_buffering=True)
    SUMMARY.unlink(missing_ok=True)
    with futures.ThreadPoolExecutor() as pool:
        # Beside the tests: mypy takes half a minute of one processor.
        checks = {name: pool.submit(_check, name, command) for name, command in CHECKS.items()}
        counts: Counts = collections.Counter()
        if arguments != ["lint"]:
            counts += _tests(arguments)
        for name, check in checks.items():
            counts[check.result()] += 1
            if check.result() == "failed":
                # What it printed is far above by then.
                print(f"failed: {name}")
    line = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    SUMMARY.parent.mkdir(exist_ok=True)
    SUMMARY.write_text(line + "\n")
    print(line + ("" if arguments == ["lint"] else _extent()))
    return 1 if counts["failed"] else 0


def _check(name: str, command: list[str]) -> str:
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    outcome = "failed" if done.returncode else "passed"
    said = f"\n{done.stdout}" if done.returncode else ""
    # In one piece: others print, too.
    print(f"{name}: {outcome} ({time.monotonic() - started:.0f} s){said}\n", end="")
    return outcome


def _tests(arguments: list[str]) -> Counts:
    before = _last_stream()
    if not arguments:
        # One more than processors: plays, races and outages wait for most of their time.
        workers.write_file(_WORKERS, (os.cpu_count() or 1) + 1)
        arguments = [f"--worker-file={_WORKERS}"]
    code = subprocess.run(["stestr", "run", *arguments]).returncode
    after = _last_stream()
    if after == before:
        print("The tests could not be run.")
        return collections.Counter(failed=1)
    # Its own files are in a format that it changes as it likes; this one is subunit v2.
    last = subprocess.run(["stestr", "last", "--subunit"], stdout=subprocess.PIPE)
    counts, conformance = _read(io.BytesIO(last.stdout))
    if not counts:
        print("The outcomes of the tests could not be read.")
        counts["failed"] += 1
    if code and not counts["failed"]:
        print("A worker ended before its tests did.")
        counts["failed"] += 1
    if not _filters(arguments):
        print(
            f"conformance: {conformance['passed']} of {test_gabbi.COUNT} tests of the "
            "openstack-placement suite passed"
        )
        if sum(conformance.values()) != test_gabbi.COUNT:
            counts["failed"] += 1
    return counts


def _filters(arguments: list[str]) -> bool:
    return any(not argument.startswith("-") for argument in arguments)


def _last_stream() -> int:
    streams = [int(path.name) for path in _STREAMS.glob("*") if path.name.isdigit()]
    return max(streams, default=-1)


def _read(stream: BinaryIO) -> tuple[Counts, Counts]:
    """Count the outcomes in a subunit stream: of all tests, and of the conformance suite.

    Prints the ends of tracebacks, and then which tests failed: the whole is far above by then.
    """
    counts: Counts = collections.Counter()
    conformance: Counts = collections.Counter()
    failed: list[str] = []

    def count(test: dict[str, Any]) -> None:
        outcome = _OUTCOMES.get(str(test["status"]), "failed")
        counts[outcome] += 1
        if outcome == "failed":
            failed.append(str(test["id"]))
            # Of the first ones: where most fail, they fail for one reason.
            end = _end_of_traceback(test["details"])
            if end and len(failed) <= _MOST_TRACEBACKS:
                print(f"{test['id']} ended with\n{end}", end="")
        if _CONFORMANCE.match(str(test["id"])):
            conformance[outcome] += 1

    result = StreamToDict(count)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(stream, non_subunit_name="stdout").run(result)
    result.stopTestRun()
    # Together: where only the end of a log is kept, it names all of them.
    for test_id in failed:
        print(f"failed: {test_id}")
    return counts, conformance


def _end_of_traceback(details: Mapping[str, Content]) -> str:
    if "traceback" not in details:
        return ""
    lines = details["traceback"].as_text().strip().splitlines()
    return "".join(f"    {line}\n" for line in lines[-_LAST_LINES:])


#: Of how many tests the ends of tracebacks are printed, and how many lines.
_MOST_TRACEBACKS, _LAST_LINES = 10, 12
_OUTCOMES = {"success": "passed", "xfail": "passed", "skip": "skipped"}
_CONFORMANCE = re.compile(r"tests\.conformance\.test_gabbi\.(?!TestTheSuite)")


def _extent() -> str:
    """Say which databases were tested, and out loud what was left out."""
    missing = [
        f"{kind} (set {variable})"
        for kind, variable in databases.VARIABLES.items()
        if kind not in databases.KINDS
    ]
    no_nova = deployment.missing()
    if no_nova is not None:
        missing.append(f"leases in a real nova, which needs {no_nova}")
    no_browser = chromium.find_missing()
    if no_browser is not None:
        missing.append(f"the dashboard in a browser, which needs {no_browser}")
    missing += [
        "Python {}.{}".format(*version)
        for version in (environments.OLDEST_PYTHON, environments.NEWEST_PYTHON)
        if environments.find_python(version) is None
    ]
    if no_upgrade := previous_release.find_missing():
        missing.append(no_upgrade)
    left_out = f"; NOT TESTED: {', '.join(missing)}" if missing else ""
    return f"; databases: {', '.join(databases.KINDS)}{left_out}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
