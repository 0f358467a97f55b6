"""Read the options from files, the environment and the command line."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence

from oslo_config import cfg

from placement_core import errors
from placement_core.conf import options

_CONFIG_DIR_VARIABLE = "OS_PLACEMENT_CONFIG_DIR"
_DEFAULT_DIR = "/etc/placement"
_FILE = "placement.conf"
#: The database that ``make serve`` creates.
_EMBEDDED = "placement.sqlite"

#: The prefix of oslo.config's messages about bad values, with the option and the source.
_LOCATION = re.compile(
    r"^Value for option (\S+) from LocationInfo\(.*?detail='(.*?)'\) is not valid: ")

#: The part of oslo.config's message about a line that it cannot parse, and the line itself, which
#: may contain a password.
_LINE = re.compile(r"( at \S+:[0-9]+, [^:]*).*")


def load(
    argv: Sequence[str] = (),
    *,
    config_files: Sequence[str] | None = None,
    config_dirs: Sequence[str] | None = None,
    embedded: bool = False,
    connection: str | None = None,
) -> cfg.ConfigOpts:
    """Read the service's options.

    :param argv: command-line options of oslo.config, such as ``--config-file``.
    :param config_files: instead of ``placement.conf`` in
        ``$OS_PLACEMENT_CONFIG_DIR`` or ``/etc/placement``.
    :param config_dirs: instead of ``placement.conf.d`` beside it.
    :param embedded: whether to use ``placement.sqlite`` in the working directory, if it exists
        and no configuration file is read.
    :param connection: instead of that of ``[placement_database]``, wherever it is set.
    :raises errors.ConfigurationError: an option is missing or not valid, or a file or ``argv``
        cannot be parsed; the message is one line.
    """
    folder = pathlib.Path(os.environ.get(_CONFIG_DIR_VARIABLE, "").strip() or _DEFAULT_DIR)
    if config_files is None:
        config_files = [str(folder / _FILE)] if (folder / _FILE).is_file() else []
        if config_dirs is None:
            beside = folder / f"{_FILE}.d"
            config_dirs = [str(beside)] if beside.is_dir() else []
    conf = cfg.ConfigOpts()
    options.register(conf)
    if embedded and not (config_files or config_dirs) and pathlib.Path(_EMBEDDED).is_file():
        conf.set_default(
            "connection", f"sqlite:///{pathlib.Path(_EMBEDDED).absolute()}", "placement_database")
        # Without a configuration there are no cells to count in.
        conf.set_default("count_usage_from_placement", True, "quota")
    if connection is not None:
        conf.set_override("connection", connection, "placement_database")
    try:
        conf(
            list(argv),
            project="placement",
            default_config_files=list(config_files),
            default_config_dirs=list(config_dirs or []),
        )
        _read_everything(conf)
    except cfg.RequiredOptError as error:
        raise errors.ConfigurationError(_describe_missing(error)) from None
    except cfg.ConfigFileParseError as error:
        raise errors.ConfigurationError(_LINE.sub(r"\1", " ".join(str(error).split()))) from None
    except (cfg.Error, ValueError) as error:
        raise errors.ConfigurationError(" ".join(str(error).split())) from None
    return conf


def describe_bad_value(error: cfg.ConfigSourceValueError) -> str:
    """Return option, source and reason of a value that was refused, as one line."""
    return " ".join(_LOCATION.sub(r"option \1, \2: ", str(error)).split())


def uses_embedded(conf: cfg.ConfigOpts) -> bool:
    """Return whether the database is the embedded one, used without a configuration."""
    location = conf.get_location("connection", "placement_database")
    return location is not None and location.location is cfg.Locations.set_default


def _describe_missing(error: cfg.RequiredOptError) -> str:
    group = str(getattr(error.group, "name", error.group) or "DEFAULT")
    return (
        f"[{group}] {error.opt_name}: expected a value; set it in placement.conf or as "
        f"OS_{group.upper()}__{error.opt_name.upper()} in the environment"
    )


def _read_everything(conf: cfg.ConfigOpts) -> None:
    """Read each option once, because bad values in the environment are only detected then."""
    for group, group_options in options.list_opts():
        for option in group_options:
            values = conf if group is None else conf[group.name]
            try:
                values[option.dest]
            except ValueError as error:
                name = "DEFAULT" if group is None else group.name
                reason = _LOCATION.sub(r"\2: ", str(error))
                raise errors.ConfigurationError(f"[{name}] {option.name}: {reason}") from None
