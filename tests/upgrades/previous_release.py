"""The code of the previous release, from the history of this repository."""

from __future__ import annotations

import io
import pathlib
import subprocess
import tarfile
import tomllib

from alembic import config, script

ROOT = pathlib.Path(__file__).parents[2]
_PACKAGES = ("placement_core", "plugins")


def read_commit() -> str:
    """Return the commit that ``pyproject.toml`` names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return str(settings["tool"]["placement-core"]["previous-release"])


def find_missing() -> str | None:
    """Say what is missing of the history; None: the previous release is there."""
    commit = read_commit()
    done = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True)
    if not done.returncode:
        return None
    return f"an upgrade from {commit[:7]}, which this clone does not have (git fetch --unshallow)"


def unpack(folder: pathlib.Path) -> pathlib.Path:
    """Write the code of the previous release into a folder; return it.

    It runs with the libraries of this version.
    """
    done = subprocess.run(
        ["git", "archive", read_commit(), *_PACKAGES], cwd=ROOT, capture_output=True,
        check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_head(folder: pathlib.Path) -> str:
    """Return the newest revision of the schema of unpacked code."""
    settings = config.Config()
    settings.set_main_option("script_location", str(folder / "placement_core" / "migrations"))
    return str(script.ScriptDirectory.from_config(settings).get_current_head())
