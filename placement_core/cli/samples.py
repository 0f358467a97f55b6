"""``placement-core config sample`` and ``policy sample``: files to start from."""

from __future__ import annotations

import argparse

from oslo_config import cfg, generator
from oslo_policy import generator as policy_generator

from placement_core.cli import base
from placement_core.conf import namespaces


class _SampleCommand(base.Command):
    """A command that writes what a file should hold."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--output-file", metavar="PATH",
                            help="write to this file instead of the standard output")
        return parser


class WriteConfigSample(_SampleCommand):
    """Write a placement.conf with every option, its help and its default."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        arguments = [f"--namespace={name}"
                     for name in (*namespaces.list_own(), *namespaces.LIBRARIES)]
        if parsed_args.output_file is not None:
            arguments.append(f"--output-file={parsed_args.output_file}")
        conf(arguments, default_config_files=[], default_config_dirs=[])
        generator.generate(conf)
        return 0


class WritePolicySample(_SampleCommand):
    """Write a policy.yaml with every rule, what it guards and its default."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        arguments = ["--namespace=placement_core"]
        if parsed_args.output_file is not None:
            arguments.append(f"--output-file={parsed_args.output_file}")
        policy_generator.generate_sample(arguments, cfg.ConfigOpts())
        return 0
