"""``placement-core plugins``: the drivers that are installed, and a package for a new one."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterable

from placement_core import errors
from placement_core.cli import base, plugin_packages
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


class WritePluginPackage(base.Command):
    """Write a Python package with a driver that works, its options and its tests.

    The package is a folder of the current one, or of --directory, which must not be there
    yet. Nothing is installed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("kind", choices=sorted(choices.KINDS), help="what the driver does")
        parser.add_argument(
            "name", help="by which the configuration names the driver; of a reservation plugin, "
            "the resource type, such as virtual:licence")
        parser.add_argument(
            "--directory", metavar="PATH", type=pathlib.Path, default=pathlib.Path(),
            help="where to make the folder, instead of here")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        files = plugin_packages.render(parsed_args.kind, parsed_args.name)
        folder = parsed_args.directory / plugin_packages.name_distribution(
            parsed_args.kind, parsed_args.name)
        try:
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
        except FileExistsError:
            raise base.Failed(f"{folder} is there already") from None
        self.say(f"wrote {folder}: {', '.join(files)}")
        self.say(f"next: pip install {folder}; its README.rst says how to choose the driver")
        return 0


def _describe_state(driver: loader.InstalledDriver, option: str | None) -> str:
    if driver.problem is not None:
        return driver.problem if option is None else f"{driver.problem}; {option} names it"
    return "available" if option is None else f"in use: {option}"
