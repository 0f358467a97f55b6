"""Read, save and migrate compute nodes, wherever their capacity is stored.

Callers need not know whether that is in inventories or in the cell's table. A node that is not
a resource provider yet becomes one when it is read, or in bulk (``migrate``), as soon as nova's
services are new enough. Until then its capacity is read from its cell's table.
Source: seed 001, requirements I1, I5 and I6.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from placement_core import errors as core_errors
from placement_core.cells import errors as cell_errors, mappings, watermarks
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.compute import capacity, errors, gate, migration, offers, rows
from placement_core.compute.capacity import Capacity
from placement_core.compute.gate import MigrationGate
from placement_core.compute.offers import Offer
from placement_core.compute.records import ComputeNode, NodeRow, State
from placement_core.context import Context
from placement_core.db import texts
from placement_core.placement import lookups
from placement_core.plugin_api.counting import MissingCell

LOG = logging.getLogger(__name__)

#: How many nodes one read migrates; the rest are left to the next read.
ON_LOAD = 50
#: The largest size of a page of nodes.
LARGEST_PAGE = 1000

_WATERMARK = "migrate_compute_nodes"
#: How many rows of a cell a migration reads at a time.
_PAGE = 200
#: A watermark is one number: a cell's id, then a node's id in this many bits.
_NODE_BITS = 32

#: (cell uuid, node id).
Key = tuple[str, int]
Located = tuple[Cell, NodeRow]


@dataclasses.dataclass(frozen=True, slots=True)
class NodePage:
    """A page of compute nodes.

    :ivar missing: the cells that did not answer, whose nodes are not in the page.
    :ivar more: whether there are nodes after the last one.
    """

    nodes: Sequence[ComputeNode]
    missing: Sequence[MissingCell]
    more: bool


@dataclasses.dataclass(slots=True)
class MigrationProgress:
    """The result of a run of the migration.

    :ivar gate: whether nodes may be migrated.
    :ivar found: how many nodes it found that are not migrated, or have changed since.
    :ivar done: how many of them it migrated.
    :ivar refused: why it did not migrate others, in sentences.
    :ivar remarks: what is not counted of the migrated nodes, in sentences.
    :ivar missing: the cells that did not answer.
    """

    gate: MigrationGate
    found: int = 0
    done: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    missing: list[MissingCell] = dataclasses.field(default_factory=list)

    @property
    def troubles(self) -> list[str]:
        """Why some nodes may not be migrated, in sentences."""
        closed = [] if self.gate.open or not self.found else [
            f"{self.found} compute nodes have to wait: {self.gate.reason}."]
        return [*closed, *self.refused, *(
            f"Cell {cell.name} is missing: {cell.reason}. Run this again when it is back."
            for cell in self.missing)]

    def add_missing(self, cells: Iterable[MissingCell]) -> None:
        """Add cells to ``missing``, each once."""
        uuids = {cell.uuid for cell in self.missing}
        self.missing += [cell for cell in cells if cell.uuid not in uuids]


def migrate_compute_nodes(ctx: Context, max_count: int, nodes: ComputeNodes) -> tuple[int, int]:
    """Make compute nodes resource providers (online migration).

    :returns: (how many nodes were found to migrate, how many of them were migrated).
    """
    progress = nodes.migrate(ctx, max_count)
    for line in (*progress.troubles, *progress.remarks):
        LOG.warning("%s: %s", _WATERMARK, line)
    return progress.found, progress.done


def count_waiting(ctx: Context, nodes: ComputeNodes) -> int:
    """Return how many compute nodes wait for ``migrate_compute_nodes``."""
    return nodes.dry_run(ctx).found


class ComputeNodes:
    """Reads, saves and migrates the compute nodes of all cells."""

    def __init__(self, conf: cfg.ConfigOpts, cells: CellDatabases) -> None:
        """Read the options of ``[compute]``.

        :raises core_errors.ConfigurationError: an option is not valid.
        """
        self._cells = cells
        self._rules = offers.OfferRules.from_conf(conf)
        self._minimum: int = conf.compute.minimum_service_version

    def list_(
        self, ctx: Context, *, cell: str | None = None, named: str | None = None,
        after: Key | None = None, limit: int = LARGEST_PAGE,
    ) -> NodePage:
        """Return a page of nodes, ordered by cell and, in a cell, by creation.

        It takes one statement in each cell, and one in the service's own database for all
        nodes. Nodes that are not migrated take more; up to ``ON_LOAD`` of them are migrated.

        :param cell: the uuid or name of the only cell to read.
        :param named: only nodes with this host or hypervisor_hostname.
        :param after: the last node of the previous page; it may be gone, its cell may not.
        :raises errors.BadMarker: the cell of ``after`` does not exist.
        :raises cells.errors.UnknownCell: the cell does not exist.
        :raises cells.errors.AmbiguousCell: several cells have this name.
        """
        all_cells = self._cells.cells(ctx)
        to_read = all_cells if cell is None else _pick(all_cells, cell)
        if named is not None and not texts.is_storable(named):
            to_read = []
        last_ids: dict[str, int] = {}
        if after is not None:
            cell_uuid, node_id = after
            uuids = [each.uuid for each in all_cells]
            if cell_uuid not in uuids:
                raise errors.BadMarker(f"{cell_uuid}.{node_id}")
            last_ids[cell_uuid] = node_id
            earlier = uuids[:uuids.index(cell_uuid)]
            to_read = [each for each in to_read if each.uuid not in earlier]

        def read(ctx: Context, cell: Cell) -> list[NodeRow]:
            return rows.list_page(
                ctx, after=last_ids.get(cell.uuid, 0), most=limit + 1, named=named)

        answers = self._cells.scatter_gather(ctx, read, to_read)
        located = [(each, node) for each in to_read
                   for node in answers.answers.get(each.uuid, ())]
        return NodePage(
            self._add_capacity(ctx, located[:limit]), answers.missing,
            more=len(located) > limit)

    def get(self, ctx: Context, uuid: str) -> ComputeNode:
        """Return a node.

        :raises errors.ComputeNodeNotFound: no cell has the node.
        :raises errors.CellsMissing: no cell that answers has the node, and some do not answer.
        :raises errors.DuplicateComputeNode: several nodes have this uuid.
        """
        [node] = self._add_capacity(ctx, [self._find(ctx, uuid)])
        return node

    def read_cpu_info(self, ctx: Context, node: ComputeNode) -> str | None:
        """Return ``cpu_info`` of a node: nova's JSON.

        :raises core_errors.Unavailable: its cell does not answer.
        """
        return rows.read_cpu_info(self._cells.of(ctx, node.cell), node.id)

    def save(self, ctx: Context, uuid: str, changes: Mapping[str, Any]) -> ComputeNode:
        """Update a node's capacity; return the node.

        The values are written to the inventories only; or, while some service of nova would
        read them there, to the cell's table only.

        :param changes: new values of vcpus, memory_mb, local_gb and the three ratios.
        :raises errors.ComputeNodeNotFound: no cell has the node.
        :raises errors.CellsMissing: no cell that answers has the node, and some do not answer.
        :raises errors.InvalidComputeNode: a value is not valid.
        :raises errors.NotMigratable: the values can be written to neither place.
        :raises placement.errors.InventoryInUse: an amount is 0, but there are allocations from it.
        """
        capacity.validate(changes)
        cell, row = self._find(ctx, uuid)
        [node] = self._add_capacity(ctx, [(cell, row)])
        if node.state is State.GATE_CLOSED:
            rows.update(self._cells.of(ctx, cell), node.id, changes)
        elif node.state is State.MIGRATED:
            capacity.save(ctx, uuid, changes, offers.parse_node(
                dataclasses.replace(row, **changes), self._rules).inventories)
        else:
            raise errors.NotMigratable(row.title, cell.title, node.reason)
        return self.get(ctx, uuid)

    def migrate(self, ctx: Context, max_count: int) -> MigrationProgress:
        """Migrate at most ``max_count`` nodes, starting where the last run stopped.

        Nodes that cannot be migrated, and cells that do not answer, do not delay others.
        """
        progress = MigrationProgress(gate.check(ctx, self._cells, self._minimum))
        if not progress.gate.open:
            return self._count(ctx, progress)
        start = watermarks.get(ctx, _WATERMARK)
        at = self._migrate(ctx, progress, max_count, start, None)
        if at is None and start:
            at = self._migrate(ctx, progress, max_count, 0, start)
        if (at or 0) != start:
            watermarks.put(ctx, _WATERMARK, at or 0)
        return progress

    def dry_run(self, ctx: Context) -> MigrationProgress:
        """Return what ``migrate`` would find, without writing anything."""
        return self._count(
            ctx, MigrationProgress(gate.check(ctx, self._cells, self._minimum)))

    def _count(self, ctx: Context, progress: MigrationProgress) -> MigrationProgress:
        progress.found = sum(1 for _ in self._list_due(ctx, progress, 0, None))
        return progress

    def _migrate(
        self, ctx: Context, progress: MigrationProgress, max_count: int, after: int,
        until: int | None,
    ) -> int | None:
        """Migrate nodes in order; return the watermark where it stopped, or None at the end."""
        for at, (cell, node), offer in self._list_due(ctx, progress, after, until):
            progress.found += 1
            outcome = self._migrate_one(ctx, cell, node, offer)
            if isinstance(outcome, Exception):
                progress.refused.append(str(outcome))
                continue
            progress.done += 1
            progress.remarks += [
                f"Compute node {node.title} in cell {cell.title}: {remark}."
                for remark in offer.remarks]
            if progress.done >= max_count:
                return at
        return None

    def _list_due(
        self, ctx: Context, progress: MigrationProgress, after: int, until: int | None
    ) -> Iterator[tuple[int, Located, Offer]]:
        """Yield nodes that are not migrated or have changed, each with its watermark."""
        for cell in self._cells.cells(ctx):
            first = cell.id << _NODE_BITS
            if after >= first + (1 << _NODE_BITS) or (until is not None and until <= first):
                continue
            for page in self._read_pages(ctx, progress, cell, max(after - first, 0)):
                offered, missing = self._read_offers(ctx, [(cell, node) for node in page])
                progress.add_missing(missing)
                migrated = migration.list_migrated(
                    ctx, {node.uuid for node in page if node.uuid})
                offers_of_page = [
                    (node, offered[cell.uuid, node.id]) for node in page
                    if (cell.uuid, node.id) in offered]
                used = migration.list_used(
                    ctx, [(node.uuid, offer) for node, offer in offers_of_page], migrated)
                for node, offer in offers_of_page:
                    if until is not None and first + node.id > until:
                        return
                    uuid = node.uuid or ""
                    if migration.is_due(
                            migrated.get(uuid), cell, node, offer, used.get(uuid, ())):
                        yield first + node.id, (cell, node), offer

    def _read_pages(
        self, ctx: Context, progress: MigrationProgress, cell: Cell, after: int
    ) -> Iterator[list[NodeRow]]:
        """Yield pages of a cell's rows; record in ``progress`` if the cell does not answer."""
        def read(ctx: Context, _cell: Cell) -> list[NodeRow]:
            return rows.list_page(ctx, after=after, most=_PAGE)

        while True:
            answers = self._cells.scatter_gather(ctx, read, [cell])
            progress.add_missing(answers.missing)
            page = answers.answers.get(cell.uuid)
            if not page:
                return
            after = page[-1].id
            yield page

    def _migrate_one(
        self, ctx: Context, cell: Cell, node: NodeRow, offer: Offer
    ) -> str | core_errors.Error:
        """Migrate a node; return its uuid, or the error that prevented it."""
        try:
            return migration.migrate_inventory(ctx, self._cells, cell, node, offer)
        except (errors.NotMigratable, core_errors.Unavailable) as error:
            return error

    def _read_offers(
        self, ctx: Context, located: Sequence[Located]
    ) -> tuple[dict[Key, Offer], Sequence[MissingCell]]:
        """Return what nodes offer, and the cells that do not answer; their nodes are left out."""
        ids: dict[str, list[int]] = collections.defaultdict(list)
        for cell, node in located:
            ids[cell.uuid].append(node.id)

        def read(ctx: Context, cell: Cell) -> Mapping[int, Mapping[str, int]]:
            return rows.count_devices(ctx, ids[cell.uuid])

        answers = self._cells.scatter_gather(
            ctx, read, list({cell.uuid: cell for cell, _ in located}.values()))
        devices = answers.answers
        shared = capacity.find_on_shared_storage(
            ctx, [node.uuid for _, node in located if node.uuid])
        return {
            (cell.uuid, node.id): offers.parse_node(
                node, self._rules, devices=devices[cell.uuid].get(node.id),
                shared_storage=node.uuid in shared)
            for cell, node in located if cell.uuid in devices}, answers.missing

    def _find(self, ctx: Context, uuid: str) -> Located:
        if not lookups.is_provider_uuid(uuid):
            raise errors.ComputeNodeNotFound(uuid)
        cells = self._cells.cells(ctx)
        answers = self._cells.scatter_gather(
            ctx, lambda ctx, _cell: rows.list_by_uuid(ctx, uuid), cells)
        # MySQL compares case-insensitively.
        located = [(cell, node) for cell in cells
                   for node in answers.answers.get(cell.uuid, ()) if node.uuid == uuid]
        if len(located) > 1:
            (cell, node), (other_cell, other) = located[:2]
            raise errors.DuplicateComputeNode(
                node.title, cell.title, uuid, other.title, other_cell.title)
        if not located and answers.missing:
            raise errors.CellsMissing([cell.name for cell in answers.missing])
        if not located:
            raise errors.ComputeNodeNotFound(uuid)
        return located[0]

    def _add_capacity(self, ctx: Context, located: Sequence[Located]) -> list[ComputeNode]:
        """Return nodes with their capacity; migrate the nodes that are not migrated yet."""
        capacities = capacity.list_inventories(
            ctx, [node.uuid for _, node in located if node.uuid])
        loaded = self._load(ctx, [
            (cell, node) for cell, node in located if (cell.uuid, node.id) not in capacities])
        capacities |= capacity.list_inventories(ctx, [
            node.uuid for node in loaded.values() if node.uuid and node.state is State.MIGRATED])
        nodes = []
        for cell, node in located:
            key = cell.uuid, node.id
            if key in capacities:
                before = loaded.get(key) or self._make_record(cell, node, State.MIGRATED)
                nodes.append(_add_inventories(before, capacities[key]))
            else:
                nodes.append(loaded[key])
        return nodes

    def _load(self, ctx: Context, located: Sequence[Located]) -> dict[Key, ComputeNode]:
        """Migrate nodes that are read; return them, with the reasons why some are not migrated."""
        if not located:
            return {}
        offered, _ = self._read_offers(ctx, located)
        checked = gate.check(ctx, self._cells, self._minimum)
        nodes = {}
        for number, (cell, node) in enumerate(located):
            offer = offered.get((cell.uuid, node.id))
            if offer is None:
                reason = f"cell {cell.title} is missing"
                record = self._make_record(cell, node, State.PENDING, reason)
                offer = offers.parse_node(node, self._rules)
            elif not checked.open:
                record = self._make_record(cell, node, State.GATE_CLOSED, checked.reason)
                if node.uuid is None and number < ON_LOAD:
                    record = self._give_uuid(ctx, cell, node, record)
            elif number >= ON_LOAD:
                record = self._make_record(cell, node, State.PENDING, "it was not its turn yet")
            else:
                outcome = self._migrate_one(ctx, cell, node, offer)
                if isinstance(outcome, errors.NotMigratable):
                    record = self._make_record(cell, node, State.REFUSED, outcome.reason)
                elif isinstance(outcome, core_errors.Error):
                    record = self._make_record(cell, node, State.PENDING, str(outcome))
                else:
                    record = dataclasses.replace(
                        self._make_record(cell, node, State.MIGRATED), uuid=outcome)
            nodes[cell.uuid, node.id] = dataclasses.replace(
                record, inventories=offer.inventories, remarks=tuple(offer.remarks))
        return nodes

    def _give_uuid(
        self, ctx: Context, cell: Cell, node: NodeRow, record: ComputeNode
    ) -> ComputeNode:
        """Give a node that is read a uuid, which need not wait for the gate."""
        try:
            uuid = migration.give_uuid(self._cells.of(ctx, cell), cell, node).uuid
        except errors.NotMigratable as error:
            return dataclasses.replace(record, reason=f"{record.reason}; {error.reason}")
        except core_errors.Unavailable:
            return record
        return dataclasses.replace(record, uuid=uuid)

    def _make_record(
        self, cell: Cell, node: NodeRow, state: State, reason: str = ""
    ) -> ComputeNode:
        """Return a node with the values of its row."""
        ratios: dict[str, Any] = {
            ratio: getattr(node, ratio) or self._rules.ratios[name]
            for name, (_, ratio) in capacity.FIELDS.items()}
        return ComputeNode(
            cell, node.id, node.uuid, node.host, node.hypervisor_hostname,
            node.hypervisor_type, node.hypervisor_version, node.vcpus, node.memory_mb,
            node.local_gb, **ratios, inventories={}, state=state, reason=reason,
            created_at=_make_aware(node.created_at), updated_at=_make_aware(node.updated_at))


def _pick(cells: list[Cell], cell: str) -> list[Cell]:
    try:
        return [mappings.pick(cells, cell)]
    except cell_errors.CellNotFound:
        raise cell_errors.UnknownCell(cell) from None


def _make_aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC)


def _add_inventories(node: ComputeNode, inventories: Capacity) -> ComputeNode:
    """Return a node with the values of its inventories; an amount without inventory is 0."""
    fields: dict[str, Any] = {}
    for name, (amount, ratio) in capacity.FIELDS.items():
        fields[amount] = inventories[name].total if name in inventories else 0
        if name in inventories:
            fields[ratio] = inventories[name].allocation_ratio
    return dataclasses.replace(node, inventories=inventories, **fields)
