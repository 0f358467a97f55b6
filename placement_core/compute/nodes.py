"""Compute nodes: their capacity is in inventories, and callers notice nothing of that.

A node that is not a resource provider yet becomes one when it is read, and all of them do
in bulk (``migrate``), as soon as nova's services are new enough. Until then its capacity is
what its cell's table says.
Source: seed 001, requirements I1, I5 and I6.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from placement_core import errors as core_errors
from placement_core.cells import errors as cell_errors, mappings, watermarks
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.compute import capacity, errors, gate, migration, offers, rows
from placement_core.compute.capacity import Capacity
from placement_core.compute.gate import Gate
from placement_core.compute.offers import Offer
from placement_core.compute.records import ComputeNode, NodeRow, State
from placement_core.context import Context
from placement_core.db import texts
from placement_core.placement import rows as provider_rows
from placement_core.plugin_api.counting import MissingCell

LOG = logging.getLogger(__name__)

#: So many nodes are migrated by one reader; the rest is for the next one.
ON_LOAD = 50
#: The most that one page of a listing has.
LARGEST_PAGE = 1000

_WATERMARK = "migrate_compute_nodes"
#: So many rows of a cell are looked at, at a time.
_PAGE = 200
#: A mark is a cell's id and a node's id in one number.
_NODE_BITS = 32

#: (cell uuid, node id).
Key = tuple[str, int]
Located = tuple[Cell, NodeRow]


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A page of compute nodes.

    :ivar missing: cells whose nodes are not in it.
    :ivar more: whether there are others behind the last one.
    """

    nodes: Sequence[ComputeNode]
    missing: Sequence[MissingCell]
    more: bool


@dataclasses.dataclass(slots=True)
class Progress:
    """What a run of the migration did.

    :ivar gate: whether it could begin.
    :ivar found: how many nodes it met that are not migrated, or have changed since.
    :ivar done: how many of them it migrated.
    :ivar refused: why others were not, in sentences.
    :ivar remarks: what of those that were is not counted, in sentences.
    :ivar missing: cells that it could not look into.
    """

    gate: Gate
    found: int = 0
    done: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    missing: list[MissingCell] = dataclasses.field(default_factory=list)

    @property
    def troubles(self) -> list[str]:
        """Why there may be something left, in sentences."""
        found = [] if self.gate.open or not self.found else [
            f"{self.found} compute nodes have to wait: {self.gate.reason}."]
        return [*found, *self.refused, *(
            f"Cell {each.name} is missing: {each.reason}. Run this again when it is back."
            for each in self.missing)]


def migrate_compute_nodes(ctx: Context, max_count: int, nodes: ComputeNodes) -> tuple[int, int]:
    """Make compute nodes resource providers (online migration).

    :returns: (how many waited for it, how many of them were migrated now).
    """
    progress = nodes.migrate(ctx, max_count)
    for line in (*progress.troubles, *progress.remarks):
        LOG.warning("%s: %s", _WATERMARK, line)
    return progress.found, progress.done


def count_waiting(ctx: Context, nodes: ComputeNodes) -> int:
    """Return how many compute nodes wait for ``migrate_compute_nodes``."""
    return nodes.waiting(ctx).found


