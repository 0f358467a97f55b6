"""The ``placement-core`` command: one module for each group of subcommands.

A command reads the configuration, calls one function of the rooms below and
prints what it returned. Errors are one line on stderr and exit code 1.
"""
