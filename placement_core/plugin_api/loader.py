"""Finding the driver that an option names: the only place that looks up entry points.

A driver that is missing, broken or there twice stops the service at its start,
with one line that names the option, its value and what is installed. It never
falls back in silence (requirement F4).
"""

from __future__ import annotations

from typing import TypeVar

from stevedore import extension, named

from placement_core import errors

T = TypeVar("T")


def load(namespace: str, name: str, base: type[T], *, option: str) -> type[T]:
    """Return the driver class that is registered as ``name``.

    :param namespace: the entry point group, such as ``placement_core.limits``.
    :param base: the class that every driver of this kind derives from.
    :param option: where ``name`` was read, such as ``[limits] driver``.
    :raises errors.ConfigurationError: there is no such driver, there are
        several, it cannot be imported, it is something else, or it was written
        for another version of ``base``.
    """
    failures: list[BaseException] = []
    found = named.NamedExtensionManager(
        namespace, [name], warn_on_missing_entrypoint=False,
        on_load_failure_callback=lambda _manager, _point, error: failures.append(error),
    ).extensions
    said = f"{option} = {name}"
    if failures:
        reason = f"{type(failures[0]).__name__}: {failures[0]}".splitlines()[0]
        raise errors.ConfigurationError(f"{said}: the driver cannot be loaded: {reason}")
    if not found:
        raise errors.ConfigurationError(
            f"{said}: no such driver; installed: {', '.join(_names(namespace)) or 'none'}")
    if len(found) > 1:
        places = ", ".join(sorted(each.entry_point_target for each in found))
        raise errors.ConfigurationError(f"{said}: registered more than once: {places}")
    driver = found[0].plugin
    if not (isinstance(driver, type) and issubclass(driver, base)):
        raise errors.ConfigurationError(
            f"{said}: {found[0].entry_point_target} is not a {base.__name__}")
    written_for, present = (getattr(each, "api_version", None) for each in (driver, base))
    if present is not None and written_for != present:
        raise errors.ConfigurationError(
            f"{said}: {found[0].entry_point_target} was written for version {written_for} of "
            f"{base.__name__}; this is version {present}")
    return driver


def _names(namespace: str) -> list[str]:
    points = extension.ExtensionManager(namespace).list_entry_points()
    return sorted({point.name for point in points})
