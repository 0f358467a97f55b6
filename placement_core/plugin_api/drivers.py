"""Construct the drivers that options choose, and name them in their errors.

Errors of the domain (``errors.Error``) pass unchanged; so do those of the database, except in a
constructor. Any other exception is a defect of the driver, and is raised again with its name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_config import cfg

from placement_core import errors
from placement_core.conf import loading
from placement_core.db import failures
from placement_core.plugin_api import loader
from placement_core.plugin_api.choices import KINDS, DriverChoice

T = TypeVar("T")


class DriverFailed(Exception):
    """A driver raised an unexpected exception; the message names both in one line."""


def make(conf: cfg.ConfigOpts, choice: DriverChoice, base: type[T]) -> T:
    """Load and construct a driver.

    :raises errors.ConfigurationError: the driver cannot be loaded (``loader.load``), or its
        constructor raised an exception. An ``errors.Error`` of the constructor is not wrapped.
    """
    namespace = f"{loader.PREFIX}{choice.kind}"
    # Drivers of every kind are constructed from the options, which ``base`` does not declare.
    construct: Callable[[cfg.ConfigOpts], T] = loader.load(
        namespace, choice.name, base, option=choice.option)

    def describe() -> str:
        # Only for failures: it looks through all installed distributions.
        origin = loader.find_distribution(namespace, choice.name)
        return f"{choice.kind} driver {choice.name} of {origin}"

    try:
        driver = construct(conf)
        _name_failures(driver, KINDS[choice.kind], lambda: f"{describe()} ({choice.option})")
    except errors.Error:
        raise
    except Exception as error:
        reason = (loading.describe_bad_value(error)
                  if isinstance(error, cfg.ConfigSourceValueError)
                  else loader.describe_error(error))
        raise errors.ConfigurationError(
            f"{choice.option} = {choice.name}: the {describe()} cannot be made: {reason}"
        ) from error
    return driver


def _name_failures(driver: object, base: type, describe: Callable[[], str]) -> None:
    """Wrap every method of the interface, so that its exceptions name the driver."""
    for name, _ in inspect.getmembers(base, inspect.isfunction):
        if not name.startswith("_"):
            # As it is bound to this driver: its author may have made it static, or have set it.
            object.__setattr__(driver, name, _make_call(name, getattr(driver, name), describe))


def _make_call(
    name: str, method: Callable[..., Any], describe: Callable[[], str]
) -> Callable[..., Any]:
    # Its signature is that of the driver's own method: callers look at what it takes.
    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except (errors.Error, DriverFailed):
            raise
        except Exception as error:
            if failures.is_of_database(error):
                raise
            raise DriverFailed(
                f"the {describe()} failed in {name}: {loader.describe_error(error)}") from error

    return call
