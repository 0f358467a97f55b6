"""``placement-core config check`` and ``config show``: what is set, where, and what is wrong."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from oslo_config import cfg

from placement_core import app, errors
from placement_core.cli import base
from placement_core.conf import namespaces, settings
from placement_core.masking import MASK, mask_text, mask_url

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

#: What the names of secret options end with that are URLs of databases.
_URL = "connection"

#: Who set a value, as far as oslo.config tells them apart; the rest are defaults.
_SET = (cfg.Locations.user, cfg.Locations.environment, cfg.Locations.command_line)


class CheckConfig(base.Command):
    """Check the configuration: values, misspelt names, and what the parts of the service need.

    Exit code 1: something is wrong. The database is not asked ("status upgrade check" does).
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        options = self.load_options(parsed_args)
        problems = settings.find_unknown(options)
        try:
            app.check_configuration(options)
        except errors.ConfigurationError as error:
            problems.append(str(error))
        for problem in problems:
            self.say(problem)
        if not problems:
            self.say("nothing is wrong with " + ", ".join(_list_sources(options)))
        return 1 if problems else 0


class ShowConfig(base.Lister):
    """Show the values that are in force, and where each comes from. Secrets are masked."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--set", action="store_true", dest="only_set",
                            help="only what a file or the environment sets")
        parser.add_argument("section", metavar="SECTION", nargs="?",
                            help="only the options of this section")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        options = self.conf(parsed_args)
        rows = [
            (group, option.dest, _OptionValue(_mask(option, value)), _describe(location))
            for group, option, value, location in _read_values(options)
            if parsed_args.section in (None, group)
            and (_is_set(location) or not parsed_args.only_set)]
        if parsed_args.section is not None and not rows and not parsed_args.only_set:
            raise base.Failed(f"there is no section [{parsed_args.section}]")
        return ("section", "option", "value", "source"), rows


class _OptionValue(base.FormattableColumn):
    """A value of any type; machines read it as it is."""

    def human_readable(self) -> str:
        """Return it as it would stand in a file."""
        value = self._value
        if isinstance(value, list):
            return ",".join(map(str, value))
        if isinstance(value, dict):
            return ",".join(f"{key}:{item}" for key, item in value.items())
        return "" if value is None else str(value)


def _read_values(
    options: cfg.ConfigOpts
) -> Iterable[tuple[str, cfg.Opt, object, cfg.LocationInfo | None]]:
    """Return each option that may be set, with its value and who set it."""
    known = namespaces.load_options().groups
    for group, auth_options in settings.list_auth_options(
            settings.read_settings(options)).items():
        known[group] = [*known.get(group, ()), *auth_options]
    for group, group_options in sorted(known.items()):
        for option in {option.dest: option for option in group_options}.values():
            options.register_opt(option, group=None if group == "DEFAULT" else group)
            values = options if group == "DEFAULT" else options[group]
            location = options.get_location(option.dest, None if group == "DEFAULT" else group)
            yield group, option, values[option.dest], location


def _mask(option: cfg.Opt, value: object) -> object:
    if isinstance(value, list):  # of an option that may be given several times
        return [_mask(option, item) for item in value]
    if not isinstance(value, str):
        return value
    if not option.secret:
        return mask_text(value)
    # A password may look like a URL: only what is one is shown in part.
    if option.dest.endswith(_URL):
        return mask_url(value)
    return MASK if value else value


def _is_set(location: cfg.LocationInfo | None) -> bool:
    return location is not None and location.location in _SET


def _describe(location: cfg.LocationInfo | None) -> str:
    return str(location.detail) if location is not None and _is_set(location) else "default"


def _list_sources(options: cfg.ConfigOpts) -> list[str]:
    """Return the files, and say that the environment was read."""
    return [*settings.list_files(options), "the environment"]
