"""Load the driver that an option names; the only module that looks up entry points.

The service does not start with a driver that is missing, broken or registered twice. The error
is one line with the option, its value and the reason. There is no silent fallback (requirement
F4).
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import itertools
from collections.abc import Mapping
from typing import TypeVar

from stevedore import extension, named

from placement_core import errors

T = TypeVar("T")

#: Entry points of every kind of driver are in groups that begin with this.
PREFIX = "placement_core."


@dataclasses.dataclass(frozen=True, slots=True)
class InstalledDriver:
    """An entry point of a driver.

    :ivar target: ``module:class``.
    :ivar distribution: name and version of the distribution that has the entry point.
    :ivar problem: why the driver cannot be used; None: it can.
    """

    kind: str
    name: str
    target: str
    distribution: str
    problem: str | None


def load(namespace: str, name: str, base: type[T], *, option: str) -> type[T]:
    """Return the driver class that is registered as ``name``.

    :param namespace: the entry point group, such as ``placement_core.limits``.
    :param base: the class that every driver of this kind derives from.
    :param option: the option that names it, such as ``[limits] driver``.
    :raises errors.ConfigurationError: the driver is not installed or registered twice, cannot
        be imported, does not derive from ``base``, was not written for this version of it, or
        cannot have this name.
    """
    failures: list[tuple[importlib.metadata.EntryPoint, BaseException]] = []
    extensions = named.NamedExtensionManager(
        namespace, [name], warn_on_missing_entrypoint=False,
        on_load_failure_callback=lambda _manager, point, error: failures.append((point, error)),
    ).extensions
    where = f"{option} = {name}"
    if failures:
        raise errors.ConfigurationError(
            f"{where}: the driver cannot be loaded: {describe_error(failures[0][1])} "
            f"({_describe_origin(failures[0][0])})")
    if not extensions:
        raise errors.ConfigurationError(
            f"{where}: no such driver; installed: {', '.join(_list_names(namespace)) or 'none'}")
    if len(extensions) > 1:
        places = ", ".join(sorted(
            f"{found.entry_point_target} ({_describe_origin(found.entry_point)})"
            for found in extensions))
        raise errors.ConfigurationError(f"{where}: registered more than once: {places}")
    driver: type[T] = extensions[0].plugin
    target = extensions[0].entry_point_target
    problem = find_mismatch(target, driver, base) or _find_misnaming(name, target, driver)
    if problem is not None:
        raise errors.ConfigurationError(
            f"{where}: {problem} ({_describe_origin(extensions[0].entry_point)})")
    return driver


def list_installed(bases: Mapping[str, type]) -> list[InstalledDriver]:
    """Return every entry point of the kinds, sorted; each is imported to see whether it works.

    :param bases: {kind: the class that its drivers derive from}.
    """
    return sorted(
        (driver for kind, base in bases.items() for driver in _examine_kind(kind, base)),
        key=lambda driver: (driver.kind, driver.name, driver.target))


def find_distribution(namespace: str, name: str) -> str:
    """Return name and version of the distribution that has a driver's entry point."""
    points = importlib.metadata.entry_points(group=namespace, name=name)
    return ", ".join(sorted(_describe_distribution(point) for point in points))


def describe_error(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message."""
    first_line, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def find_mismatch(target: str, driver: object, base: type) -> str | None:
    """Return why something is no driver for this version of its base class; None: it is one.

    :param target: what the sentence calls it, such as ``module:class``.
    """
    if not (isinstance(driver, type) and issubclass(driver, base)):
        return f"{target} is not a {base.__name__}"
    written_for, present = (getattr(each, "api_version", None) for each in (driver, base))
    if present is None:
        return None
    # An inherited number would match every version.
    if not any("api_version" in vars(class_) for class_ in itertools.takewhile(
            lambda class_: class_ is not base, driver.__mro__)):
        return (f"{target} does not say for which version of {base.__name__} it was written "
                f"(api_version); this is version {present}")
    if written_for != present:
        return (f"{target} was written for version {written_for} of {base.__name__}; "
                f"this is version {present}")
    return None


def _examine_kind(kind: str, base: type) -> list[InstalledDriver]:
    points = list(importlib.metadata.entry_points(group=f"{PREFIX}{kind}"))
    names = [point.name for point in points]
    return [
        InstalledDriver(
            kind, point.name, point.value, _describe_distribution(point),
            "registered more than once" if names.count(point.name) > 1
            else _find_problem(point, base))
        for point in points]


def _find_problem(point: importlib.metadata.EntryPoint, base: type) -> str | None:
    try:
        driver = point.load()
    except Exception as error:  # noqa: BLE001  whatever its author did
        return f"it cannot be loaded: {describe_error(error)}"
    return (find_mismatch(point.value, driver, base)
            or _find_misnaming(point.name, point.value, driver))


def _find_misnaming(name: str, target: str, driver: type) -> str | None:
    """Ask a driver why it cannot have a name, if its kind, which is not imported here, says so."""
    find_misnaming = getattr(driver, "find_misnaming", None)
    misnaming = None if find_misnaming is None else find_misnaming(name)
    return None if misnaming is None else f"{target} {misnaming}"


def _describe_origin(point: importlib.metadata.EntryPoint) -> str:
    """Return name and version of an entry point's distribution, which stevedore forgets."""
    for known in importlib.metadata.entry_points(group=point.group, name=point.name):
        if known.value == point.value:
            return _describe_distribution(known)
    return "of no distribution"


def _describe_distribution(point: importlib.metadata.EntryPoint) -> str:
    if point.dist is None:
        return "of no distribution"
    return f"{point.dist.name} {point.dist.version}"


def _list_names(namespace: str) -> list[str]:
    points = extension.ExtensionManager(namespace).list_entry_points()
    return sorted({point.name for point in points})
