"""The package that ``placement-core plugins new`` writes: a driver to start from.

Each kind has a small driver that works, with the contract suite of its kind. The chapters of the
guide for authors show these very files.
"""

from __future__ import annotations

import pathlib
import re
import string
import textwrap

from placement_core import errors
from placement_core.plugin_api import loader

_TEMPLATES = pathlib.Path(__file__).with_name("plugin_templates")
_LONGEST_NAME = 64
#: What a name consists of, in words and as an expression; clients name resource types.
_NAMES = {
    "reservations": ("a resource type such as virtual:licence",
                     re.compile(r"[a-z][a-z0-9_]*:[a-z0-9_.]*[a-z0-9]")),
}
_PLAIN_NAME = ("letters from a to z, digits and underscores, a letter first",
               re.compile(r"[a-z][a-z0-9_]*[a-z0-9]|[a-z]"))
#: What a driver's package needs beside oslo.config and the service.
_DEPENDENCIES = {"compute": ("requests",)}


def render(kind: str, name: str) -> dict[str, str]:
    """Return the files of a package: {file name: text}.

    :param name: by which the configuration, or a client, names the driver.
    :raises errors.Invalid: a driver cannot have this name.
    """
    _check_name(kind, name)
    words = _split(kind, name)
    module = "_".join(words)
    values = {
        "kind": kind, "name": name, "module": module,
        "distribution": name_distribution(kind, name),
        "class_name": "".join(word.capitalize() for word in words),
        "unit": "_".join(["CUSTOM", *re.split(r"[:._]+", name)]).upper(),
        "underline": "=" * len(module),
        "dependencies": "".join(f', "{each}"' for each in _DEPENDENCIES.get(kind, ())),
    }
    sample = _fill(f"{kind}/placement.conf", values)
    values["configuration"] = textwrap.indent(sample, "    ")
    return {
        "README.rst": _fill("README.rst", values),
        "placement.conf.sample": sample,
        "pyproject.toml": _fill("pyproject.toml", values),
        f"{module}.py": _fill(f"{kind}/driver.py", values),
        f"test_{module}.py": _fill(f"{kind}/test_driver.py", values),
    }


def name_distribution(kind: str, name: str) -> str:
    """Return how pip calls the package, which is the name of its folder, too."""
    return "-".join(_split(kind, name))


def _split(kind: str, name: str) -> list[str]:
    return [*re.split(r"[:._]+", name), *kind.split("_")]


def _check_name(kind: str, name: str) -> None:
    expected, pattern = _NAMES.get(kind, _PLAIN_NAME)
    if len(name) > _LONGEST_NAME or not pattern.fullmatch(name):
        raise errors.Invalid(
            f"{name!r} cannot be the name of a {kind} driver: expected {expected}, at most "
            f"{_LONGEST_NAME} characters")
    origin = loader.find_distribution(f"{loader.PREFIX}{kind}", name)
    if origin:
        raise errors.Invalid(f"there is a {kind} driver {name} already, of {origin}")


def _fill(template: str, values: dict[str, str]) -> str:
    text = (_TEMPLATES / f"{template}.tmpl").read_text(encoding="utf-8")
    return string.Template(text).substitute(values)
