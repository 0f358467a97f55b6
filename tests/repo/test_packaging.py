"""What the product imports is what it says it needs, and tox runs what make does."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import pathlib
import re
import sys

from tests import base

ROOT = pathlib.Path(__file__).parents[2]

#: Imported where a database, a driver or an option needs it: an extra has it.
_IN_EXTRAS = {"aiohappyeyeballs", "aiohttp", "httptools", "jinja2", "markupsafe", "openstack",
              "opentelemetry", "psycopg", "pymysql", "uvloop"}


class TestPackaging(base.TestCase):
    """setup.cfg and the imports agree."""

    def test_dependencies_are_declared(self) -> None:
        """Each import is in the standard library, ours, or a dependency's."""
        declared = {_normal(name) for name in _requirements()}
        providers = importlib.metadata.packages_distributions()
        for module, path in _imports().items():
            owners = {_normal(name) for name in providers.get(module, [])}
            self.assertTrue(owners & declared, f"{path} imports {module} of {owners}")

    def test_packages_of_both_roots(self) -> None:
        """Every folder with code has an __init__.py, so that it is installed."""
        for root in ("placement_core", "plugins/placement_plugins"):
            for path in (ROOT / root).rglob("*.py"):
                self.assertTrue((path.parent / "__init__.py").exists(), path)


    def test_other_files(self) -> None:
        """What is no module is listed as a package's data, so that it is installed, too."""
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        listed = {
            path for package, patterns in setup["options.package_data"].items()
            for pattern in patterns.split()
            for path in ROOT.joinpath(*package.split(".")).glob(pattern)}
        present = {path for path in (ROOT / "placement_core").rglob("*")
                   if path.is_file() and path.suffix not in (".py", ".pyc")}
        self.assertEqual(present, listed)


class TestFrontDoor(base.TestCase):
    """There is one list of what can be run: the Makefile's."""

    def test_tox_runs_make(self) -> None:
        targets = re.findall(r"(?m)^([a-z-]+):.*##", (ROOT / "Makefile").read_text())
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(ROOT / "tox.ini")
        environments = [name for name in tox.sections() if name.startswith("testenv:")]
        self.assertEqual(6, len(environments))
        for name in environments:
            make, target, *_ = tox[name]["commands"].split()
            self.assertEqual("make", make, name)
            self.assertIn(target, targets, name)


def _requirements() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].split()
    return [re.split(r"[<>=!~\[;]", line)[0] for line in lines]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse(path: pathlib.Path) -> ast.Module:
    """Parse a module, once more where another thread parsed something at the same time.

    Python before 3.11.5 counts the depth of all threads together (CPython issue 106905), and
    parses whenever somebody logs a traceback.
    """
    try:
        return ast.parse(path.read_text())
    except SystemError:
        return ast.parse(path.read_text())


def _imports() -> dict[str, pathlib.Path]:
    """Return the third-party modules that are imported: {top-level name: by which file}."""
    found: dict[str, pathlib.Path] = {}
    for root in ("placement_core", "plugins/placement_plugins"):
        for path in (ROOT / root).rglob("*.py"):
            for node in ast.walk(_parse(path)):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                else:
                    continue
                for name in names:
                    found.setdefault(name.split(".")[0], path)
    ours = {"placement_core", "placement_plugins", *sys.stdlib_module_names, *_IN_EXTRAS}
    return {name: path for name, path in found.items() if name not in ours}
