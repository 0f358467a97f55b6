"""The options with which a command line names the configuration."""

from __future__ import annotations

import argparse
from typing import Any


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--config-file`` and ``--config-dir``, both repeatable."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        "--config-file", action="append", default=[], metavar="PATH",
        help="read options from this file instead of /etc/placement/placement.conf; repeatable")
    group.add_argument(
        "--config-dir", action="append", default=[], metavar="PATH",
        help="read the *.conf files of this directory too; repeatable")


def get_config_sources(*namespaces: Any) -> tuple[list[str] | None, list[str] | None]:
    """Return the files and directories that parsed command lines name; None: none."""
    files = [path for namespace in namespaces for path in namespace.config_file]
    folders = [path for namespace in namespaces for path in namespace.config_dir]
    return files or None, folders or None
