"""``placement-core plugins list``: which drivers are installed, and what is wrong with them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from placement_core import errors
from placement_core.cli import base
from placement_core.plugin_api import choices, loader


class ListPlugins(base.Lister):
    """List the installed drivers of every kind, where each comes from, and which are in use.

    The state of a driver is "in use" with the option that names it, "available", or why it
    cannot be used. Without a configuration none is in use.
    """

    empty = "No drivers are installed: reinstall placement-core."

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[str, ...]]]:
        """Run the command."""
        options = self._find_options(parsed_args)
        return ("kind", "name", "class", "distribution", "state"), [
            (driver.kind, driver.name, driver.target, driver.distribution,
             _describe_state(driver, options.get((driver.kind, driver.name))))
            for driver in loader.list_installed(choices.KINDS)]

    def _find_options(self, parsed_args: argparse.Namespace) -> dict[tuple[str, str], str]:
        """Return the options that name drivers: {(kind, name): option}."""
        try:
            chosen = choices.list_choices(self.conf(parsed_args))
        except errors.ConfigurationError as error:
            self.note(f"which drivers are in use is not known: {error}")
            return {}
        return {(choice.kind, choice.name): choice.option for choice in reversed(chosen)}


def _describe_state(driver: loader.InstalledDriver, option: str | None) -> str:
    if driver.problem is not None:
        return driver.problem if option is None else f"{driver.problem}; {option} names it"
    return "available" if option is None else f"in use: {option}"
