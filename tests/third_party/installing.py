"""Distributions of somebody else's, installed as pip does it, for one test."""

from __future__ import annotations

import atexit
import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile

import fixtures

from placement_core.cli import plugin_packages
from tests import distributions


class Installed(fixtures.Fixture):
    """Lets this process find a driver's distribution, and its entry points.

    :ivar folder: where it is installed.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__()
        self.folder = install_driver(kind, name)

    def _setUp(self) -> None:
        self.useFixture(distributions.OnPath(self.folder))


@functools.cache
def install_driver(kind: str, name: str) -> pathlib.Path:
    """Return the folder into which pip installed what ``plugins new`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        for file_name, text in plugin_packages.render(kind, name).items():
            pathlib.Path(folder, file_name).write_text(text)
        return install(pathlib.Path(folder))


@functools.cache
def install(sources: pathlib.Path) -> pathlib.Path:
    """Return the folder into which pip installed a distribution, once in a process."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-third-party-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # A build writes beside its sources.
    source = shutil.copytree(sources, folder / "source")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-index", "--no-build-isolation", "--target", folder / "target", source],
        capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return folder / "target"
