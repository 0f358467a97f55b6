"""``placement-core compute …``: the compute nodes of cells as resource providers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from placement_core.cells import mappings
from placement_core.cli import base
from placement_core.compute.nodes import Key
from placement_core.compute.records import ComputeNode
from placement_core.migrations import contract, online
from placement_core.plugin_api.counting import MissingCell

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class ListComputeNodes(base.Lister):
    """List compute nodes: their capacity, and whether it is in inventories.

    A node that is not migrated yet is migrated when it is read, up to 50 for each 1000.
    Exit code 1: a cell is missing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--cell", metavar="CELL", help="only those of this cell")
        parser.add_argument("--name", metavar="NAME",
                            help="only those whose host or hypervisor_hostname this is")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        self.empty = "No cell has compute nodes" + base.describe_filters(
            cell=parsed_args.cell, name=parsed_args.name) + "."
        nodes: list[ComputeNode] = []
        missing: dict[str, MissingCell] = {}
        with self.parts(parsed_args) as (parts, ctx):
            after: Key | None = None
            while True:
                page = parts.compute_nodes.list_(
                    ctx, cell=parsed_args.cell, named=parsed_args.name, after=after)
                nodes += page.nodes
                # A page asks only the cells from the one on in which the last ended.
                missing |= {each.uuid: each for each in page.missing}
                if not page.more:
                    break
                after = nodes[-1].cell.uuid, nodes[-1].id
        for each in missing.values():
            print(f"cell {each.name} is missing: {each.reason}", file=sys.stderr)
            self.exit_code = 1
        return ("cell", "hypervisor_hostname", "uuid", "vcpus", "memory_mb", "local_gb",
                "inventories", "state", "reason", "remarks"), [_make_row(node) for node in nodes]


class MigrateComputeNodes(base.Command):
    """Make compute nodes resource providers with inventories, while everything runs.

    Safe to repeat: nodes that changed since are brought up to date. Exit code 0: nothing
    is left. 1: some nodes or cells are, and it says why.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx), self.progress() as progress:
            guard = online.ProgressGuard(lambda: parts.compute_nodes.dry_run(ctx).found)
            waiting, done = guard.waiting, 0
            while True:
                batch = parts.compute_nodes.migrate(ctx, online.BATCH)
                done += batch.done
                guard.add(batch.done)
                for line in batch.remarks:
                    progress.say(line)
                progress.report("compute nodes", done, waiting)
                if batch.done < online.BATCH:
                    break
        self.say(f"{done} compute nodes migrated")
        for line in batch.troubles:
            self.say(line)
        return 1 if batch.troubles else 0


class ContractComputeNodes(base.Command):
    """Make compute_nodes.uuid of a cell NOT NULL and unique.

    For cells whose tables "cells sync" made; nova's own databases stay as they are.
    Refused while a node of the cell is not migrated. Safe to repeat.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("cell", metavar="CELL", help="the name or uuid of a cell")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            cell = mappings.get(ctx, parts.cells, parsed_args.cell)
            contract.contract_cell(ctx, parts.cells, cell, self.say)
        return 0


def _make_row(node: ComputeNode) -> tuple[object, ...]:
    return (
        node.cell.name, node.hypervisor_hostname, node.uuid, node.vcpus, node.memory_mb,
        node.local_gb, _Inventories({
            name: {"total": values.total, "reserved": values.reserved,
                   "max_unit": values.max_unit, "allocation_ratio": values.allocation_ratio}
            for name, values in node.inventories.items()}),
        node.state.value, node.reason, _Lines(list(node.remarks)))


class _Inventories(base.FormattableColumn):
    """Inventories; people read their totals."""

    def human_readable(self) -> str:
        """Return a line for each class."""
        return "\n".join(
            f"{name}: {values['total']}" for name, values in sorted(self._value.items()))


class _Lines(base.FormattableColumn):
    """Sentences, one a line."""

    def human_readable(self) -> str:
        """Return them below each other."""
        return "\n".join(self._value)