class ComputeNodes:
    """Reads, saves and migrates the compute nodes of all cells."""

    def __init__(self, conf: cfg.ConfigOpts, cells: CellDatabases) -> None:
        """Take the options of ``[compute]``.

        :raises core_errors.ConfigurationError: one makes no sense.
        """
        self._cells = cells
        self._rules = offers.Rules.of(conf)
        self._minimum: int = conf.compute.minimum_service_version

    def list_(
        self, ctx: Context, *, cell: str | None = None, named: str | None = None,
        after: Key | None = None, limit: int = LARGEST_PAGE,
    ) -> Listing:
        """Return nodes, by cell and in the order of creation.

        Each cell is asked one question, and our own database one for all of them. Nodes
        that are not migrated cost more; up to ``ON_LOAD`` of them are migrated on the way.

        :param cell: the uuid or name of the only one that is asked.
        :param named: only those whose host or hypervisor_hostname this is.
        :param after: the last one of the page before.
        :raises cells.errors.UnknownCell: there is no such cell.
        :raises cells.errors.AmbiguousCell: several have this name.
        """
        asked = self._cells.cells(ctx)
        if cell is not None:
            asked = _only(asked, cell)
        if named is not None and not texts.is_storable(named):
            asked = []
        first = {each.uuid: 0 for each in asked}
        if after is not None:
            first[after[0]] = after[1]
            numbers = [each.uuid for each in asked]
            asked = asked[numbers.index(after[0]):] if after[0] in numbers else []

        def question(ctx: Context, cell: Cell) -> list[NodeRow]:
            return rows.page(ctx, after=first[cell.uuid], most=limit + 1, named=named)

        answers = self._cells.scatter_gather(ctx, question, asked)
        found = [(each, node) for each in asked for node in answers.answers.get(each.uuid, ())]
        return Listing(
            self._complete(ctx, found[:limit]), answers.missing, more=len(found) > limit)

    def get(self, ctx: Context, uuid: str) -> ComputeNode:
        """Return a node.

        :raises errors.ComputeNodeNotFound: no cell has it.
        :raises errors.CellsMissing: none of the cells that answer has it.
        :raises errors.DuplicateComputeNode: several have it.
        """
        [node] = self._complete(ctx, [self._find(ctx, uuid)])
        return node

    def cpu_info(self, ctx: Context, node: ComputeNode) -> str | None:
        """Return what a node's record says about its processors: nova's JSON.

        :raises core_errors.Unavailable: its cell does not answer.
        """
        return rows.cpu_info(self._cells.of(ctx, node.cell), node.id)

    def save(self, ctx: Context, uuid: str, changes: Mapping[str, Any]) -> ComputeNode:
        """Change a node's capacity; return the node.

        It goes to the inventories only; to the cell's table while some service of nova
        would look for it there.

        :param changes: of vcpus, memory_mb, local_gb and the three ratios.
        :raises errors.ComputeNodeNotFound: no cell has it.
        :raises errors.CellsMissing: none of the cells that answer has it.
        :raises errors.InvalidComputeNode: a value makes no sense.
        :raises errors.NotMigratable: it can be saved in neither place.
        :raises placement.errors.InventoryInUse: an amount of 0 is allocated from.
        """
        capacity.require_sense(changes)
        cell, row = self._find(ctx, uuid)
        [node] = self._complete(ctx, [(cell, row)])
        if node.state is State.GATE_CLOSED:
            rows.update(self._cells.of(ctx, cell), node.id, changes)
        elif node.state is State.MIGRATED:
            capacity.save(ctx, uuid, changes, offers.of_node(
                dataclasses.replace(row, **changes), self._rules).inventories)
        else:
            raise errors.NotMigratable(row.title, cell.title, node.reason)
        return self.get(ctx, uuid)

    def migrate(self, ctx: Context, max_count: int) -> Progress:
        """Make nodes resource providers, at most ``max_count``, from where it stopped last.

        Nodes that cannot be migrated, and cells that do not answer, hold up no others.
        """
        progress = Progress(gate.check(ctx, self._cells, self._minimum))
        if not progress.gate.open:
            return self._waiting(ctx, progress)
        start = watermarks.get(ctx, _WATERMARK)
        at = self._migrate(ctx, progress, max_count, start, None)
        if at is None and start:
            at = self._migrate(ctx, progress, max_count, 0, start)
        if (at or 0) != start:
            watermarks.put(ctx, _WATERMARK, at or 0)
        return progress

    def waiting(self, ctx: Context) -> Progress:
        """Say what ``migrate`` has to do; nothing is written."""
        return self._waiting(ctx, Progress(gate.check(ctx, self._cells, self._minimum)))

    def _waiting(self, ctx: Context, progress: Progress) -> Progress:
        progress.found = sum(1 for _ in self._due(ctx, progress, 0, None))
        return progress

    def _migrate(
        self, ctx: Context, progress: Progress, max_count: int, after: int, until: int | None
    ) -> int | None:
        """Go over nodes in their order; return where it stopped, None at the end."""
        for at, (cell, node), offer in self._due(ctx, progress, after, until):
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

    def _due(
        self, ctx: Context, progress: Progress, after: int, until: int | None
    ) -> Iterator[tuple[int, Located, Offer]]:
        """Yield nodes that are not migrated or have changed, each with its mark."""
        for cell in self._cells.cells(ctx):
            first = cell.id << _NODE_BITS
            if after >= first + (1 << _NODE_BITS) or (until is not None and until <= first):
                continue
            for page in self._pages(ctx, progress, cell, max(after - first, 0)):
                offered = self._offers(ctx, [(cell, node) for node in page])
                known = migration.records(ctx, {node.uuid for node in page if node.uuid})
                for node in page:
                    if until is not None and first + node.id > until:
                        return
                    offer = offered.get((cell.uuid, node.id))
                    if offer is not None and migration.is_due(
                            known.get(node.uuid or ""), cell, node, offer):
                        yield first + node.id, (cell, node), offer

    def _pages(
        self, ctx: Context, progress: Progress, cell: Cell, after: int
    ) -> Iterator[list[NodeRow]]:
        """Yield the rows of a cell; note when it does not answer."""
        def question(ctx: Context, _cell: Cell) -> list[NodeRow]:
            return rows.page(ctx, after=after, most=_PAGE)

        while True:
            answers = self._cells.scatter_gather(ctx, question, [cell])
            if answers.missing and cell.uuid not in {each.uuid for each in progress.missing}:
                progress.missing += answers.missing
            page = answers.answers.get(cell.uuid)
            if not page:
                return
            after = page[-1].id
            yield page

    def _migrate_one(
        self, ctx: Context, cell: Cell, node: NodeRow, offer: Offer
    ) -> str | core_errors.Error:
        """Return the uuid of a node that is migrated now, or why it is not."""
        try:
            return migration.migrate_inventory(ctx, self._cells, cell, node, offer)
        except (errors.NotMigratable, core_errors.Unavailable) as error:
            return error

    def _offers(self, ctx: Context, found: Sequence[Located]) -> dict[Key, Offer]:
        """Return what nodes offer, without those of cells that do not answer."""
        ids: dict[str, list[int]] = collections.defaultdict(list)
        for cell, node in found:
            ids[cell.uuid].append(node.id)

        def question(ctx: Context, cell: Cell) -> Mapping[int, Mapping[str, int]]:
            return rows.devices(ctx, ids[cell.uuid])

        devices = self._cells.scatter_gather(
            ctx, question, list({cell.uuid: cell for cell, _ in found}.values())).answers
        shared = capacity.on_shared_storage(ctx, [node.uuid for _, node in found if node.uuid])
        return {
            (cell.uuid, node.id): offers.of_node(
                node, self._rules, devices=devices[cell.uuid].get(node.id),
                shared_storage=node.uuid in shared)
            for cell, node in found if cell.uuid in devices}

    def _find(self, ctx: Context, uuid: str) -> Located:
        if not provider_rows.is_provider_uuid(uuid):
            raise errors.ComputeNodeNotFound(uuid)
        asked = self._cells.cells(ctx)
        answers = self._cells.scatter_gather(
            ctx, lambda ctx, _cell: rows.by_uuid(ctx, uuid), asked)
        # MySQL compares without regard to case.
        found = [(cell, node) for cell in asked
                 for node in answers.answers.get(cell.uuid, ()) if node.uuid == uuid]
        if len(found) > 1:
            (cell, node), (other_cell, other) = found[:2]
            raise errors.DuplicateComputeNode(
                node.title, cell.title, uuid, other.title, other_cell.title)
        if not found and answers.missing:
            raise errors.CellsMissing([each.name for each in answers.missing])
        if not found:
            raise errors.ComputeNodeNotFound(uuid)
        return found[0]

    def _complete(self, ctx: Context, found: Sequence[Located]) -> list[ComputeNode]:
        """Return nodes with their capacity; migrate those that are not yet."""
        kept = capacity.of_nodes(ctx, [node.uuid for _, node in found if node.uuid])
        loaded = self._load(ctx, [
            (cell, node) for cell, node in found if (cell.uuid, node.id) not in kept])
        kept |= capacity.of_nodes(ctx, [
            node.uuid for node in loaded.values() if node.uuid and node.state is State.MIGRATED])
        made = []
        for cell, node in found:
            key = cell.uuid, node.id
            if key in kept:
                before = loaded.get(key) or self._record(cell, node, State.MIGRATED)
                made.append(_with_capacity(before, kept[key]))
            else:
                made.append(loaded[key])
        return made

    def _load(self, ctx: Context, found: Sequence[Located]) -> dict[Key, ComputeNode]:
        """Migrate nodes that are read, or say why they are not migrated."""
        if not found:
            return {}
        offered = self._offers(ctx, found)
        checked = gate.check(ctx, self._cells, self._minimum)
        made = {}
        for number, (cell, node) in enumerate(found):
            offer = offered.get((cell.uuid, node.id))
            if offer is None:
                record = self._record(cell, node, State.PENDING, f"cell {cell.title} is missing")
                offer = offers.of_node(node, self._rules)
            elif not checked.open:
                record = self._record(cell, node, State.GATE_CLOSED, checked.reason)
                if node.uuid is None and number < ON_LOAD:
                    record = self._give_uuid(ctx, record)
            elif number >= ON_LOAD:
                record = self._record(cell, node, State.PENDING, "it was not its turn yet")
            else:
                outcome = self._migrate_one(ctx, cell, node, offer)
                if isinstance(outcome, errors.NotMigratable):
                    record = self._record(cell, node, State.REFUSED, outcome.reason)
                elif isinstance(outcome, core_errors.Error):
                    record = self._record(cell, node, State.PENDING, str(outcome))
                else:
                    record = dataclasses.replace(
                        self._record(cell, node, State.MIGRATED), uuid=outcome)
            made[cell.uuid, node.id] = dataclasses.replace(
                record, inventories=offer.inventories, remarks=tuple(offer.remarks))
        return made

    def _give_uuid(self, ctx: Context, node: ComputeNode) -> ComputeNode:
        """Give a node a uuid that is read: that waits for nobody."""
        try:
            uuid = rows.give_uuid(self._cells.of(ctx, node.cell), node.id)
        except core_errors.Unavailable:
            return node
        return dataclasses.replace(node, uuid=uuid)

    def _record(
        self, cell: Cell, node: NodeRow, state: State, reason: str = ""
    ) -> ComputeNode:
        """Return a node as its row has it."""
        ratios: dict[str, Any] = {
            ratio: getattr(node, ratio) or self._rules.ratios[name]
            for name, (_, ratio) in capacity.FIELDS.items()}
        return ComputeNode(
            cell, node.id, node.uuid, node.host, node.hypervisor_hostname,
            node.hypervisor_type, node.hypervisor_version, node.vcpus, node.memory_mb,
            node.local_gb, **ratios, inventories={}, state=state, reason=reason,
            created_at=_aware(node.created_at), updated_at=_aware(node.updated_at))


def _only(found: list[Cell], cell: str) -> list[Cell]:
    try:
        return [mappings.pick(found, cell)]
    except cell_errors.CellNotFound:
        raise cell_errors.UnknownCell(cell) from None


def _aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC)


def _with_capacity(node: ComputeNode, found: Capacity) -> ComputeNode:
    """Return a node with what its inventories say; what has none, it has nothing of."""
    fields: dict[str, Any] = {}
    for name, (amount, ratio) in capacity.FIELDS.items():
        fields[amount] = found[name].total if name in found else 0
        if name in found:
            fields[ratio] = found[name].allocation_ratio
    return dataclasses.replace(node, inventories=found, **fields)
