"""Empty virtual environments, filled by uv: with the oldest or the newest dependencies."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[2]

#: What the service can use; the other extras are for its developers.
EXTRAS = ("postgresql", "mysql", "nova", "shadow", "tracing", "dashboard")

#: The lower bounds of setup.cfg have wheels for this one, the oldest that it allows.
OLDEST_PYTHON = (3, 11)

#: The newest that is supported.
NEWEST_PYTHON = (3, 13)

_NOT_SOURCES = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.sqlite*")


def run_uv(*arguments: str | pathlib.Path) -> str:
    """Run uv; return what it printed.

    :raises RuntimeError: it failed; with what it said.
    """
    process = subprocess.run(
        [pathlib.Path(sys.executable).with_name("uv"), *arguments], cwd=ROOT,
        env=_read_pip_index() | os.environ, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr)
    return process.stdout


@functools.cache
def _read_pip_index() -> dict[str, str]:
    """Return the variable that makes uv ask the index that pip was told to ask."""
    if index := os.environ.get("PIP_INDEX_URL"):
        return {"UV_DEFAULT_INDEX": index}
    process = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True, text=True, check=False)
    return {} if process.returncode else {"UV_DEFAULT_INDEX": process.stdout.strip()}


def build_wheel(folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel from a copy of the sources: a build writes beside them."""
    source = shutil.copytree(
        ROOT, folder / "source", ignore=shutil.ignore_patterns(*_NOT_SOURCES))
    run_uv("build", "--quiet", "--wheel", "--out-dir", folder / "dist", source)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def make_environment(folder: pathlib.Path, python: str | pathlib.Path) -> pathlib.Path:
    """Make an empty environment; return its folder of programs."""
    run_uv("venv", "--quiet", "--clear", "--python", python, folder)
    return folder / "bin"


def install(programs: pathlib.Path, *arguments: str | pathlib.Path) -> None:
    """Install into an environment.

    :param arguments: requirements, and options of ``uv pip install``.
    """
    run_uv("pip", "install", "--quiet", "--python", programs / "python", *arguments)


def find_python(version: tuple[int, int]) -> pathlib.Path | None:
    """Return the path of a Python that runs, or None: in PATH, or one of pyenv's."""
    name = "python{}.{}".format(*version)
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    paths: Sequence[pathlib.Path | str] = [
        *filter(None, [shutil.which(name)]), *sorted(pyenv.glob(f"versions/*/bin/{name}"))]
    for path in paths:
        # pyenv puts programs into PATH that do nothing unless their version was chosen.
        asked = subprocess.run([path, "--version"], capture_output=True, check=False)
        if not asked.returncode:
            return pathlib.Path(path)
    return None
